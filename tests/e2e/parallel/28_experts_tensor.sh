#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# Ranks that divide the layers of Llama-style models and mixtures, beside ranks that divide the experts, stages and replicas, with and without divided rows of the residual
# stream: after 20 steps each tensor agrees with one rank's to 1e-6 of its norm; what each rank sends, counted by MPI's profiling interface, is what a formula of
# its own and the recorded choices of the routers make; the routers choose as one rank's do; a run is continued by other layouts and evaluated; memory is as predicted.
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086,SC2046 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
near() { python3 "$SRC/tests/e2e/parallel/weights_near.py" "$1" "$2" "${3:-1e-6}" || wrong "weights: $1 and $2"; }
common=(--data "$SRC/LICENSE" --seq 16 --batch 2 --seed 3 --log-every 1 --steps 20 --optimizer sgd --lr 0.1 --min-lr 0.1 --warmup 0)
mixture=("$TRAIN" moe-tiny --layers 2 --channels 32 --heads 4 --groups 2 --hidden 48 "${common[@]}")
# words and hidden channels that the ranks do not divide evenly
dense=("$TRAIN" llama-tiny --layers 2 --channels 32 --heads 4 --groups 4 --hidden 46 --vocab 259 "${common[@]}")

# as_one RANKS MICRO-BATCHES LAYOUT OPTIONS: the weights and evaluations of `one`
as_one() {
    counted "$1" --accumulate "$2" --layout "$3" "${@:4}" --checkpoint many --eval-every 10 --eval-batches 3
    near one many
    grep '^evaluation' out | sed 's/  (.*//' | diff evaluations - || wrong "${*:3}: other evaluations than one rank's"
    ! grep 'by formula' out | grep -v 'sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' || wrong "${*:3}: counted, by formula: $(grep formula out)"
    grep -q '^parts of layers: rank 0 sent [1-9]' out || wrong "${*:3}: no parts of layers: $(cat out)"
}

# sent DP EP TP PP MICRO-BATCHES SEQUENCE: "BYTES MESSAGES" of every rank of a mixture, ZeRO 1. Of ranks that divide the layers, n tokens of c channels: two sums a block and
# direction, one after the embedding, one before the last norm, a sum around a ring being all chunks but the own and all but the next one's; three floats a token to the
# next rank, tp - 1 times, for the loss; once a step the gradient of each router and, with divided rows, of each norm. Of those that divide the experts and have the same
# part of the layers: of each line of its routing its rows for others' experts and the gradients of their results, of the other ranks' the results and the gradients, and
# a number an expert. Gradients and parameters of a part go around the ranks that have it, those of divided experts in units of their own; between stages the rows of this rank travel.
sent() {
    python3 - "$@" << 'P'
import sys

dp, ep, tp, pp, micro, sequence = map(int, sys.argv[1:])
copies, layers, c, e, hidden, words, tokens, keys = dp * ep, 2, 32, 8, 48, 256, 32, 16
own, blocks = e // ep, layers // pp
tables = []
for rank in range(pp * copies * tp):
    with open("routing" + (f".{rank}" if rank else ""), encoding="ascii") as file:
        lines = [line.split() for line in file]
    tables.append([[int(word) for word in line] for line in lines[1:]])
steps = tables[0][-1][0] + 1


def chunk(count, index, size):
    return count * (index % size + 1) // size - count * (index % size) // size


def both(count, index, size):
    """A reduce-scatter and an all-gather, or the sum that they make: bytes and messages."""
    return 4 * (2 * count - chunk(count, index, size) - chunk(count, index + 1, size)), 2 * (size - 1)


for rank, table in enumerate(tables):
    part, expert, replica, stage = rank % tp, rank // tp % ep, rank // tp // ep % dp, rank // tp // copies
    first, last = stage == 0, stage == pp - 1
    total, messages = 0, 0
    for line, cells in enumerate(table):
        rows = [[min(n, tables[rank + (i - expert) * tp][line][3]) for n in tables[rank + (i - expert) * tp][line][4:]] for i in range(ep)]
        away = sum(rows[expert]) - sum(rows[expert][expert * own : (expert + 1) * own])
        here = sum(sum(rows[i][expert * own : (expert + 1) * own]) for i in range(ep) if i != expert)
        total += 2 * (away + here) * c * 4 + (ep - 1) * own * 4
        messages += 5 * (ep - 1)
    sums = [(tokens * c, (4 * blocks + first + last) * micro * steps), (e * c, blocks * steps), (c, sequence * (2 * blocks + last) * steps)]
    for count, times in sums if tp > 1 else []:
        bytes_, sends = both(count, part, tp)
        total += times * bytes_
        messages += times * sends
    total += last * micro * steps * (tp - 1) * 12 * tokens
    messages += last * micro * steps * (tp - 1)
    outer = first * words // tp * c + last * (words // tp * c + c)
    block, experts = ((c + 2 * keys) * c + c * c) // tp + e * c + 2 * c, own * 3 * hidden // tp * c
    block += experts * (ep == 1)
    units = [outer] + blocks * [block] if blocks > 1 else [outer + block]
    shared = [(count, replica * ep + expert, copies) for count in units] + (ep > 1) * blocks * [(experts, replica, dp)]
    for count, index, size in shared:
        bytes_, sends = both(count, index, size)
        total += steps * bytes_
        messages += steps * sends
    sides = (1 - first) + (1 - last)
    total += sides * steps * micro * tokens * c * 4 // (tp if sequence else 1)
    messages += sides * steps * micro
    print(total, messages)
P
}

