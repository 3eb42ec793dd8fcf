#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Traces of other tools on the command line: import, and every reading command on the foreign file itself; the cache of imports:
# reuse, two at once, changed and copied inputs, a limit, places that cannot be written, Ctrl-C; refusals by name.
# shellcheck disable=SC2086  # options that are lists of words
set -u
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder import
export XDG_CACHE_HOME=$work/cache TMPDIR=$work/tmp
mkdir "$work/tmp"
imports=$XDG_CACHE_HOME/tacho/imports
rows() { "$TACHO" sql "$@" 'SELECT count(*) FROM slice' --csv 2> "$work/err" | tail -n 1 | tr -d '\r'; }
kept() { find "$imports" -name '*.tacho' 2> /dev/null | wc -l; }
leftovers() { find "$work/here" "$work/cache" "$work/tmp" \( -name '.*' -o -name '*.[0-9]*' -o -name '*import*' -o -name '*-wal' -o -name '*-shm' \) ! -type d | grep -v lock; }

# a Kineto trace of N kernels, each with its launch
trace() { # FILE N
    awk -v n="$2" 'BEGIN {
        print "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"Test GPU\", \"numSms\": 10}], \"traceEvents\": ["
        for (i = 0; i < n; i++) {
            printf "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":7,\"tid\":8,\"ts\":%d.5,\"dur\":2,\"args\":{\"correlation\":%d}},\n", i * 10, i + 1
            printf "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k%d\",\"pid\":0,\"tid\":7,\"ts\":%d.5,\"dur\":3,\"args\":{\"device\":0,\"stream\":7,\"correlation\":%d}},\n", i % 5, i * 10 + 4, i + 1
        }
        print "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\",\"name\":\"end\",\"pid\":7,\"tid\":8,\"ts\":1}]}"
    }' > "$1"
}
trace t.json 200

# import: a file of the user's; never overwritten; says what to do next
expect 0 "$TACHO" import t.json -o own.tacho
grep -q '^tacho: own.tacho: 1 file, 401 events, 0 lost' "$work/err" || fail "$(cat "$work/err")"
grep -q '^tacho: next: tacho report own.tacho' "$work/err" || fail "no next step"
expect 3 "$TACHO" import t.json -o own.tacho
grep -q '^hint: tacho never overwrites' "$work/err" || fail "$(cat "$work/err")"
expect 2 "$TACHO" import t.json
expect 2 "$TACHO" import -o x.tacho
expect 3 "$TACHO" import own.tacho -o again.tacho
expect 3 "$TACHO" import t.json -o nowhere/x.tacho
grep -q '^tacho: nowhere/x.tacho: No such file' "$work/err" || fail "the user's name is not said: $(cat "$work/err")"
[ "$(kept)" = 0 ] || fail "import used the cache"
[ "$(rows own.tacho)" = 401 ] || fail "rows: $(rows own.tacho)"

