#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Every event of targets that keep their own books is in the file, or the difference is in the loss table.
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"

record() { # NAME RUN-OPTIONS -- TARGET...
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    expect 0 "$TACHO" run -o "$name" --no-peak "${options[@]}" -- "$@" --log "$name.log"
    whole "$name.tacho"
    [ "$(losses "$name.tacho")" = 0 ] || wrong "$name: events lost"
}

record threads -- "$bin/target_events" --threads 4 --events 20000
books threads.tacho threads.log threads
totals threads.tacho threads
record many -- "$bin/target_events" --threads 200 --events 200
books many.tacho many.log "200 threads"
record spawn -- "$bin/target_events" --threads 2 --events 500 --spawn 100
books spawn.tacho spawn.log "threads one after another"
record forks -- "$bin/target_events" --events 2000 --fork 8
books forks.tacho forks.log "forked children"
record osexit -- "$bin/target_events" --events 2000 --fork 3 --osexit
books osexit.tacho osexit.log "_exit"
record exec -- "$bin/target_events" --events 2000 --exec
books exec.tacho exec.log exec
[ "$(one exec.tacho "SELECT count(*) FROM process WHERE ended='exec'")" = 1 ] || wrong "exec: not told apart"
record steps --overhead 0 -- "$bin/target_events" --events 4000 --steps 40
books steps.tacho steps.log steps
totals steps.tacho steps
record slow --sample-ms 20 -- "$bin/target_events" --threads 2 --events 300 --rate 300
books slow.tacho slow.log "over several commits"
totals slow.tacho slow
record unique -- "$bin/target_events" --threads 2 --events 5000 --unique-names 3000 --long-names
books unique.tacho unique.log names
record deep -- "$bin/target_events" --events 20000 --deep 400
books deep.tacho deep.log "400 deep"

record storm -- "$bin/target_forks" --fork 60 --raw 20 --vfork 10 --quiet 20 --noise
books storm.tacho storm.log "a storm of forks"

# a process row for each child, with parent, start, end
[ "$(one forks.tacho "SELECT count(*) FROM process c JOIN process p ON c.parent_pid=p.pid WHERE c.start>=p.start AND c.\"end\">=c.start")" = 8 ] ||
    wrong "forks: process rows: $(one forks.tacho "SELECT pid, parent_pid, start, \"end\", exit_status, ended, program FROM process")"

# windows: detail of some steps, totals and steps of all, what was cut is a loss
record window --overhead 0 --steps 10:19 --every 2 -- "$bin/target_events" --events 4000 --steps 40
[ "$(one window.tacho 'SELECT count(*) FROM step')" = 40 ] || wrong "window: steps"
all=$(one steps.tacho "SELECT sum(count) FROM step_aggregate WHERE step BETWEEN 0 AND 39")
[ "$(one window.tacho "SELECT sum(count) FROM step_aggregate WHERE step BETWEEN 0 AND 39")" = "$all" ] || wrong "window: totals"
kept=$(one window.tacho 'SELECT count(*) FROM slice')
cut=$(one window.tacho "SELECT count FROM loss WHERE reason LIKE '%--steps%'")
[ $((kept + cut)) = "$(one steps.tacho 'SELECT count(*) FROM slice')" ] || wrong "window: $kept kept + $cut cut"
[ "$(one window.tacho "SELECT count(DISTINCT st.\"index\") FROM slice s, step st WHERE s.start > st.start AND s.start < st.\"end\"")" = 5 ] ||
    wrong "window: detail of other steps"

# --max-size
record small --max-size 1M --overhead 0 -- "$bin/target_events" --events 300000 --steps 300 --rate 150000
cut=$(one small.tacho "SELECT count FROM loss WHERE reason LIKE 'slice%--max-size%'")
[ "${cut:-0}" -gt 0 ] || wrong "max-size: nothing was cut"
[ "$(one small.tacho 'SELECT count(*) FROM step')" = 300 ] || wrong "max-size: steps"

# --max-size is a limit, also of a run that is several times larger; what was counted is kept, cut or lost
record capped --max-size 8M --overhead 0 -- "$bin/target_events" --events 300000 --steps 7500
size=$(stat -c %s capped.tacho)
[ "$size" -le $((8 << 20)) ] || wrong "max-size: $size bytes"
counted=$(one capped.tacho "SELECT sum(count) FROM step_aggregate")
kept=$(one capped.tacho "SELECT (SELECT count(*) FROM slice WHERE dur IS NOT NULL)
    + (SELECT count FROM loss WHERE reason LIKE 'slice%--max-size%') + (SELECT coalesce(sum(count), 0) FROM loss WHERE reason LIKE '%pool at%')")
[ "$counted" -le "$kept" ] || wrong "max-size: $counted ranges counted, $kept kept, cut or lost"

# while another process reads an old state of the live file, nothing can be folded into it, and the WAL stays within its share too
"$TACHO" run -o held --max-size 32M --overhead 0 --no-peak -- "$bin/target_events" --forever --steps 100000 --events 4000000 > out 2> err &
collector=$!
wait_for test -s held.tacho.live/run.db
wait_for eval '[ "$(stat -c %s held.tacho.live/run.db)" -gt 24000000 ]'
(echo 'BEGIN; SELECT count(*) FROM step;'; sleep 2) | sqlite3 held.tacho.live/run.db > /dev/null &
reader=$! largest=0
while kill -0 $reader 2> /dev/null; do
    bytes=$(($(stat -Lc %s held.tacho.live/run.db) + $(stat -Lc %s held.tacho.live/run.db-wal)))
    [ $bytes -le $largest ] || largest=$bytes
    sleep 0.02
done
pkill -TERM -P $collector -f target_events
wait $collector
[ $largest -le $(((32 << 20) * 105 / 100)) ] || wrong "held: the live file and its WAL had $largest bytes"
[ "$(stat -c %s held.tacho)" -le $((32 << 20)) ] || wrong "held: the file has $(stat -c %s held.tacho) bytes"

# a pool at its cap: what is not in the file is in the loss table
expect 0 "$TACHO" run -o full --no-peak --pool 1 -- "$bin/target_events" --threads 4 --events 200000 --log full.log
whole full.tacho
lost=$(losses full.tacho)
[ "$lost" -gt 0 ] || wrong "full: nothing was lost, so nothing was tested"
issued=$(awk '{ n += 2 * $4 + $6 + 2 * $7 + $9 } END { print n }' full.log)
found=$(one full.tacho "
    CREATE TEMP TABLE m AS SELECT id FROM string WHERE text='mark';
    SELECT (SELECT sum(CASE WHEN name IN m THEN 1 WHEN dur IS NULL THEN 1 ELSE 2 END) FROM slice)
         + (SELECT count(*) FROM counter c JOIN track t ON t.id=c.track WHERE t.name='count')
         + (SELECT sum(value) FROM run WHERE key='ends_without_start')")
[ "$issued" = $((found + lost)) ] || wrong "full: issued $issued, found $found and lost $lost"
echo "ok  pool at its cap: issued $issued = $found recorded + $lost lost"
exit $bad
