#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Four ranks are killed by SIGKILL in the middle of a run. From the last checkpoint one rank, two and four go on with the same global batch and
# end with the weights, byte by byte, of a run that nobody interrupted; what is torn or foreign is refused by name on all ranks.
# shellcheck disable=SC2154 # variables of ranks_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
export OMP_NUM_THREADS=1
train=("$TRAIN" gpt2-tiny --layers 2 --channels 32 --heads 2 --data "$SRC/LICENSE" --seq 32 --batch 1 --seed 5 --log-every 1 --steps 40 --all-reduce ordered)
ranks() { mpirun -np "$1" --oversubscribe "${train[@]}" "${@:2}"; }
ranks 1 --steps 1 --accumulate 4 > out 2> err || { grep -q 'without MPI' err && { echo "train was built without MPI"; exit 77; }; wrong "first: $(cat err)"; }
lines() { sed -n 's/^step *\([0-9]*\).*loss \([0-9.]*\)  norm \([0-9.]*\).*/\1 \2 \3/p' "$1"; }
"${train[@]}" --accumulate 4 --checkpoint whole > whole.out || wrong "whole"
[ "$(lines whole.out | wc -l)" = 40 ] || wrong "not 40 lines"

: > killed.out
ranks 4 --checkpoint cut --checkpoint-every 3 --slow-rank 1=0.03 > killed.out 2> err &
pid=$!
wait_for grep -q '^checkpoint after step 11 ' killed.out
children=$(pgrep -P $pid)
# shellcheck disable=SC2086 # a list of processes
kill -KILL $pid $children
wait $pid 2> /dev/null
made=$(lines killed.out | wc -l)
[ "$made" -lt 40 ] || wrong "all steps were made before SIGKILL"
for pid in $children; do wait_for gone "$pid"; done

for case in "1 4 0" "2 2 1" "4 1 0"; do
    read -r count micro zero <<< "$case"
    cp cut from
    ranks "$count" --accumulate "$micro" --zero "$zero" --resume from --checkpoint end > rest.out 2> err || wrong "$count ranks: $(cat err)"
    cmp -s whole end || wrong "$count ranks: the resumed run ends elsewhere"
    lines rest.out > resumed
    [ -s resumed ] || wrong "$count ranks: no lines"
    lines whole.out | tail -n "$(wc -l < resumed)" | diff resumed - > d || wrong "$count ranks: another loss curve: $(head -3 d)"
    echo "killed after step $made; $count rank(s) went on from step $(head -n 1 resumed | cut -d ' ' -f 1): the same curve, the same weights"
done

# torn: every place where a file can end, by name; foreign: another model's
size=$(stat -c %s cut)
for bytes in 0 7 100 $((size / 2)) $((size - 1)); do
    head -c "$bytes" cut > torn
    ranks 2 --accumulate 2 --zero 1 --resume torn > out 2> err && wrong "cut after $bytes bytes: taken"
    grep -q 'torn: \(not a checkpoint\|damaged\)' err && grep -q '^hint: ' err || wrong "cut after $bytes bytes: $(cat err)"
done
cp cut flipped
printf '\x5a' | dd of=flipped bs=1 seek=$((size / 2)) conv=notrunc status=none
cmp -s cut flipped && wrong "the byte was that before"
ranks 1 --accumulate 4 --resume flipped > out 2> err && wrong "a flipped byte: taken"
grep -q 'flipped: damaged (checksum)' err || wrong "a flipped byte: $(cat err)"
ranks 2 --accumulate 2 --zero 1 --layers 1 --resume cut > out 2> err && wrong "another shape: taken"
grep -q 'cut: holds another model' err || wrong "another shape: $(cat err)"
exit $bad
