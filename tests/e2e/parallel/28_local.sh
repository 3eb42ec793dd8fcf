#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Local steps over MPI: with a mean after each step of SGD the weights are those of summed gradients; what a rank sends every H steps, counted
# by MPI's profiling interface, equals the formula; an outer step is what its formula says; memory is what was predicted.
# shellcheck disable=SC2154 # variables of ranks_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
train=("$TRAIN" gpt2-tiny --layers 2 --channels 36 --heads 3 --data "$SRC/LICENSE" --seq 16 --batch 4 --seed 3 --log-every 1 --steps 12
    --optimizer sgd --lr 0.1 --min-lr 0.1 --warmup 0 --clip 0 --weight-decay 0)
near() { python3 "$SRC/tests/e2e/parallel/weights_near.py" "$1" "$2" "$3" || wrong "$4"; }
counted 3 --checkpoint summed
counted 3 --local-steps 1 --checkpoint mean
near summed mean 1e-6 "a mean after each step is not the summed gradient"
# 4 bytes a parameter and padding to lines of 16 floats: the chunks of a ring over the whole array
floats=$(sed -n 's/^parameters: rank 0 sent \([0-9]*\) bytes in .*; by formula.*/\1/p' out)
for every in 3 4; do
    counted 3 --local-steps $every --checkpoint local
    sent=$(cat sent.0)
    [ "$sent" = "$((floats / every)) $((12 / every * 4))" ] || wrong "every $every steps: $sent; every step: $floats"
    grep -q "^parameters: rank 0 sent ${sent% *} bytes in ${sent#* } messages; by formula ${sent% *} in ${sent#* }$" out || wrong "every $every: $(grep formula out)"
    near summed local 0.1 "every $every steps: far from summed gradients"
    cmp -s summed local && wrong "every $every steps: nothing is local"
done
# an outer step of half the way, without momentum, from the same first weights: w0 - (w0 - mean) / 2
counted 3 --local-steps 12 --checkpoint whole
counted 3 --local-steps 12 --outer-lr 0.5 --checkpoint half
mpirun -np 3 "${train[@]}" --lr 0 --min-lr 0 --checkpoint start > out 2> err || wrong "start: $(cat err)"
python3 - "$SRC/tests/e2e/parallel/weights_near.py" << 'P' || wrong "an outer step of 0.5 is not half of the way"
import sys
source = open(sys.argv[1], encoding="utf-8").read().rsplit("main()", 1)[0]
names = {}
exec(source, names)
start, whole, half = (names["parameters"](name)[1] for name in ("start", "whole", "half"))
sys.exit(not all(abs(h - (a + b) / 2) < 1e-6 for a, b, h in zip(start, whole, half)) or start == half)
P
large=("$TRAIN" gpt2-tiny --layers 8 --channels 128 --heads 4 --data "$SRC/LICENSE" --seq 16 --batch 1 --steps 2 --workers 0 --local-steps 2 --outer-momentum 0.9)
mpirun -np 2 --oversubscribe "${large[@]}" > out 2> err || wrong "large: $(cat err)"
awk '/ MiB at its peak/ { p = $7; gsub(/[(+]/, "", p); seen = 1 } END { exit !seen || p > 2 || p < -2 }' out || wrong "memory: $(grep memory out)"
refused() { # WORDS ARGUMENTS
    "${train[@]}" "${@:2}" > out 2> err
    [ $? = 2 ] && grep -q "$1" err && grep -q '^hint: ' err || wrong "${*:2}: $(cat err)"
}
refused 'different weights after 12 steps' --local-steps 5
refused 'not with --zero' --local-steps 4 --zero 1
exit $bad
