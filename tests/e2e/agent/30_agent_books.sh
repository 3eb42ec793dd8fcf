#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Every event of targets that keep their own books, thread by thread, is in the pool or in its loss table. Read by pool_dump,
# without the collector.
set -u
bin=$BUILD/tests/targets
fail=0

# run NAME ENV... -- ARGUMENTS: a target into a folder of its own; what it logged against what its pools hold
run() {
    local name=$1 folder=$TMPDIR/$1 env=()
    shift
    while [ "$1" != -- ]; do
        env+=("$1")
        shift
    done
    shift
    mkdir -p "$folder/segments"
    env TACHO_CLOCK=monotonic "${env[@]}" TACHO_SEGMENTS="$folder/segments" NVTX_INJECTION64_PATH="$LIBTACHO" \
        timeout 100 "$@" --log "$folder/log" > "$folder/out" 2>&1
    echo "$?" > "$folder/status"
    "$bin/pool_dump" "$folder/segments" > "$folder/dump" || {
        echo "$name: malformed pool"
        fail=1
    }
}

# exact NAME: each thread's counts agree, and its time is not more than the target's own and nearly as much
exact() {
    awk -F '\t' -v name="$1" '
        FILENAME ~ /log$/ && $3 >= 0 { k = $1 SUBSEP $2; ranges[k] += $4; ns[k] += $5; rest[k] = rest[k] $6 "/" $7 "/" $9 "/" $10 " "; n++ }
        FILENAME ~ /dump$/ && $1 == "thread" { k = $2 SUBSEP $3; r[k] += $5; t[k] += $6; o[k] = o[k] $8 "/" $9 "/" $10 "/" $11 " "; open += $7 + $13 + $14 }
        FILENAME ~ /dump$/ && $1 == "loss" && $3 !~ /^(STRING|PAYLOAD)/ { lost += $4 }
        END {
            for (k in ranges) {
                if (ranges[k] != r[k] || rest[k] != o[k]) { print name ": thread " k ": logged " ranges[k] " " rest[k] ", found " r[k] " " o[k]; bad = 1 }
                if (t[k] > ns[k]) { print name ": thread " k ": " t[k] " ns recorded, only " ns[k] " ns logged"; bad = 1 }
            }
            for (k in r) if (!(k in ranges)) { print name ": thread " k " recorded but logged nothing"; bad = 1 }
            if (open || lost) { print name ": " open + 0 " ranges open or healed, " lost + 0 " events lost"; bad = 1 }
            if (!n) { print name ": nothing logged"; bad = 1 }
            if (!bad) print "ok  " name ": " n " threads"
            exit bad
        }' "$TMPDIR/$1/log" "$TMPDIR/$1/dump" || fail=1
}

# adds_up NAME: recorded and lost together are what was issued
adds_up() {
    awk -F '\t' -v name="$1" '
        FILENAME ~ /log$/ { issued += 2 * $4 + $6 + 2 * $7 + $9; next }
        $1 == "thread" { found += 2 * $5 + $7 + $8 + $9 + $10 + $13 + $14 + $15 }
        $1 == "loss" && $3 !~ /^(STRING|PAYLOAD)/ { lost += $4; reasons = reasons " " $3 }
        END {
            if (issued != found + lost) { print name ": issued " issued ", recorded " found " and lost " lost; exit 1 }
            if (!lost) { print name ": nothing was lost, so nothing was tested"; exit 1 }
            print "ok  " name ": " issued " issued = " found " recorded + " lost " lost (" substr(reasons, 2, 40) ")"
        }' "$TMPDIR/$1/log" "$TMPDIR/$1/dump" || fail=1
}
expect() { # NAME WHAT ACTUAL WANTED
    [ "$3" = "$4" ] && return
    echo "$1: $2 is $3, not $4"
    fail=1
}
field() { # NAME KIND COLUMN: sum over its lines
    awk -F '\t' -v kind="$2" -v c="$3" '$1 == kind { s += $c } END { print s + 0 }' "$TMPDIR/$1/dump"
}