# needed FILES: what the model needs in the first step, summed over ranks; a router's GEMM is made by several
needed() {
    python3 -c 'import json, sys
steps = [json.load(open(path, encoding="ascii"))["steps"][0] for path in sys.argv[1:]]
print(*(sum(step[key] for step in steps) for key in ("model_flops", "palm_flops")))' "$@"
}

train=("${mixture[@]}")
"${train[@]}" --accumulate 4 --checkpoint one --eval-every 10 --eval-batches 3 > out || wrong "one rank: $(cat out)"
grep '^evaluation' out | sed 's/  (.*//' > evaluations
for case in "4 2 ep2.tp2" "4 2 ep2.tp2 --sequence-parallel --recompute block" "4 2 ep2.tp2 --sequence-parallel --zero 3 --recompute block" "4 4 tp2.pp2 --sequence-parallel" \
    "8 1 dp2.ep2.tp2 --zero 2" "8 2 ep2.tp2.pp2 --sequence-parallel --pipeline gpipe" "8 2 ep2.tp2.pp2 --zero 3 --recompute block"; do
    as_one $case
    [[ $case != *ep* ]] || grep -q '^rows of experts: rank 0 sent [1-9]' out || wrong "$case: no rows: $(cat out)"
done

# ---- what is sent, by the routers' choices, which are one rank's
"${train[@]}" --accumulate 4 --steps 1 --routing one.routing --timers one.times > out || wrong "one rank"
for case in "1 2 2 1 2 0" "1 2 2 1 2 1" "2 1 2 1 2 1" "1 2 2 2 2 1" "2 2 2 1 1 0"; do
    read -r dp ep tp pp micro sequence <<< "$case"
    ranks=$((dp * ep * tp * pp)) streams=$((dp * ep))
    rm -f routing* times*
    counted $ranks --layout "dp$dp.ep$ep.tp$tp.pp$pp" --accumulate "$micro" --steps 6 --routing routing --timers times $([ "$sequence" = 0 ] || echo --sequence-parallel)
    cat $(seq -f 'sent.%g' 0 $((ranks - 1))) > counts
    sent "$dp" "$ep" "$tp" "$pp" "$micro" "$sequence" | diff counts - > d || wrong "$case: counted, by the recorded choices: $(cat d)"
    # micro-batch i of the first step is of stream i of each stage, in rounds; all ranks of a stream choose alike
    awk -v s=$streams '$1 == 0 { for (i = 4; i <= NF; i++) printf "%s ", $i; print ($2 % s), int($2 / s), $3 }' one.routing | sort > expected
    for ((r = 0; r < ranks; r++)); do
        file=routing.$r
        [ $r -gt 0 ] || file=routing
        awk -v r=$((r / tp % streams)) '$1 == 0 { for (i = 4; i <= NF; i++) printf "%s ", $i; print r, $2, $3 }' "$file"
    done | sort -u | diff expected - || wrong "$case: other choices than one rank's"
    needed times* > d && needed one.times | diff - d || wrong "$case: model FLOPs of the first step, exact and of whole squares: $(cat d)"