# every reading command takes the foreign file; the second time it is not read again
[ "$(rows t.json)" = 401 ] || fail "rows of the foreign file: $(cat "$work/err")"
[ "$(kept)" = 1 ] || fail "not kept"
first=$(stat -c %i "$imports"/*.tacho)
expect 0 "$TACHO" report t.json
grep -q 't\.json' "$work/out" || fail "the report does not name the user's file"
! grep -q "$work/cache" "$work/out" "$work/err" || fail "the report names the cache"
expect 0 "$TACHO" export t.json -o t.perfetto
[ "$(stat -c %i "$imports"/*.tacho)" = "$first" ] || fail "imported again"
[ "$(stat -c %a "$imports")" = 700 ] || fail "the cache is open to others: $(stat -c %a "$imports")"
expect 0 "$TACHO" report ./t.json --json
expect 2 "$TACHO" report t.json --save
expect 2 "$TACHO" sql t.json --index 'SELECT 1'
grep -q '^hint: .*tacho import' "$work/err" || fail "$(cat "$work/err")"

# what is said of losses is true: behind a cut nobody knows how many events were lost; a second file of a rank loses none
head -c 40000 t.json > cut.json
cat t.json t.json > two.json
for f in cut two; do
    expect 0 "$TACHO" report $f.json --json
    grep -q '"lost_events": null' "$work/out" || fail "$f: $(grep lost_events "$work/out")"
    grep -q '"/trust/lost_events": "' "$work/out" || fail "$f: no reason for it"
done
grep -q '"text after the end of the trace: not read"' "$work/out" || fail "two traces in one file: not said"
mkdir same && cp t.json same/a_rank0.json && cp t.json same/b_rank0.json
expect 0 "$TACHO" report same --json
grep -q '"lost_events": 0,' "$work/out" || fail "same rank: $(grep lost_events "$work/out")"
grep -q '"its rank is also that of another file' "$work/out" || fail "same rank: not said"
# two steps on 24 ranks are two steps: nothing is said with high confidence
mkdir ranks
for i in $(seq 0 23); do
    sed 's/^\(.*\)"traceEvents": \[/\1"traceEvents": [{"ph":"X","cat":"user_annotation","name":"ProfilerStep#5","pid":7,"tid":8,"ts":0,"dur":900},{"ph":"X","cat":"user_annotation","name":"ProfilerStep#6","pid":7,"tid":8,"ts":1000,"dur":900},/' t.json > ranks/rank$i.json
done
expect 0 "$TACHO" report ranks --width 200
grep -q '24 ranks' "$work/out" && grep -q '(steps 5-6, low confidence)' "$work/out" || fail "confidence: $(head -5 "$work/out")"
rm -rf ranks
gzip -c t.json | head -c 12 > head.json.gz
expect 3 "$TACHO" report head.json.gz
grep -q 'cut off or damaged' "$work/err" || fail "a gzip file without data: $(cat "$work/err")"
# 100 MB of one letter in a file of 100 kB
{ printf '{"traceEvents":[{"name":"'; head -c 100M /dev/zero | tr '\0' x; } | gzip -9 > bomb.json.gz
expect 3 "$TACHO" report bomb.json.gz
grep -q 'bomb.json.gz: not a trace: it unpacks to more than 200 times its size' "$work/err" || fail "a bomb: $(cat "$work/err")"
# as many processes as events: what reads them takes time in proportion
awk 'BEGIN { printf "{\"traceEvents\":["; for (i = 0; i < 40000; i++) printf "%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op%d\",\"pid\":%d,\"tid\":%d,\"ts\":%d,\"dur\":5}", i ? "," : "", i % 50, i, i, i * 10; print "]}" }' > pids.json
for what in 'report --width 80' 'top --batch -n 1' 'export -o out.json'; do
    (
        ulimit -t $((2 + (${#SAN} > 0 ? 20 : 0)))
        expect 0 "$TACHO" ${what%% *} pids.json ${what#* }
    ) || fail "40,000 processes: $what"
done
rm -rf same cut.json two.json head.json.gz bomb.json.gz pids.json out.json "$imports"

# `latest` is still the newest run of this folder
touch -d '2001-01-01' own.tacho
expect 0 "$TACHO" sql latest 'SELECT count(*) FROM run'

# the same trace elsewhere gives the same rows; a changed one is read again, however it was changed
mkdir elsewhere && cp t.json elsewhere/
[ "$(rows elsewhere/t.json)" = 401 ] || fail "elsewhere"
[ "$(kept)" = 1 ] || fail "the same trace was kept twice"
sleep 0.05
at=$(grep -bo '"cat":"kernel","name":"k3"' t.json | sed -n 12p | cut -d: -f1)
stamp=$(stat -c %y t.json)
printf '"cat":"kernel","name":"Z9"' | dd of=t.json bs=1 seek="$at" conv=notrunc 2> /dev/null
touch -d "$stamp" t.json
[ "$("$TACHO" sql t.json --csv "SELECT count(*) FROM slice JOIN string ON string.id=name WHERE text='Z9'" | tail -n 1 | tr -d '\r')" = 1 ] ||
    fail "a changed trace was not read again"
[ "$(rows t.json)" = 401 ] || fail "rows after the change"

# two captures of one worker are not two ranks: the newest one counts, and the other one is named
mkdir workers
trace workers/host_1.1700000000000.pt.trace.json 10
trace workers/host_1.1700000009000.pt.trace.json 20
trace workers/host_2.1700000009000.pt.trace.json 20
[ "$(rows workers)" = $((2 + 2 * 40)) ] || fail "captures of one worker: $(rows workers)"
"$TACHO" sql workers --csv 'SELECT reason FROM loss' | grep -q 'earlier capture of the same worker' || fail "the earlier capture is not named"
rm -r workers

# compressed, and a folder of ranks
gzip -c t.json > t.json.gz
[ "$(rows t.json.gz)" = 401 ] || fail "gzip"
mkdir ranks
for r in 0 1 2; do trace ranks/rank$r.json $((10 + r)); done
[ "$(rows ranks)" = $((3 + 2 * 33)) ] || fail "folder: $(rows ranks)"
[ "$("$TACHO" sql ranks/ --csv 'SELECT group_concat(DISTINCT rank) FROM process' | tail -n 1 | tr -d '\r"')" = 0,1,2 ] || fail "ranks"
trace ranks/rank3.json 5
[ "$(rows ranks)" = $((4 + 2 * 38)) ] || fail "a new file of the folder was not seen"

# a damaged file of the cache is made again
for f in "$imports"/*.tacho; do head -c 100 "$f" > "$f.x" && mv "$f.x" "$f"; done
[ "$(rows t.json)" = 401 ] || fail "damaged cache: $(cat "$work/err")"

# two at once, many times: both right, one file
trace big.json 20000
for i in 1 2 3; do
    rm -rf "$imports"
    for k in 1 2 3 4; do rows big.json > "$work/r$k" & done
    wait
    for k in 1 2 3 4; do [ "$(cat "$work/r$k")" = 40001 ] || fail "at once: $(cat "$work/r$k")"; done
    [ "$(kept)" = 1 ] || fail "at once: $(kept) files"
done
[ -z "$(leftovers)" ] || fail "left behind: $(leftovers)"
[ -z "$(find "$imports" -name '*.lock')" ] || fail "locks left behind"

# a limit: the least recently used goes, what is being read stays
rm -rf "$imports"
# (an input that changed within a clock step of its import is imported again: let the clock go on)
for n in 1 2 3; do trace s$n.json 3000 && sleep 0.05 && rows s$n.json > /dev/null && sleep 0.05; done
[ "$(kept)" = 3 ] || fail "kept $(kept)"
rows s1.json > /dev/null # used again
size=$(stat -c %s "$(find "$imports" -name '*.tacho' | head -n 1)")
trace s4.json 3000
sleep 0.05
[ "$(TACHO_IMPORT_CACHE=$((size * 5 / 2)) rows s4.json)" = 6001 ] || fail "limit"
[ "$(kept)" = 2 ] || fail "limit: kept $(kept)"
before=$(ls -i "$imports")
rows s1.json > /dev/null && rows s4.json > /dev/null
[ "$(ls -i "$imports")" = "$before" ] || fail "the wrong ones went"
TACHO_IMPORT_CACHE=lots rows s1.json > /dev/null
grep -q "TACHO_IMPORT_CACHE: 'lots' is not a size" "$work/err" || fail "$(cat "$work/err")"

# a cache that cannot be written: a temporary file that goes away, and one line that says so
rm -rf "$XDG_CACHE_HOME"
: > "$XDG_CACHE_HOME"
[ "$(rows t.json)" = 401 ] || fail "no cache: $(cat "$work/err")"
[ "$(grep -c . "$work/err")" = 1 ] && grep -q '^tacho: t.json: the import is not cached' "$work/err" || fail "$(cat "$work/err")"
[ -z "$(ls -A "$TMPDIR")" ] || fail "temporary files left: $(ls -A "$TMPDIR")"
rm -f "$XDG_CACHE_HOME"
[ "$(TACHO_IMPORT_CACHE=0 rows t.json)" = 401 ] && [ "$(kept)" = 0 ] || fail "TACHO_IMPORT_CACHE=0"
[ -z "$(ls -A "$TMPDIR")" ] || fail "temporary files left: $(ls -A "$TMPDIR")"
# a reader that goes away (`| head`) leaves nothing either
trace pipe.json 3000
TACHO_IMPORT_CACHE=0 "$TACHO" export pipe.json 2> /dev/null | head -n 1 > "$work/out"
[ "${PIPESTATUS[0]}" = 141 ] || fail "a closed pipe did not end it"
[ -z "$(ls -A "$TMPDIR")" ] || fail "temporary files left behind a closed pipe: $(ls -A "$TMPDIR")"
rm pipe.json

# a folder that cannot be written
mkdir locked && cp t.json locked/ && chmod a-w locked/t.json locked
[ "$(rows locked/t.json)" = 401 ] || fail "read-only folder: $(cat "$work/err")"
[ "$(ls -A locked)" = t.json ] || fail "something was written beside the trace"
chmod u+w locked

# refusals
expect 3 "$TACHO" report nothing.json
grep -q '^tacho: nothing.json: no such run' "$work/err" || fail "$(cat "$work/err")"
: > empty.json
expect 3 "$TACHO" report empty.json
grep -q '^tacho: empty.json: the file is empty' "$work/err" || fail "$(cat "$work/err")"
mkdir bare && echo hello > bare/readme.txt
expect 3 "$TACHO" report bare
grep -q '^tacho: bare: no trace in this folder' "$work/err" && grep -q '^hint: ' "$work/err" || fail "$(cat "$work/err")"
mkfifo pipe.json
expect 3 timeout 120 "$TACHO" report pipe.json
grep -q 'neither a file nor a folder' "$work/err" || fail "$(cat "$work/err")"
expect 3 timeout 120 "$TACHO" import t.json pipe.json -o x.tacho
echo hello > text.json
expect 3 "$TACHO" report text.json
echo x > run.nsys-rep
for command in report sql export; do
    expect 4 "$TACHO" $command run.nsys-rep
    grep -q 'nsys export --type sqlite' "$work/err" || fail "$command: $(cat "$work/err")"
done
expect 4 "$TACHO" import run.nsys-rep -o x.tacho
echo x > host.xplane.pb
expect 4 "$TACHO" report host.xplane.pb
sqlite3 other.sqlite 'CREATE TABLE t(a)'
expect 3 "$TACHO" report other.sqlite
grep -q '^tacho: other.sqlite: an SQLite database, but neither' "$work/err" || fail "$(cat "$work/err")"
[ ! -e x.tacho ] || fail "a refused import left a file"

# Ctrl-C in the middle: nothing is left, and no output
trace long.json 100000
stopped=0
for signal in INT TERM; do
    for delay in 0.02 0.05 0.1 0.2; do
        rm -rf "$imports"
        env --default-signal=INT "$TACHO" import long.json -o long.tacho > "$work/out" 2> "$work/err" < /dev/null &
        pid=$!
        sleep $delay
        kill -$signal $pid 2> /dev/null
        wait $pid
        rc=$?
        [ $rc = 0 ] || [ $rc = 130 ] || [ $rc = 143 ] || fail "$signal: exit code $rc: $(cat "$work/err")"
        [ $rc = 0 ] || [ ! -e long.tacho ] || fail "$signal: a file was left"
        [ $rc = 0 ] || stopped=$((stopped + 1))
        [ $rc != 130 ] || [ $signal != INT ] || [ ! -s "$work/err" ] || grep -q 'interrupted' "$work/err" || fail "INT: $(cat "$work/err")"
        rm -f long.tacho
        env --default-signal=INT "$TACHO" sql long.json 'SELECT 1' > "$work/out" 2> "$work/err" < /dev/null &
        pid=$!
        sleep $delay
        kill -$signal $pid 2> /dev/null
        wait $pid
        rc=$?
        [ $rc = 0 ] || [ $rc = 130 ] || [ $rc = 143 ] || fail "$signal: exit code $rc: $(cat "$work/err")"
        [ -z "$(leftovers)" ] || fail "$signal after $delay: left behind: $(leftovers)"
    done
done
[ -z "$(ls -A "$TMPDIR")" ] || fail "temporary files left: $(ls -A "$TMPDIR")"
[ $stopped -ge 2 ] || fail "only $stopped of 8 imports were stopped: nothing was tested"

# no bar without a terminal; on one, only when it takes long (the bar itself: where `script` is there)
! grep -q $'\r' "$work/err" || fail "a bar in a pipe"
exit 0
