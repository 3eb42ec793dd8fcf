#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Buckets by priority: the weights are bit by bit those of a run whose steps wait for all buckets, with evaluations and a signal in between; the
# record has the printed order in every step on both ranks, and buckets that are reduced while the next forward pass runs.
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
export OMP_NUM_THREADS=1
train=("$TRAIN" gpt2-tiny --layers 3 --channels 32 --data "$SRC/LICENSE" --seq 16 --batch 2 --seed 3 --log-every 1 --clip 0 --bucket-mib 0.03 --accumulate 2)
ranks=(mpirun -np 2 "${train[@]}")
lines() { sed -n 's/^\(step\|evaluation\) *\([0-9]*\).*loss \([0-9.]*\)\(  norm [0-9.]*\)*.*/\1 \2 \3\4/p' "$1"; }
for options in "" "--dtype bf16 --optimizer sgd"; do
    "${ranks[@]}" --steps 12 --eval-every 5 --checkpoint whole $options > whole.out 2> err || { grep -q 'without MPI' err && { echo "train was built without MPI"; exit 77; }; wrong "whole: $(cat err)"; }
    "${ranks[@]}" --steps 12 --eval-every 5 --checkpoint early $options --bucket-priority 2.5 > early.out 2> err || wrong "early: $(cat err)"
    cmp -s whole early || wrong "other weights $options"
    diff <(lines whole.out) <(lines early.out) > d || wrong "other lines $options: $(cat d)"
    [ "$(lines early.out | wc -l)" = 15 ] || wrong "not a line for each step and evaluation: $(cat early.out)"
done

mixture=(mpirun -np 2 "$TRAIN" moe-tiny --layers 3 --channels 32 --hidden 40 --experts 4 "${train[@]:6}" --steps 6)
"${mixture[@]}" --checkpoint whole > whole.out 2> err || wrong "moe-tiny, whole: $(cat err)"
"${mixture[@]}" --checkpoint early --bucket-priority 2.5 > early.out 2> err || wrong "moe-tiny, early: $(cat err)"
cmp -s whole early || wrong "moe-tiny: other weights"

# told to stop, it stops, writes, and goes on
"${ranks[@]}" --steps 40 > long.out || wrong "long"
: > part.out
"${ranks[@]}" --steps 40 --checkpoint part --bucket-priority 2.5 --simulate-compute link=0.01 > part.out 2> part.err &
pid=$!
wait_for grep -q '^step *5/' part.out
kill -TERM "$(pgrep -P $pid | tail -n 1)"
wait $pid
code=$?
[ $code = 143 ] || [ "$(lines part.out | wc -l)" = 40 ] || wrong "SIGTERM: exit code $code: $(cat part.err)"
"${ranks[@]}" --steps 40 --resume part --bucket-priority 2.5 > rest.out || wrong "no resume"
cat <(lines part.out) <(lines rest.out) | diff - <(lines long.out) > d || wrong "the resumed run differs: $(cat d)"

# recorded: with a link that takes longer than backward
expect 0 "$TACHO" run --no-peak --overhead 0 -o run -- mpirun -np 2 "${train[@]}" --steps 8 --bucket-priority 2.5 --simulate-compute link=0.004
whole run.tacho
order=$(sed -n 's/.* by thread comm-0, in the order \(.*\)/\1/p' out)
[ "$(wc -w <<< "$order")" -gt 5 ] && [ "$(tr ' ' '\n' <<< "$order" | sort -n | tr '\n' ' ')" != "$order " ] || wrong "order: $(cat out)"
want=$(for _ in 1 2 3 4 5 6 7 8; do echo -n "$order "; done)
for rank in 0 1; do
    found=$(one run.tacho "SELECT group_concat(CAST(value AS INTEGER), ' ') FROM (SELECT value FROM counter JOIN track t ON t.id = track JOIN process p ON p.id = t.process
        WHERE t.name = 'bucket' AND p.rank = $rank ORDER BY time)")
    [ "$found " = "$want" ] || wrong "rank $rank: order in the record: $found"
done
beside=$(one run.tacho "SELECT count(*) FROM slice s JOIN string n ON n.id = s.name JOIN track t ON t.id = s.track JOIN slice f JOIN string m ON m.id = f.name JOIN track u ON u.id = f.track
    WHERE n.text = 'all_reduce' AND m.text = 'forward' AND t.process = u.process AND s.start < f.start + f.dur AND f.start < s.start + s.dur")
[ "$beside" -gt 0 ] || wrong "nothing is reduced while forward runs"

refused() { # WORDS RANKS ARGUMENTS
    mpirun -np "$2" "${train[@]}" --steps 2 --bucket-priority 2 "${@:3}" > out 2> err
    grep -q "$1" err && grep -q '^hint: ' err || wrong "${*:3}: $(cat err)"
}
refused 'one rank sends nothing' 1
refused 'cannot look at all of them' 2 --clip 1
refused 'cannot look at all of them' 2 --optimizer lamb
refused 'not with --zero' 2 --zero 1
refused 'nothing is sent during backward' 2 --no-overlap
refused 'sleeps before its first layer' 2 --simulate-compute forward=0.01,backward=0.02
mpirun -np 2 "${train[@]}" --steps 200 --lr 1000 --warmup 0 --bucket-priority 2 > out 2> err
[ $? = 2 ] && [ "$(grep -c '^train: .*is not finite' err)" = 1 ] || wrong "not finite: $(cat err)"
exit $bad
