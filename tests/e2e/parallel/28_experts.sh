#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# Ranks that divide the experts of a mixture, alone and in stages of a pipeline: after 20 steps each tensor agrees with one rank's to 1e-6 of its norm, with stages of ZeRO and
# recomputation; what each rank sends, counted by MPI's profiling interface, is what the recorded choices of the routers make; the routers choose
# as one rank's do; a run is continued by other layouts and evaluated; memory is what was predicted. ZeRO of a mixture that is not divided too.
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
sgd=(--optimizer sgd --lr 0.1 --min-lr 0.1 --warmup 0)
train=("$TRAIN" moe-tiny --layers 2 --channels 32 --heads 4 --groups 2 --hidden 48 --data "$SRC/LICENSE" --seq 16 --batch 2 --seed 3 --log-every 1
    --steps 20 --routing routing "${sgd[@]}")
near() { python3 "$SRC/tests/e2e/parallel/weights_near.py" "$1" "$2" 1e-6 || wrong "weights: $1 and $2"; }

# sent REPLICAS PARTS STAGES MICRO-BATCHES ZERO: "BYTES MESSAGES" of every rank. Of each line of its routing (step, micro-batch, layer) a rank sends its rows for others'
# experts and, later, the gradients of their results; of the other ranks' the results of their rows and the gradients of the rows; and to each of
# them a number an expert: 5 messages a peer. Gradients and parameters go around rings of all ranks of a stage, those of experts of the ranks that have
# the same; a stage with a single layer has its dense part in one unit with embedding or head. With ZeRO 3 each unit is reduced once and gathered
# twice a micro-batch. Between stages 2 x 16 x 32 floats travel.
sent() {
    python3 - "$@" << 'P'
import sys

replicas, parts, stages, micro, zero = map(int, sys.argv[1:])
peers, layers, c, e, element = replicas * parts, 2, 32, 8, 4
ranks, own = stages * peers, e // parts
tables = []
for rank in range(ranks):
    with open("routing" + (f".{rank}" if rank else ""), encoding="ascii") as file:
        lines = [line.split() for line in file]
    tables.append([[int(word) for word in line] for line in lines[1:]])


def ring(count, index, size, reduces, gathers):
    """Of so many reduce-scatters and all-gathers: bytes and messages."""
    chunk = [count * (i + 1) // size - count * i // size for i in range(size)]
    return 4 * (reduces * (count - chunk[index % size]) + gathers * (count - chunk[(index + 1) % size])), (reduces + gathers) * (size - 1)


for rank in range(ranks):
    group, at, stage, copy = rank // parts * parts, rank % parts, rank // peers, rank % peers
    total, messages = 0, 0
    for line in range(len(tables[rank])):
        rows = [[min(n, tables[group + i][line][3]) for n in tables[group + i][line][4:]] for i in range(parts)]
        away = sum(rows[at]) - sum(rows[at][at * own : (at + 1) * own])
        here = sum(sum(rows[i][at * own : (at + 1) * own]) for i in range(parts) if i != at)
        total += 2 * (away + here) * c * element + (parts - 1) * own * 4
        messages += 5 * (parts - 1)
    outer = (stage == 0) * 256 * c + (stage == stages - 1) * (256 * c + c)
    block, experts, blocks = (c + 2 * 16) * c + c * c + e * c + 2 * c, own * 3 * 48 * c, layers // stages
    steps = tables[rank][-1][0] + 1
    dense = [outer] + blocks * [block] if blocks > 1 else [outer + block]
    for count, index, size in [(count, copy, peers) for count in dense] + blocks * [(experts, copy // parts, replicas)]:
        bytes_, sends = ring(count, index, size, *((steps * micro, 2 * steps * micro) if zero == 3 else (steps, steps)))
        total += bytes_
        messages += sends
    sides = (stage > 0) + (stage < stages - 1)
    total += sides * steps * micro * 2 * 16 * c * element
    messages += sides * steps * micro
    print(total, messages)
P
}
"${train[@]}" --accumulate 4 --checkpoint one --eval-every 10 --eval-batches 3 > out || wrong "one rank"
grep '^evaluation' out | sed 's/  (.*//' > evaluations
for case in "ep2 2 2 --zero 1" "dp2.ep2 4 1 --zero 2" "ep4 4 1 --recompute block" "ep2.pp2 4 2" "ep2.pp2 4 2 --pipeline gpipe --zero 2 --recompute block" \
    "dp2.ep2.pp2 8 1" "dp2.ep2 4 1 --zero 3" "dp2.ep2 4 1 --zero 3 --recompute block" "dp2.pp2 4 2 --zero 3 --recompute block" "dp2.ep2.pp2 8 1 --zero 3"; do
    read -r layout ranks micro options <<< "$case"
    counted "$ranks" --layout "$layout" --accumulate "$micro" $options --checkpoint many --eval-every 10 --eval-batches 3
    near one many
    grep '^evaluation' out | sed 's/  (.*//' | diff evaluations - || wrong "$layout: other evaluations than one rank's"
    ! grep 'by formula' out | grep -v 'sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' || wrong "$layout: counted, by formula: $(grep formula out)"
    [[ $layout != *ep* ]] || grep -q '^rows of experts: rank 0 sent [1-9]' out || wrong "$layout: no rows: $(cat out)"
done
"${train[@]}" --accumulate 4 --steps 1 --routing one.routing > out || wrong "one rank"
for case in "2 2 1 1 1" "1 4 1 1 1" "1 2 2 2 1" "2 2 1 1 3"; do
    read -r replicas parts stages micro zero <<< "$case"
    peers=$((replicas * parts)) ranks=$((replicas * parts * stages))
    rm -f routing*
    counted $ranks --layout "dp$replicas.ep$parts.pp$stages" --accumulate "$micro" --zero "$zero" --steps 10
    cat $(seq -f 'sent.%g' 0 $((ranks - 1))) > counts
    sent "$replicas" "$parts" "$stages" "$micro" "$zero" | diff counts - > d || wrong "dp$replicas.ep$parts.pp$stages, zero $zero: counted, by the recorded choices: $(cat d)"
    # the first step's choices are those of one rank: micro-batch i of it is of rank i of each stage, in rounds
    awk -v peers=$peers '$1 == 0 { for (i = 4; i <= NF; i++) printf "%s ", $i; print ($2 % peers), int($2 / peers), $3 }' one.routing | sort > expected
    for ((r = 0; r < ranks; r++)); do
        file=routing.$r
        [ $r -gt 0 ] || file=routing
        awk -v r=$((r % peers)) '$1 == 0 { for (i = 4; i <= NF; i++) printf "%s ", $i; print r, $2, $3 }' "$file"
    done | sort | diff expected - || wrong "dp$replicas.ep$parts.pp$stages: other choices than one rank's"
done
[ -s expected ] || wrong "no choices were recorded"
for case in "ep2 2" "ep2.pp2 4"; do
    read -r layout ranks <<< "$case"
    counted "$ranks" --layout "$layout" --accumulate 2 --steps 10 --eval-every 10 --eval-batches 3 --checkpoint half
    "${train[@]}" --accumulate 4 --eval-every 10 --eval-batches 3 --resume half --checkpoint rest > out || wrong "one rank does not continue $layout"
    near one rest
    counted "$ranks" --layout "$layout" --accumulate 2 --eval-every 10 --eval-batches 3 --resume half --checkpoint rest
    near one rest
done
mixture_ranks() { case $1 in *pp2) echo 4 ;; *) echo 2 ;; esac; }
# adamw: the state of each expert comes into the file and out of it
for layout in ep2 dp2 ep2.pp2; do
    timeout 60 mpirun -np "$(mixture_ranks "$layout")" --oversubscribe "${train[@]}" --optimizer adamw --lr 0.001 --min-lr 0.001 --accumulate 2 --layout "$layout" --steps 10 --checkpoint "$layout" > out 2> err || wrong "adamw: $(cat err)"
    timeout 60 mpirun -np 2 --oversubscribe "${train[@]}" --optimizer adamw --lr 0.001 --min-lr 0.001 --accumulate 2 --layout dp2 --resume "$layout" --checkpoint "rest.$layout" > out 2> err || wrong "adamw: $(cat err)"
done
for layout in ep2 ep2.pp2; do
    python3 "$SRC/tests/e2e/parallel/weights_near.py" rest.dp2 "rest.$layout" 1e-4 || wrong "adamw: weights of $layout"
done
# a mixture whose experts are not divided, in shards
"${train[@]}" --accumulate 4 --steps 5 --checkpoint one > out || wrong "one rank"
counted 2 --accumulate 2 --zero 2 --steps 5 --checkpoint many
near one many
# and in stages, with two micro-batches in flight or all of them: the bits of one rank
"${train[@]}" --accumulate 4 --steps 5 --all-reduce ordered --checkpoint one > out || wrong "one rank, in order"
for schedule in 1f1b gpipe; do
    counted 2 --layout pp2 --accumulate 4 --steps 5 --all-reduce ordered --pipeline $schedule --checkpoint many
    cmp one many || wrong "pp2, $schedule: other weights than one rank's"
done
counted 2 --zero 3 --accumulate 2 --steps 5 --all-reduce ordered --checkpoint many
cmp one many || wrong "zero 3: other weights than one rank's"

large=("$TRAIN" moe-tiny --layers 4 --channels 128 --hidden 352 --data "$SRC/LICENSE" --seq 64 --batch 4 --steps 1 --workers 0 --layout ep2)
mpirun -np 2 --oversubscribe "${large[@]}" > out 2> err || wrong "large: $(cat err)"
fits() { awk '/ MiB at its peak/ { p = $7; gsub(/[(+]/, "", p); seen = 1 } END { exit !seen || p > 2 || p < -2 }' "$1" || wrong "memory: $(grep memory "$1")"; }
fits out
mpirun -np 4 --oversubscribe "${large[@]/ep2/ep2.pp2}" --accumulate 4 > stages 2> err || wrong "large, in stages: $(cat err)"
fits stages
mpirun -np 4 --oversubscribe "${large[@]/ep2/dp2.ep2}" --zero 3 > sharded 2> err || wrong "large, zero 3: $(cat err)"
fits sharded
"${large[@]/ep2/ep1}" > whole 2> err || wrong "large: $(cat err)"
awk '/predicted:/ { for (i = 1; i < NF; i++) if ($i == "parameters") p[FILENAME] = $(i + 1) + 0 } END { exit !(p["out"] < 0.6 * p["whole"]) }' out whole ||
    wrong "experts are not divided: $(grep predicted: out whole)"

refused() { # WORDS RANKS ARGUMENTS
    mpirun -np "$2" --oversubscribe "${train[@]}" "${@:3}" > out 2> err
    grep -qe "$1" err && grep -q '^hint: ' err || wrong "${*:3}: $(cat err)"
}
refused 'not ep with cp' 4 --layout ep2.cp2
refused 'zb-h1: moe-tiny has neither' 4 --layout ep2.pp2 --pipeline zb-h1
refused 'interleaved: moe-tiny has neither' 4 --layout ep2.pp2 --pipeline interleaved --chunks 2 --accumulate 2
refused '2 layers do not make 4 stages' 4 --layout pp4
refused '3 ranks do not divide 8 experts' 3 --layout ep3
refused 'not with ep' 2 --layout ep2 --compress int8
train=("$TRAIN" gpt2-tiny --data "$SRC/LICENSE" --seq 16 --batch 2 --steps 1)
refused 'has no experts to divide' 2 --layout ep2
train=("$TRAIN" llama-tiny --data "$SRC/LICENSE" --seq 16 --batch 2 --steps 1)
refused 'has no experts to divide' 2 --layout ep2
refused '--routing: llama has no routers' 1 --routing r
exit $bad
