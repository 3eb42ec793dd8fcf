#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# kill -9 of the target and of the collector at random moments, a few times (long_collector_kills.sh: 50 times).
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
. "$SRC/tests/e2e/kit/collector_kills.sh"
for i in 1 2 3 4 5; do target_killed $i; done
for i in 1 2 3 4 5; do collector_killed $i; done
for i in 1 2 3; do both_killed $i; done

# ---- both killed, and the machine started again: the segments are gone; what was committed is there, and the loss is named
"$TACHO" run --no-peak --no-counters -o reboot -- "$bin/target_events" --threads 2 --forever --rate 5000 > out 2> err &
pid=$!
committed() { [ "$(one "$1" 'SELECT count(*) > 1000 FROM slice')" = 1 ]; }
wait_for committed reboot.tacho.live/run.db
expect 3 "$TACHO" recover reboot.tacho.live # a live collector holds it
child=$(pgrep -P $pid)
kill -KILL $pid "$child"
wait $pid 2> /dev/null
rm -rf "$(readlink -f reboot.tacho.live/segments)"
one reboot.tacho.live/run.db "UPDATE live_state SET value=CAST(x'78'||substr(value,2) AS BLOB) WHERE key='setup'"
expect 0 "$TACHO" recover reboot.tacho.live
whole reboot.tacho
[ "$(one reboot.tacho "SELECT count(*) FROM slice")" -gt 1000 ] || wrong "reboot: $(one reboot.tacho 'SELECT count(*) FROM slice') slices"
[ "$(one reboot.tacho "SELECT count(*) FROM loss WHERE reason LIKE '%machine was rebooted%'")" = 1 ] || wrong "reboot: no loss row"
one reboot.tacho "SELECT value FROM run WHERE key='ended'" | grep -q 'rebooted' || wrong "reboot: how it ended"

# ---- recovered much later: the end of the run is when it ended, not when somebody looked
"$TACHO" run --no-peak --no-counters -o late -- "$bin/target_events" --forever --rate 5000 > out 2> err &
pid=$!
wait_for test -s late.tacho.live/run.db
sleep 0.5
kill -KILL $pid "$(pgrep -P $pid)"
wait $pid 2> /dev/null
killed=$(now_ns)
sleep 2
expect 0 "$TACHO" recover late.tacho.live
whole late.tacho
[ "$(one late.tacho "SELECT value <= $killed + 20000000 FROM run WHERE key='end.monotonic_ns'")" = 1 ] ||
    wrong "late: the end of the run is when it was recovered"
[ "$(one late.tacho 'SELECT "end" FROM process')" -le $((killed + 20000000)) ] || wrong "late: the end of the process"

# ---- the end of a job that Slurm, Kubernetes or a full control group brings: TERM, which the target ignores, then KILL for all
setsid "$TACHO" run --no-peak --no-counters --overhead 0 -o job -- sh -c 'trap "" TERM; "$0" "$@"; :' "$bin/target_events" --forever --rate 5000 > out 2> err &
pid=$!
wait_for test -s job.tacho.live/run.db
sleep 0.5
kill -TERM $pid
sleep 0.3
kill -KILL -- -$pid
wait $pid 2> /dev/null
expect 0 "$TACHO" recover job.tacho.live
whole job.tacho
[ "$(losses job.tacho)" = 0 ] && [ "$(one job.tacho 'SELECT count(*) FROM slice')" -gt 500 ] ||
    wrong "job: $(one job.tacho 'SELECT count(*) FROM slice') ranges, $(losses job.tacho) lost"

# ---- TERM that the target obeys: the file is finished within the grace period
"$TACHO" run --no-peak --no-counters --overhead 0 -o obeys -- "$bin/target_events" --forever --rate 5000 > out 2> err &
pid=$!
wait_for test -s obeys.tacho.live/run.db
sleep 0.5
kill -TERM $pid
wait_for test -f obeys.tacho
wait $pid
whole obeys.tacho

# ---- not a run
mkdir x.tacho.live
expect 3 "$TACHO" recover x.tacho.live
expect 3 "$TACHO" recover nothing.tacho.live
expect 0 sh -c "exec '$TACHO' run --no-peak -o closed -- '$bin/target_events' --events 100 0<&- 1>&- 2>&-"
whole closed.tacho
exit $bad
