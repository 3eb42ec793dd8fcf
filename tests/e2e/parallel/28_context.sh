#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Ranks that divide sequences (Ulysses), alone and beside those that divide layers and stages: after 20 steps each tensor agrees with one rank's to
# 1e-6 of its norm, with any stage of ZeRO; what each rank sends, counted by MPI's profiling interface, equals the formula; a run is continued and
# evaluated; memory is what was predicted.
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
sgd=(--optimizer sgd --lr 0.1 --min-lr 0.1 --warmup 0)
train=("$TRAIN" gpt2-tiny --layers 2 --channels 32 --heads 4 --data "$SRC/LICENSE" --seq 16 --batch 2 --seed 3 --log-every 1 --steps 20 "${sgd[@]}")
near() { python3 "$SRC/tests/e2e/parallel/weights_near.py" "$1" "$2" 1e-6 || wrong "weights: $1 and $2"; }

# sent CONTEXTS TP PP MICRO-BATCHES STEPS: "BYTES MESSAGES" of every rank: for each block, micro-batch and direction 4 arrays of its tokens' activations
# turn, in two calls, of its heads only where tp divides these; sums of parts of layers, activations and the tied embedding as in 28_tensor.sh, of its
# tokens; gradients and parameters of its part of a stage as in 28_zero.sh, among the ranks that have the same
sent() {
    awk -v n="$1" -v tp="$2" -v pp="$3" -v micro="$4" -v steps="$5" -v l=2 'function chunk(x, parts, r) { r %= parts; return int(x * (r + 1) / parts) - int(x * r / parts) }
        function ring(x, parts, r) { return 4 * (2 * x - chunk(x, parts, r) - chunk(x, parts, r + 1)) }
        BEGIN { c = 32; v = 256; tokens = 2 * 16 / n; a = tokens * c
            for (s = 0; s < pp; s++) for (r = 0; r < n; r++) for (p = 0; p < tp; p++) {
                blocks = chunk(l, pp, s); first = s == 0; last = s == pp - 1; w = chunk(v, tp, p) * c
                bytes = micro * blocks * 2 * 4 * 4 * a / tp * (n - 1) / n; messages = micro * blocks * 2 * 2 * (n - 1)
                sums = tp > 1 ? (4 * blocks + first + last) * micro : 0; bytes += sums * ring(a, tp, p) + (tp > 1) * last * micro * 12 * tokens * (tp - 1)
                messages += (2 * sums + (tp > 1) * last * micro) * (tp - 1)
                sides = 2 - first - last; bytes += sides * micro * 4 * a; messages += sides * micro
                ties = (pp > 1) * (first + last); bytes += ties * 4 * w; messages += ties
                block = 12 * c * c / tp + 6 * c + 7 * c / tp; once = first * (w + 128 * c) + last * 2 * c
                if (blocks == 1) { blocks = 0; once += block } # nothing is there more than once
                bytes += ring(once, n, r) + blocks * ring(block, n, r); messages += (1 + blocks) * 2 * (n - 1)
                print steps * bytes, steps * messages } }'
}
"${train[@]}" --accumulate 2 --checkpoint one --eval-every 10 > out || wrong "one rank"
grep '^evaluation' out | sed 's/  (.*//' > evaluations
for case in "dp2.cp2 4 1 --zero 3" "cp4 4 2 --zero 2 --recompute block" "tp2.cp2 4 2 --zero 3 --sequence-parallel" "cp2.pp2 4 2 --zero 2"; do
    read -r layout ranks micro options <<< "$case"
    counted "$ranks" --layout "$layout" --accumulate "$micro" $options --checkpoint many --eval-every 10
    near one many
    grep '^evaluation' out | sed 's/  (.*//' | diff evaluations - || wrong "$layout: other evaluations than one rank's"
    ! grep 'by formula' out | grep -v 'sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' || wrong "$layout: counted, by formula: $(grep formula out)"
    grep -q '^parts of sequences: rank 0 sent [1-9]' out || wrong "$layout: no bytes of sequences: $(cat out)"
done
for case in "4 1 1 1" "2 2 2 1"; do
    read -r contexts tp pp micro <<< "$case"
    layout=cp$contexts.tp$tp.pp$pp ranks=$((contexts * tp * pp))
    counted "$ranks" --layout "$layout" --accumulate "$micro" --steps 2
    cat $(seq -f 'sent.%g' 0 $((ranks - 1))) > counts
    sent "$contexts" "$tp" "$pp" "$micro" 2 | diff counts - > d || wrong "$layout: counted, by formula: $(cat d)"
done
counted 2 --layout cp2 --accumulate 2 --steps 10 --eval-every 10 --checkpoint half
"${train[@]}" --accumulate 2 --eval-every 10 --resume half --checkpoint rest > out || wrong "one rank does not continue cp2"
near one rest

large=("$TRAIN" gpt2-tiny --layers 4 --channels 128 --heads 4 --data "$SRC/LICENSE" --seq 64 --batch 4 --steps 1 --workers 0)
for case in "cp2 2" "cp2.tp2.pp2 8"; do
    read -r layout ranks <<< "$case"
    mpirun -np "$ranks" --oversubscribe "${large[@]}" --layout "$layout" > out 2> err || wrong "large, $layout: $(cat err)"
    awk '/ MiB at its peak/ { p = $7; gsub(/[(+]/, "", p); seen = 1 } END { exit !seen || p > 2 || p < -2 }' out || wrong "memory of $layout: $(grep memory out)"
done

refused() { # WORDS RANKS ARGUMENTS
    mpirun -np "$2" --oversubscribe "${train[@]}" "${@:3}" > out 2> err
    grep -q "$1" err && grep -q '^hint: ' err || wrong "${*:3}: $(cat err)"
}
refused '^train: --context none: unknown' 2 --context none --layout cp2
refused '4 ranks do not divide 2 heads' 4 --layout cp2.tp2 --heads 2
refused '2 ranks do not divide sequences of 15 tokens' 2 --layout cp2 --seq 15
exit $bad