run threads -- "$bin/target_events" --threads 8 --events 20000 --steps 10
exact threads
run many -- "$bin/target_events" --threads 200 --events 300
exact many
run short -- "$bin/target_events" --threads 1 --events 100 --spawn 400
exact short
run forks -- "$bin/target_events" --threads 3 --events 5000 --fork 5
exact forks
run exec -- "$bin/target_events" --threads 2 --events 3000 --exec
exact exec
expect exec pools "$(grep -c ^pool "$TMPDIR/exec/dump")" 2
run osexit -- "$bin/target_events" --threads 2 --events 3000 --fork 2 --osexit
exact osexit
expect osexit "pools of finished processes" "$(field osexit pool 6)" 0
for how in kill abort segv; do
    [ -n "$SAN" ] && [ $how = segv ] && continue # the sanitizer turns it into an exit
    run "$how" -- "$bin/target_events" --threads 3 --events 3000 --crash $how
    exact $how
    [ "$(cat "$TMPDIR/$how/status")" -gt 128 ] || { echo "$how: status $(cat "$TMPDIR/$how/status")"; fail=1; }
done
run deep -- "$bin/target_events" --threads 2 --events 5000 --deep 300
exact deep
run names -- "$bin/target_events" --threads 4 --events 100000 --unique-names 60000 --long-names
exact names
[ "$(awk '$3 == "STRING_FULL"' "$TMPDIR/names/dump" | wc -l)" = 1 ] || { echo "names: the name table did not overflow"; fail=1; }
[ "$(awk '$3 == "STRING_CUT"' "$TMPDIR/names/dump" | wc -l)" = 1 ] || { echo "names: no name was cut"; fail=1; }

run cap TACHO_POOL_MIB=1 -- "$bin/target_events" --threads 4 --events 30000 --deep 100
adds_up cap
run pause TACHO_PAUSE=0.5 -- "$bin/target_events" --threads 2 --events 20000 --steps 300 --fork 2
adds_up pause
expect pause "steps" "$(field pause thread 11)" 300
paused=$(field pause thread 12)
if [ "$paused" -lt 90 ] || [ "$paused" -gt 200 ]; then
    echo "pause: $paused of 290 steps paused at probability 0.5"
    fail=1
fi
# values of counters, a loss among them, are recorded in a paused step too: up to 64 of each, and the rest is counted as lost
run values TACHO_PAUSE=1 -- "$bin/target_events" --threads 0 --events 0 --steps 20 --values 100
adds_up values
expect values "counter values" "$(field values thread 10)" $((10 * 100 + 10 * 64))
# Whether a signal hits the recorder is chance: what counts is that the sum is right.
run handler -- "$bin/target_events" --threads 2 --events 200000 --signal-handler
awk -F '\t' '$1 == "loss" && $3 == "SIGNAL"' "$TMPDIR/handler/dump" | grep -q . && adds_up handler

# a child by the raw system call has no thread registered with ThreadSanitizer
raw=30
[ "$SAN" = thread ] && raw=0
# LeakSanitizer of gcc 12 takes the allocator's locks when a child ends; one forked while another thread held them waits for ever
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
run storm -- "$bin/target_forks" --fork 60 --raw $raw --vfork 10 --quiet 30 --daemon --noise
for _ in $(seq 600); do # until the daemon has ended, too
    pgrep -f -- "--log $TMPDIR/storm/log" > /dev/null || break
    sleep 0.1
done
"$bin/pool_dump" "$TMPDIR/storm/segments" > "$TMPDIR/storm/dump" || fail=1
expect storm "exit status" "$(cat "$TMPDIR/storm/status")" 0
expect storm "pools" "$(grep -c ^pool "$TMPDIR/storm/dump")" "$(cut -f1 "$TMPDIR/storm/log" | sort -u | wc -l)"
expect storm "ranges" "$(field storm thread 5)" "$(awk '{ s += $4 } END { print s }' "$TMPDIR/storm/log")"
# fork inside a handler: the sanitizers' own allocators do not allow it
if [ -z "$SAN" ]; then
    run interrupted -- "$bin/target_forks" --handler 30
    expect interrupted "exit status" "$(cat "$TMPDIR/interrupted/status")" 0
fi

env -u TACHO_SEGMENTS NVTX_INJECTION64_PATH="$LIBTACHO" "$bin/target_events" > /dev/null || { echo "off: target failed"; fail=1; }
exit $fail
