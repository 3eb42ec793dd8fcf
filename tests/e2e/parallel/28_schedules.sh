#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Pipelines whose passes over a micro-batch are apart: interleaved chunks and zb-h1 end with the checkpoint of 1f1b, byte by byte; what
# each rank sends, counted by MPI's profiling interface, equals the formula; memory is what was predicted; a run is continued and evaluated.
# shellcheck disable=SC2154 # variables of ranks_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
train=("$TRAIN" gpt2-tiny --layers 4 --channels 36 --heads 3 --data "$SRC/LICENSE" --seq 16 --batch 2 --seed 3 --log-every 1 --steps 10 --accumulate 4)

# sent STAGES CHUNKS STEPS: "BYTES MESSAGES" of every rank: a boundary has 2 x 16 x 36 floats, the word embedding 256 x 36
sent() {
    awk -v pp="$1" -v v="$2" -v steps="$3" -v micro=4 -v c=36 'BEGIN { for (s = 0; s < pp; s++) {
        sides = 2 * v - (s == 0) - (s == pp - 1); messages = sides * steps * micro; bytes = messages * 2 * 16 * c * 4
        if (s == 0 || s == pp - 1) { bytes += steps * 256 * c * 4; messages += steps }
        print bytes, messages } }'
}
counted 2 --layout pp2 --checkpoint whole --eval-every 5
grep '^evaluation' out | sed 's/  (.*//' > evaluations
for case in "interleaved 2" "zb-h1 1"; do
    read -r schedule chunks <<< "$case"
    counted 2 --layout pp2 --pipeline $schedule --checkpoint many --eval-every 5
    cmp whole many || wrong "$schedule: other weights than 1f1b's"
    grep '^evaluation' out | sed 's/  (.*//' | diff evaluations - || wrong "$schedule: other evaluations"
    counted 2 --layout pp2 --pipeline $schedule --steps 2
    cat sent.0 sent.1 > counts
    sent 2 "$chunks" 2 | diff counts - > d || wrong "$schedule: counted, by formula: $(cat d)"
    ! grep 'by formula' out | grep -v 'sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' || wrong "$schedule: $(grep formula out)"
    grep -q "^pipeline: passes of a step .*by simulation" out || wrong "$schedule: no times: $(cat out)"
done
# beside replicas, chunks of one block of four stages; a run of one schedule is continued by another
counted 4 --layout dp2.pp2 --accumulate 2 --checkpoint whole
counted 4 --layout dp2.pp2 --accumulate 2 --pipeline interleaved --steps 5 --schedule constant --warmup 0 --checkpoint half
counted 4 --layout dp2.pp2 --accumulate 2 --pipeline zb-h1 --checkpoint many
cmp whole many || wrong "dp2.pp2, zb-h1: other weights than 1f1b's"
counted 4 --layout pp4 --layers 8 --pipeline interleaved --checkpoint many --steps 3
counted 4 --layout pp4 --layers 8 --checkpoint one --steps 3
cmp one many || wrong "pp4, interleaved: other weights than 1f1b's"
counted 2 --layout pp2 --pipeline interleaved --resume half --checkpoint rest --schedule constant --warmup 0
counted 2 --layout pp2 --pipeline zb-h1 --resume half --checkpoint other --schedule constant --warmup 0
cmp rest other || wrong "zb-h1 continues with other bits than interleaved"

# ---- what is held: within 2 % of the prediction; zb-h1 has as many micro-batches in flight on both stages
large=("$TRAIN" gpt2-tiny --layers 4 --channels 128 --heads 4 --data "$SRC/LICENSE" --seq 32 --batch 1 --steps 1 --workers 0 --layout pp2 --accumulate 8)
for schedule in interleaved zb-h1; do
    mpirun -np 2 --oversubscribe "${large[@]}" --pipeline $schedule > out 2> err || wrong "$schedule: $(cat err)"
    awk '/ MiB at its peak/ { p = $7; gsub(/[(+]/, "", p); seen = 1 } END { exit !seen || p > 2 || p < -2 }' out || wrong "$schedule: memory: $(grep memory out)"
done

# ---- compute that is waiting: each pass sleeps as long as it is told, this rank twice as long, another one's factor is not its own
"${train[@]}" --steps 2 --accumulate 2 --simulate-compute forward=0.01,backward=0.02,rank0=2,rank1=9 --timers times > out 2> err || wrong "simulated: $(cat err)"
python3 - << 'P' || wrong "simulated passes are not those that were asked for"
import json, sys
names = {n["name"]: n for n in next(t for t in json.load(open("times"))["threads"] if t["name"] == "main")["names"]}
forward, backward = names["simulated.forward"], names["simulated.backward"]
sys.exit(not (forward["count"] == backward["count"] == 4 and 80e6 <= forward["ns"] < 320e6 and 160e6 <= backward["ns"] < 700e6))
P
for times in forward forward=x forward=1,fast=2 forward=0.01,weights=1 "" rank0; do
    "${train[@]}" --simulate-compute "$times" > out 2> err
    [ $? = 2 ] && grep -q "^train: --simulate-compute $times: not understood" err && grep -q '^hint: ' err || wrong "--simulate-compute '$times': $(cat err)"
done

refused() { # WORDS RANKS ARGUMENTS
    mpirun -np "$2" --oversubscribe "${train[@]}" "${@:3}" > out 2> err
    grep -q "$1" err && grep -q '^hint: ' err || wrong "${*:3}: $(cat err)"
}
refused 'not with --zero 2 or 3 or --all-reduce ordered' 2 --layout pp2 --pipeline zb-h1 --all-reduce ordered
refused 'not with --zero 2 or 3' 2 --layout pp2 --pipeline interleaved --zero 3
refused 'compress: not with --pipeline zb-h1' 2 --layout pp2 --pipeline zb-h1 --compress int8
refused 'compress: not with --pipeline interleaved' 2 --layout pp2 --pipeline interleaved --chunks 2 --accumulate 2 --layers 4 --compress int8
refused '2 stages do not divide 3 micro-batches' 2 --layout pp2 --pipeline interleaved --accumulate 3
refused '3 chunks in each of 2 stages do not divide 4 layers' 2 --layout pp2 --pipeline interleaved --chunks 3
refused 'not with --recompute block' 2 --layout pp2 --pipeline zb-h1 --recompute block
exit $bad
