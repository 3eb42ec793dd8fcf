#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Programs that mark no steps, that speak no NVTX, that fail: the report says so, and what there is.
# shellcheck disable=SC2016  # dollars for another program
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
work_folder
"$TACHO" run -o idle.tacho -- sleep 0.6 > /dev/null 2>&1 || fail "run of sleep"
"$TACHO" report idle.tacho --full > text || fail "report of sleep"
grep -q '^IDLE: ' text || fail "sleep is not idle: $(sed -n 3p text)"
grep -q 'recorded no NVTX ranges' text || fail "it does not say that there was no NVTX"
grep -q '^System  *CPU 0\.' text || fail "no system line"
"$TACHO" report idle.tacho --json > json || fail "JSON of sleep"
grep -q '"/steps/median_ms": ".*NVTX' json || fail "no reason for the missing steps"
[ "$(field json trust events)" -gt 0 ] || fail "no sample"

# a program whose events were all lost, or that emits counters only, is not one that emits nothing
lost() { # NAME LIMIT
    "$TACHO" run --no-peak --no-counters -o "$1.tacho" -- sh -c "ulimit $2; exec '$BUILD/tests/targets/target_events' --threads 1 --events 3000 --log $1.log" > out 2>&1 ||
        fail "$1: $(cat out)"
    "$TACHO" report "$1.tacho" > text || fail "report of $1"
    grep -q '^EVENTS LOST: 100.0 % of the events are missing (\([0-9]*\) of \1): event dropped: no space or memory' text || fail "$1: $(sed -n 3p text)"
    ! grep -q 'recorded no NVTX' text || fail "$1: events were lost, and the report says that there were none"
}
[ -n "${SAN:-}" ] || lost memory '-v 60000'
lost size '-f 1000'

# most events are lost, because the collector is stopped during the run: that leads the verdict, and every table says it
"$TACHO" run --no-peak --no-counters --pool 1 -o most.tacho -- sh -c "kill -STOP \$PPID; '$BUILD/tests/targets/target_events' --threads 2 --events 60000 --log most.log; kill -CONT \$PPID" > out 2>&1 ||
    fail "most: $(cat out)"
grep -q 'EVENTS LOST: [0-9.]* % of the events' out || fail "most: at the end of the run: $(cat out)"
"$TACHO" report most.tacho > text || fail "report of most"
grep -q '^EVENTS LOST: [0-9.]* % of the events are missing' text || fail "most: $(sed -n 3p text)"
for format in --full '--markdown --full' --html; do
    # shellcheck disable=SC2086
    "$TACHO" report most.tacho $format > page || fail "most: $format"
    grep -q 'of the recorded events only: ' page || fail "most: $format: no table says that events are missing"
done
"$TACHO" report most.tacho --json > json || fail "most: JSON"
python3 -c 'import json
trust = json.load(open("json"))["trust"]
(one,) = trust["lost_by_process"]
assert trust["lost_pct"] >= 50 and trust["missing"] and one["lost_events"] == trust["lost_events"] and abs(one["lost_pct"] - trust["lost_pct"]) < 0.01, trust' ||
    fail "most: trust of the JSON report"

"$TACHO" run -o busy.tacho -- sh -c 'end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; done' > /dev/null 2>&1 ||
    fail "run of a loop"
"$TACHO" report busy.tacho --json > json || fail "report of a loop"
used=$(field json system cpu_cores)
awk -v u="$used" 'BEGIN { exit !(u > '"$([ -n "${TIMING:-}" ] && echo 0.2 || echo 0.02)"' && u < 1.6) }' || fail "one busy loop used $used cores"

"$TACHO" run -o failed.tacho -- sh -c 'exit 9' > /dev/null 2>&1
"$TACHO" report failed.tacho --full > text || fail "report of a failed run"
grep -q '^NO STEPS: the program failed with exit status 9 after [0-9.]* [mµ]*s, before its first step' text || fail "the verdict of a program that failed: $(sed -n 3p text)"
grep -q 'INCOMPLETE: the program failed with exit status 9' text || fail "it does not say that the program failed: $(cat text)"
