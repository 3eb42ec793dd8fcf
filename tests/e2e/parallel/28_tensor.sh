#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Layers divided among ranks, alone and with stages and replicas: after 20 steps of SGD in fp32 each tensor is that of one rank to 1e-6 of
# its norm; what each rank sends, counted by MPI's profiling interface, equals the formula; memory is as predicted; any layout continues a
# run of any other.
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086,SC2046 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
train=("$TRAIN" gpt2-tiny --layers 4 --channels 48 --heads 4 --vocab 259 --data "$SRC/LICENSE" --seq 16 --batch 1 --seed 3 --log-every 1
    --steps 20 --optimizer sgd --lr 0.1 --min-lr 0.1 --warmup 0)
# near A B: the parameters of two checkpoints, tensor by tensor
near() { python3 "$SRC/tests/e2e/parallel/weights_near.py" "$1" "$2" 1e-6; }

# sent TP PP MICRO-BATCHES STEPS SEQUENCE: "BYTES MESSAGES" of every rank by the formula, which is that of every schedule. A sum around a ring of n elements: all chunks but
# the own and all but the next one's; with divided rows these are two calls, and the layernorms' gradients are summed once a step; the
# gather of the loss: 3 floats a token to the next rank, tp - 1 times.
sent() {
    awk -v tp="$1" -v pp="$2" -v micro="$3" -v steps="$4" -v seq="$5" -v l=4 -v c=48 -v v=259 -v tokens=16 'function chunk(n, r) { r %= tp; return int(n * (r + 1) / tp) - int(n * r / tp) }
        BEGIN { n = tokens * c
            for (s = 0; s < pp; s++) for (r = 0; r < tp; r++) {
            blocks = int(l * (s + 1) / pp) - int(l * s / pp)
            sums = (4 * blocks + (s == 0) + (s == pp - 1)) * micro * steps; gathers = (s == pp - 1) * micro * steps; norms = seq * 2 * (2 * blocks + (s == pp - 1)) * steps
            bytes = sums * 4 * (2 * n - chunk(n, r) - chunk(n, r + 1)) + gathers * (tp - 1) * 12 * tokens + norms * 4 * (2 * c - chunk(c, r) - chunk(c, r + 1)); messages = (2 * sums + gathers + 2 * norms) * (tp - 1)
            sides = (s > 0) + (s < pp - 1); bytes += sides * steps * micro * 4 * n / (seq ? tp : 1); messages += sides * steps * micro
            ties = (pp > 1) * ((s == 0) + (s == pp - 1)) * steps; bytes += ties * chunk(v, r) * c * 4; messages += ties
            print bytes, messages } }'
}

"${train[@]}" --accumulate 2 --checkpoint one > out || wrong "one rank"
for case in "tp2 2 2" "tp2.pp2 4 2" "dp2.tp2 4 1" "tp2.pp2 4 2 --sequence-parallel" \
    "tp2.pp2 4 2 --pipeline zb-h1" "tp2.pp2 4 2 --pipeline zb-h1 --sequence-parallel" "tp2.pp2 4 2 --zero 3"; do
    read -r layout ranks micro options <<< "$case"
    counted "$ranks" --layout "$layout" --accumulate "$micro" $options --checkpoint many
    near one many || wrong "$layout $options: other weights than one rank's"
    ! grep 'by formula' out | grep -v 'sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' || wrong "$layout $options: counted, by formula: $(grep formula out)"
done
for case in "2 2 2 0 1f1b" "4 1 1 1 1f1b" "2 2 3 0 zb-h1" "2 2 3 1 zb-h1"; do
    read -r tp pp micro sequence schedule <<< "$case"
    counted $((tp * pp)) --layout "tp$tp.pp$pp" --accumulate "$micro" --steps 2 --pipeline "$schedule" $([ "$sequence" = 0 ] || echo --sequence-parallel)
    cat $(seq -f 'sent.%g' 0 $((tp * pp - 1))) > counts
    sent "$tp" "$pp" "$micro" 2 "$sequence" | diff counts - > d || wrong "tp$tp.pp$pp, $schedule: counted, by formula: $(cat d)"
done

# ---- a run of one layout is continued by another, and evaluated by all ranks alike
half=(--accumulate 2 --steps 10 --eval-every 10)
counted 4 --layout tp2.pp2 "${half[@]}" --checkpoint half
grep '^evaluation' out | sed 's/  (.*//' > evaluation
"${train[@]}" "${half[@]}" | grep '^evaluation' | sed 's/  (.*//' | diff evaluation - || wrong "tp2.pp2 evaluates otherwise than one rank"
"${train[@]}" --accumulate 2 --resume half --eval-every 10 --checkpoint rest > out || wrong "one rank does not continue tp2.pp2: $(cat out)"
counted 2 --layout tp2 --accumulate 2 --resume half --eval-every 10 --zero 3 --checkpoint many
near rest many || wrong "tp2 with zero 3 continues otherwise than one rank"

# ---- what is held: activations of half of the heads and of the MLP
large=("$TRAIN" gpt2-tiny --layers 4 --channels 128 --heads 4 --data "$SRC/LICENSE" --seq 64 --batch 4 --steps 1 --workers 0 --layout tp2)
mpirun -np 2 --oversubscribe "${large[@]}" --sequence-parallel > out 2> err || wrong "large: $(cat err)"
fits() { awk '/ MiB at its peak/ { p = $7; gsub(/[(+]/, "", p); seen = 1 } END { exit !seen || p > 2 || p < -2 }' out || wrong "memory: $(grep memory out)"; }
fits
mpirun -np 4 --oversubscribe "${large[@]}" --layout tp2.pp2 --accumulate 4 --pipeline zb-h1 --sequence-parallel > out 2> err || wrong "large, zb-h1: $(cat err)"
fits

refused() { # WORDS RANKS ARGUMENTS
    mpirun -np "$2" --oversubscribe "${train[@]}" "${@:3}" > out 2> err
    grep -q "$1" err && grep -q '^hint: ' err || wrong "${*:3}: $(cat err)"
}
refused 'do not divide 4 heads' 3 --layout tp3
refused 'no ranks divide layers' 2 --sequence-parallel
exit $bad
