#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A target at full rate (SPIN=NS: so long in each range) for a long time (MINUTES, 90) under --max-size (SIZE, 150M), with a dashboard attached: the memory of the collector
# stays flat, the file and its WAL never exceed the limit (5 % tolerance while live, none at the end), and the report takes at most 5 s.
# timeout: 7200
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
command -v script > /dev/null || { echo "needs the program script"; exit 77; }
minutes=${MINUTES:-90} size=${SIZE:-150M}
limit=$(numfmt --from=iec "$size")
"$TACHO" run --no-peak --max-size "$size" -o soak -- "$bin/target_events" --forever --steps 1000000000 --events 40000000000 \
    --spin "${SPIN:-0}" > out 2> err &
collector=$!
wait_for test -s soak.tacho.live/run.db
wait_for pgrep -P $collector -f target_events
target=$(pgrep -P $collector -f target_events | head -1)
script -qec "env TERM=xterm-256color $TACHO top soak.tacho.live" /dev/null < <(sleep $((minutes * 60 + 60))) > /dev/null 2>&1 &
top=$!
until=$((SECONDS + minutes * 60)) largest=0 samples=0
: > rss
while [ $SECONDS -lt $until ] && kill -0 $collector 2> /dev/null; do
    sleep "${INTERVAL:-10}"
    bytes=0
    for file in soak.tacho.live/run.db soak.tacho.live/run.db-wal; do
        bytes=$((bytes + $(stat -Lc %s $file 2> /dev/null || echo 0)))
    done
    [ $bytes -le $largest ] || largest=$bytes
    samples=$((samples + 1))
    echo "$SECONDS $(awk '/VmRSS/ { print $2 }' "/proc/$collector/status") $bytes" >> rss
    [ -z "${LOG:-}" ] || tail -1 rss >> "$LOG"
done
kill -0 $top 2> /dev/null || wrong "the dashboard has ended"
kill -TERM "$target"
wait $collector
kill $top 2> /dev/null
[ -f soak.tacho ] || wrong "no file: $(cat err)"
[ $((largest * 100)) -le $((limit * 105)) ] || wrong "the live file had $largest bytes, the limit is $limit"
final=$(stat -c %s soak.tacho)
[ "$final" -le "$limit" ] || wrong "the file has $final bytes, the limit is $limit"
# memory: after the first quarter, a line through the samples rises by less than 4 MiB an hour, or the whole by less than 8 MiB
memory=$(awk 'FNR == NR { n++; next } FNR > n / 4 { k++; x += $1; y += $2; xx += $1 * $1; xy += $1 * $2; if (k == 1 || $2 < low) low = $2
    if (k == 1 || $2 > high) high = $2 } END { d = k * xx - x * x; printf "%d %d", d ? (k * xy - x * y) / d * 3600 : 0, high - low }' rss rss)
read -r slope spread <<< "$memory"
[ "$slope" -lt 4096 ] || [ "$spread" -lt 8192 ] || wrong "memory grows by $slope KiB an hour, $spread KiB between the extremes"
begin=$(date +%s%N)
times > before # not in a subshell, which has no children
"$TACHO" report soak.tacho > report 2> err || wrong "report: $(cat err)"
took=$((($(date +%s%N) - begin) / 1000000))
[ $took -le 5000 ] || wrong "the report took $took ms"
thirds=$(one soak.tacho "WITH r AS (SELECT min(start) a, (max(start) - min(start)) / 3 + 1 w FROM slice)
    SELECT group_concat(n, ' ') FROM (SELECT count(*) n FROM slice, r GROUP BY (start - a) / w)")
[ "$(wc -w <<< "$thirds")" = 3 ] || wrong "detail covers only: $thirds"
times > after
echo "processor time of the commands that ended, before and after the report: $(sed -n 2p before), $(sed -n 2p after)"
echo "soak: $minutes min, $samples samples | memory $slope KiB/h, extremes $spread KiB apart | live file at most $largest of $limit |" \
    "file $final | report $took ms | slices by thirds $thirds"
exit $bad
