# SPDX-License-Identifier: Apache-2.0
# Shared by the kill tests: sourced after collector_common.sh. A target that keeps a journal which survives any death is recorded; it
# or its collector is killed at a random moment; the file must hold what the journal holds.
# shellcheck shell=bash disable=SC2154,SC2034
threads=3
words=$(((1 << 20) + 1)) # a thread's part of the journal: a count, then the times

# journal_counts FILE: ranges that each thread has finished, sorted
journal_counts() {
    local i
    for ((i = 0; i < threads; i++)); do
        od -An -t u8 -j $((i * words * 8)) -N 8 "$1" | tr -d ' '
    done | sort -n
}
# journal_before FILE TIME: how many of each thread's ranges ended before TIME (CLOCK_MONOTONIC ns), summed
journal_before() {
    local i n
    for ((i = 0; i < threads; i++)); do
        n=$(od -An -t u8 -j $((i * words * 8)) -N 8 "$1" | tr -d ' ')
        od -An -v -w8 -t u8 -j $(((i * words + 1) * 8)) -N $((n * 8)) "$1"
    done | awk -v t="$2" '$1 < t { n++ } END { print n + 0 }'
}
file_counts() {
    one "$1" "SELECT sum(s.dur IS NOT NULL) FROM slice s JOIN track t ON t.id=s.track WHERE t.kind='thread' AND t.tid <>
              (SELECT pid FROM process p WHERE p.id=t.process) AND s.name NOT IN (SELECT id FROM string WHERE text='mark')
              GROUP BY t.id ORDER BY 1"
}
now_ns() { awk '{ printf "%.0f\n", $1 * 1e9 }' /proc/uptime; }

# target_killed N: kill -9 of the target. Every range of the journal is in the file, and at most one more a thread.
target_killed() {
    local name=t$1 pid child
    "$TACHO" run --no-peak --no-counters -o "$name" -- "$bin/target_events" --threads $threads --forever --rate 20000 --journal "$name.journal" > out 2> err &
    pid=$!
    wait_for test -s "$name.journal"
    sleep "0.$((RANDOM % 900 + 100))"
    child=$(pgrep -P $pid)
    kill -KILL "$child"
    wait $pid
    [ $? = 137 ] || wrong "$name: exit code"
    whole "$name.tacho"
    one "$name.tacho" "SELECT value FROM run WHERE key='ended'" | grep -q 'signal 9' || wrong "$name: how it ended is not in the file"
    paste <(journal_counts "$name.journal") <(file_counts "$name.tacho") | awk -v name="$name" '
        $2 < $1 || $2 > $1 + 1 || NF != 2 { print "FAIL: " name ": journal " $1 ", file " $2; bad = 1 } { n += $2 } END { print "ok  " name ": " n " ranges"; exit bad }' ||
        { bad=1; return; }
    rm -f "$name".*
}

# collector_killed N: kill -9 of the collector. The target goes on and ends by itself; the recovered file is complete.
collector_killed() {
    local name=c$1 pid child
    "$TACHO" run --no-peak --no-counters -o "$name" -- "$bin/target_events" --threads $threads --events 22000 --rate 15000 --log "$name.log" > out 2> err &
    pid=$!
    wait_for test -s "$name.tacho.live/run.db"
    wait_for pgrep -P $pid
    child=$(pgrep -P $pid)
    sleep "0.$((RANDOM % 700 + 100))"
    kill -KILL $pid
    wait $pid 2> /dev/null
    if [ $((RANDOM % 2)) = 0 ]; then # recover while it still records: goes on collecting until the end
        expect 0 "$TACHO" recover "$name.tacho.live"
    else
        while kill -0 "$child" 2> /dev/null; do sleep 0.05; done
        expect 0 "$TACHO" recover "$name.tacho.live"
    fi
    while kill -0 "$child" 2> /dev/null; do sleep 0.05; done
    whole "$name.tacho"
    # a collector that was killed after its last commit had written how the run ended
    one "$name.tacho" "SELECT value FROM run WHERE key IN ('ended', 'recovered') ORDER BY key" | tr '\n' ' ' | grep -qE '^exit 0 $|collector.* 1 $' ||
        wrong "$name: that the collector died is not in the file"
    [ "$(losses "$name.tacho")" = 0 ] || wrong "$name: events lost"
    books "$name.tacho" "$name.log" "$name"
    totals "$name.tacho" "$name"
    rm -f "$name".*
}

# both_killed N: the collector, and soon after the target too. Nothing of the journal is missing.
both_killed() {
    local name=b$1 pid child
    "$TACHO" run --no-peak --no-counters -o "$name" -- "$bin/target_events" --threads $threads --forever --rate 20000 --journal "$name.journal" > out 2> err &
    pid=$!
    wait_for test -s "$name.journal"
    sleep "0.$((RANDOM % 700 + 100))"
    child=$(pgrep -P $pid)
    kill -KILL $pid
    wait $pid 2> /dev/null
    sleep "0.0$((RANDOM % 90 + 10))"
    kill -KILL "$child"
    while kill -0 "$child" 2> /dev/null; do sleep 0.01; done # a run of which a process lives goes on
    expect 0 "$TACHO" report "$name.tacho.live" # any command that opens it finishes it
    whole "$name.tacho"
    paste <(journal_counts "$name.journal") <(file_counts "$name.tacho") | awk -v name="$name" '
        $2 < $1 || $2 > $1 + 1 || NF != 2 { print "FAIL: " name ": journal " $1 ", file " $2; bad = 1 } { n += $2 } END { print "ok  " name ": " n " ranges"; exit bad }' ||
        { bad=1; return; }
    rm -f "$name".*
}
