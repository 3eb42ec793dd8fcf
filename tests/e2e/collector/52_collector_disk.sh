#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# A disk that fills up: the target is not harmed, what was stored is sound, what was not is named; with room again, nothing is left over.
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
[ "$(id -u)" = 0 ] || { echo "needs root to mount a small filesystem"; exit 77; }
mkdir disk
mount -t tmpfs -o size=12m none disk 2> /dev/null || { echo "cannot mount a filesystem here"; exit 77; }
trap 'cd /; umount -l "$work/disk"; cleanup' EXIT

# ---- more than fits: totals and steps of all, detail of what fitted
"$TACHO" run --no-peak -o disk/full -- "$bin/target_events" --threads 2 --events 400000 --rate 150000 --log log > out 2> err
rc=$?
[ $rc = 0 ] || wrong "the target's exit code became $rc: $(cat err)"
[ "$(wc -l < log)" -ge 2 ] || wrong "the target was harmed"
if [ -f disk/full.tacho ]; then
    whole disk/full.tacho
    one disk/full.tacho "SELECT reason FROM loss" | grep -q 'no space left' || wrong "nothing says that detail is missing"
    [ "$(one disk/full.tacho "SELECT count(*) FROM loss WHERE source = 'system' AND reason LIKE 'not sampled: the store had no room%' AND t1 > t0")" -ge 1 ] ||
        wrong "nothing says that the machine was not sampled: $(one disk/full.tacho 'SELECT * FROM loss')"
    logged=$(awk '{ n += $4 + $6 + $7 } END { print n }' log)
    counted=$(one disk/full.tacho "SELECT (SELECT sum(count) FROM step_aggregate) + 0")
    lost=$(losses disk/full.tacho)
    [ "$lost" -gt 0 ] || [ "$counted" = "$logged" ] || wrong "$logged ranges and marks logged, $counted in the totals"
    [ "$counted" -le "$logged" ] || wrong "totals count something twice"
elif [ -d disk/full.tacho.live ]; then
    # not even the totals fitted: with room again the run is finished from what was left
    grep -q 'tacho recover' err || wrong "no hint how to go on: $(cat err)"
    mount -o remount,size=200m disk
    expect 0 "$TACHO" recover disk/full.tacho.live
    whole disk/full.tacho
else
    wrong "neither a file nor a live folder: $(ls -la disk) $(cat err)"
fi
rm -rf disk/*

# ---- full to the end, so that the file cannot be finished: recovered later, it says so, and not that the collector was killed.
# Where the collector is faster than what fills the disk, its mark is set by hand
mount -o remount,size=12m disk
"$TACHO" run --no-peak --no-counters -o disk/end -- sh -c "'$bin/target_events' --threads 2 --events 20000 --log end.log; touch half; sleep 2
    '$bin/target_events' --threads 2 --events 20000 --log end.log" > out 2> err &
pid=$!
wait_for test -e half
while kill -0 $pid 2> /dev/null; do
    rm -f disk/end.tacho.live/reserve
    head -c 12m /dev/zero >> disk/filler 2> /dev/null
done
wait $pid
rm disk/filler
if [ ! -d disk/end.tacho.live ]; then
    "$TACHO" run --no-peak --no-counters -o disk/by-hand -- "$bin/target_events" --threads 1 --forever --rate 5000 > out 2> err &
    pid=$!
    wait_for test -s disk/by-hand.tacho.live/run.db
    sleep 0.3
    kill -KILL $pid "$(pgrep -P $pid)"
    wait $pid 2> /dev/null
    mv disk/by-hand.tacho.live disk/end.tacho.live && touch disk/end.tacho.live/full && rm -f disk/end.tacho
fi
expect 0 "$TACHO" recover disk/end.tacho.live
whole disk/end.tacho
ended=$(one disk/end.tacho "SELECT value FROM run WHERE key='ended'")
if [ "$ended" = 'exit 0' ]; then
    # the end was in the file already, and only moving it to its name found no room: then all that was logged is counted or said lost
    logged=$(awk '{ n += $4 + $6 + $7 } END { print n }' end.log)
    counted=$(one disk/end.tacho "SELECT sum(count) FROM step_aggregate")
    lost=$(losses disk/end.tacho)
    [ "$lost" -gt 0 ] || [ "$counted" = "$logged" ] || wrong "end: $logged ranges and marks logged, $counted in the totals, none lost"
else
    [[ $ended == *'disk was full'* ]] || wrong "end: $ended"
fi
rm -rf disk/*

# ---- full from the start: an error before the target runs, nothing left
mount -o remount,size=12m disk
head -c 20m /dev/zero > disk/filler 2> /dev/null
"$TACHO" run --no-peak -o disk/none -- touch ran > out 2> err
rc=$?
[ $rc = 125 ] || wrong "full from the start: exit code $rc: $(cat err)"
[ ! -e ran ] || wrong "full from the start: the target ran"
grep -qi 'space' err || wrong "full from the start: $(cat err)"
[ "$(ls disk)" = filler ] || wrong "full from the start: left $(ls disk)"
exit $bad
