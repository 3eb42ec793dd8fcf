#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Ranks that divide sequences (Ulysses): after 20 steps each tensor agrees with one rank's to 1e-6 of its norm, with any stage of ZeRO; what each
# rank sends, counted by MPI's profiling interface, equals the formula; a run is continued and evaluated; memory is what was predicted.
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
sgd=(--optimizer sgd --lr 0.1 --min-lr 0.1 --warmup 0)
train=("$TRAIN" gpt2-tiny --layers 2 --channels 32 --heads 4 --data "$SRC/LICENSE" --seq 16 --batch 2 --seed 3 --log-every 1 --steps 20 "${sgd[@]}")
near() { python3 "$SRC/tests/e2e/parallel/weights_near.py" "$1" "$2" 1e-6 || wrong "weights: $1 and $2"; }

# sent CONTEXTS MICRO-BATCHES STEPS: "BYTES MESSAGES" of every rank: for each block, micro-batch and direction 4 arrays of its tokens' activations
# turn, in two calls; gradients and parameters as in 28_zero.sh
sent() {
    awk -v n="$1" -v micro="$2" -v steps="$3" -v l=2 'function chunk(x, r) { r %= n; return int(x * (r + 1) / n) - int(x * r / n) }
        BEGIN { c = 32; u[0] = (256 + 128 + 2) * c; for (i = 1; i <= l; i++) u[i] = 12 * c * c + 13 * c
            for (r = 0; r < n; r++) { a = 2 * 16 * c * 4 / n; bytes = steps * micro * l * 2 * 4 * a * (n - 1) / n; messages = steps * micro * l * 2 * 2 * (n - 1)
                for (i = 0; i <= l; i++) { bytes += steps * 4 * (2 * u[i] - chunk(u[i], r) - chunk(u[i], r + 1)); messages += steps * 2 * (n - 1) }
                print bytes, messages } }'
}
"${train[@]}" --accumulate 2 --checkpoint one --eval-every 10 > out || wrong "one rank"
grep '^evaluation' out | sed 's/  (.*//' > evaluations
for case in "cp2 2 2 --zero 1" "dp2.cp2 4 1 --zero 3" "cp4 4 2 --zero 2 --recompute block"; do
    read -r layout ranks micro options <<< "$case"
    counted "$ranks" --layout "$layout" --accumulate "$micro" $options --checkpoint many --eval-every 10
    near one many
    grep '^evaluation' out | sed 's/  (.*//' | diff evaluations - || wrong "$layout: other evaluations than one rank's"
    ! grep 'by formula' out | grep -v 'sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' || wrong "$layout: counted, by formula: $(grep formula out)"
    grep -q '^parts of sequences: rank 0 sent [1-9]' out || wrong "$layout: no bytes of sequences: $(cat out)"
done
for case in "2 2" "4 1"; do
    read -r contexts micro <<< "$case"
    counted "$contexts" --layout "cp$contexts" --accumulate "$micro" --steps 2
    cat $(seq -f 'sent.%g' 0 $((contexts - 1))) > counts
    sent "$contexts" "$micro" 2 | diff counts - > d || wrong "cp$contexts: counted, by formula: $(cat d)"
done
counted 2 --layout cp2 --accumulate 2 --steps 10 --eval-every 10 --checkpoint half
"${train[@]}" --accumulate 2 --eval-every 10 --resume half --checkpoint rest > out || wrong "one rank does not continue cp2"
near one rest

large=("$TRAIN" gpt2-tiny --layers 4 --channels 128 --heads 4 --data "$SRC/LICENSE" --seq 64 --batch 4 --steps 1 --workers 0 --layout cp2)
mpirun -np 2 --oversubscribe "${large[@]}" > out 2> err || wrong "large: $(cat err)"
awk '/ MiB at its peak/ { p = $7; gsub(/[(+]/, "", p); seen = 1 } END { exit !seen || p > 2 || p < -2 }' out || wrong "memory: $(grep memory out)"

refused() { # WORDS RANKS ARGUMENTS
    mpirun -np "$2" --oversubscribe "${train[@]}" "${@:3}" > out 2> err
    grep -q "$1" err && grep -q '^hint: ' err || wrong "${*:3}: $(cat err)"
}
refused '^train: --context none: unknown' 2 --context none --layout cp2
refused 'not cp with tp' 4 --layout cp2.tp2
refused '3 ranks do not divide 4 heads' 3 --layout cp3
refused '2 ranks do not divide sequences of 15 tokens' 2 --layout cp2 --seq 15
exit $bad
