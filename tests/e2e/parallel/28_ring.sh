#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Ranks that pass keys and values of their parts of sequences around a ring: after 20 steps each tensor agrees with one rank's to 1e-6 of its norm; what
# each rank sends, counted by MPI's profiling interface, equals the formula; attention takes as many FLOPs on each rank where parts are folded.
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
train=("$TRAIN" gpt2-tiny --layers 2 --channels 30 --heads 3 --data "$SRC/LICENSE" --seq 16 --batch 2 --seed 3 --log-every 1 --steps 20
    --optimizer sgd --lr 0.1 --min-lr 0.1 --warmup 0)

# sent CONTEXTS MICRO-BATCHES STEPS: "BYTES MESSAGES" of every rank: for each block and micro-batch keys and values (2 a) go N - 1 times forward and
# N - 1 times backward, their gradients N times; gradients and parameters as in 28_zero.sh
sent() {
    awk -v n="$1" -v micro="$2" -v steps="$3" -v l=2 'function chunk(x, r) { r %= n; return int(x * (r + 1) / n) - int(x * r / n) }
        BEGIN { c = 30; u[0] = (256 + 128 + 2) * c; for (i = 1; i <= l; i++) u[i] = 12 * c * c + 13 * c
            for (r = 0; r < n; r++) { a = 2 * 16 * c * 4 / n; bytes = steps * micro * l * 2 * a * (2 * (n - 1) + n); messages = steps * micro * l * (2 * (n - 1) + n)
                for (i = 0; i <= l; i++) { bytes += steps * 4 * (2 * u[i] - chunk(u[i], r) - chunk(u[i], r + 1)); messages += steps * 2 * (n - 1) }
                print bytes, messages } }'
}
"${train[@]}" --accumulate 2 --checkpoint one --eval-every 10 > out || wrong "one rank"
grep '^evaluation' out | sed 's/  (.*//' > evaluations
for case in "ring cp2.tp3 6 2 --zero 3" "ring cp4 4 2 --recompute block" "ring-contiguous cp2.pp2 4 2 --pipeline zb-h1"; do
    read -r kind layout ranks micro options <<< "$case"
    counted "$ranks" --context "$kind" --layout "$layout" --accumulate "$micro" $options --checkpoint many --eval-every 10
    python3 "$SRC/tests/e2e/parallel/weights_near.py" one many 1e-6 || wrong "$kind, $layout: weights"
    grep '^evaluation' out | sed 's/  (.*//' | diff evaluations - || wrong "$kind, $layout: other evaluations than one rank's"
    ! grep 'by formula' out | grep -v 'sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' || wrong "$kind, $layout: counted, by formula: $(grep formula out)"
done
# with t tokens of a rank, 14 b c FLOPs a pair, layer and step: contiguous parts have t^2 pairs in each of r + 1 turns (blocks of attention are larger
# than t here), folded ones t^2 + (N - 1) t^2 / 2 on every rank
flops() { awk -v most="$1" -v mean="$2" -v one=$((2 * 2 * 14 * 2 * 30 * 4 * 4)) 'BEGIN { printf "%.6g %.6g (%.4f\n", 1e-9 * one * mean, 1e-9 * one * most, most / mean }'; }
for kind in ring ring-contiguous; do
    counted 4 --context $kind --layout cp4 --steps 2
    cat $(seq -f 'sent.%g' 0 3) > counts
    sent 4 1 2 | diff counts - > d || wrong "$kind: counted, by formula: $(cat d)"
    most=2.5
    [ $kind = ring ] || most=4
    sed -n 's/^attention: \([^ ]*\) GFLOP a rank; rank [0-9] has the most, /\1 /; s/ times the mean)$//p' out | diff - <(flops $most 2.5) > d || wrong "$kind: FLOPs of attention: $(cat d)"
done

large=("$TRAIN" gpt2-tiny --layers 4 --channels 128 --heads 4 --data "$SRC/LICENSE" --seq 64 --batch 4 --steps 1 --workers 0 --layout cp2)
mpirun -np 2 --oversubscribe "${large[@]}" --context ring > out 2> err || wrong "large ring: $(cat err)"
awk '/ MiB at its peak/ { p = $7; gsub(/[(+]/, "", p); seen = 1 } END { exit !seen || p > 2 || p < -2 }' out || wrong "memory of the ring: $(grep memory out)"

refused() { # WORDS RANKS ARGUMENTS
    mpirun -np "$2" --oversubscribe "${train[@]}" "${@:3}" > out 2> err
    grep -q "$1" err && grep -q '^hint: ' err || wrong "${*:3}: $(cat err)"
}
refused 'no ranks divide sequences' 2 --context ring
refused 'two chunks for each of 2 ranks do not divide sequences of 18 tokens' 2 --context ring --layout cp2 --seq 18
exit $bad