done
[ -s expected ] || wrong "no choices were recorded"

# ---- continued by other layouts; adamw's state comes into the file and out of it
for case in "4 ep2.tp2 --sequence-parallel" "8 ep2.tp2.pp2"; do
    read -r ranks layout options <<< "$case"
    counted "$ranks" --layout "$layout" $options --accumulate 2 --steps 10 --eval-every 10 --eval-batches 3 --checkpoint half
    "${train[@]}" --accumulate 4 --eval-every 10 --eval-batches 3 --resume half --checkpoint rest > out || wrong "one rank does not continue $layout: $(cat out)"
    near one rest
    counted 4 --layout ep2.pp2 --accumulate 2 --eval-every 10 --eval-batches 3 --resume half --checkpoint rest
    near one rest
    counted 4 --layout ep2.tp2 --accumulate 2 --eval-every 10 --eval-batches 3 --resume half --checkpoint rest
    near one rest
done
adamw=(--optimizer adamw --lr 0.001 --min-lr 0.001 --accumulate 2)
"${train[@]}" "${adamw[@]}" --accumulate 4 --steps 20 --checkpoint one > out || wrong "adamw, one rank"
counted 4 "${adamw[@]}" --layout ep2.tp2 --steps 10 --checkpoint half
counted 2 "${adamw[@]}" --layout ep2 --resume half --checkpoint rest
near one rest 1e-4

# ---- a dense model, in shares that are not equal
train=("${dense[@]}")
"${train[@]}" --accumulate 4 --checkpoint one --eval-every 10 --eval-batches 3 > out || wrong "one rank: $(cat out)"
grep '^evaluation' out | sed 's/  (.*//' > evaluations
for case in "2 4 tp2" "4 4 tp4 --sequence-parallel" "4 2 dp2.tp2 --zero 3 --recompute block" "4 4 tp2.pp2"; do
    as_one $case
done

# ---- memory, and what is refused
large=("$TRAIN" moe-tiny --layers 4 --channels 128 --hidden 352 --data "$SRC/LICENSE" --seq 64 --batch 4 --steps 1 --workers 0 --layout ep2.tp2)
fits() { # RANKS OPTIONS
    timeout 120 mpirun -np "$1" --oversubscribe "${large[@]}" "${@:2}" > out 2> err || wrong "large, ${*:2}: $(cat err)"
    awk '/ MiB at its peak/ { p = $7; gsub(/[(+]/, "", p); seen = 1 } END { exit !seen || p > 2 || p < -2 }' out || wrong "${*:2}: $(grep memory out)"
}
fits 4
fits 4 --sequence-parallel --recompute block
fits 4 --sequence-parallel --dtype bf16
fits 8 --layout dp2.ep2.tp2 --zero 3
fits 8 --layout ep2.tp2.pp2 --accumulate 4 --sequence-parallel
fits 2 --layout tp2 --experts 64 --choices 1 --batch 1 --seq 16 # a router's gradient is larger than the residual stream

refused() { # WORDS RANKS ARGUMENTS
    mpirun -np "$2" --oversubscribe "${train[@]}" "${@:3}" > out 2> err
    grep -qe "$1" err && grep -q '^hint: ' err || wrong "${*:3}: $(cat err)"
}
refused 'not ep with cp' 4 --layout ep2.cp2
refused 'its sequences cannot be divided' 2 --layout cp2
refused '2 ranks do not divide 1 group of heads' 2 --layout tp2 --groups 1
refused '2 ranks do not divide 15 tokens' 2 --layout tp2 --sequence-parallel --seq 15 --batch 1
refused 'has no experts to divide' 4 --layout ep2.tp2
exit $bad
