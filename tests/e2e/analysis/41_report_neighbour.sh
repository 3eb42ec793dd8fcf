#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# A run beside busy neighbours: the head of every report says that other programs took the cores, and how long the step's thread
# waited for one.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
work_folder
[ -r /proc/self/schedstat ] && read -r _ _ turns < /proc/self/schedstat && [ "$turns" != 0 ] || { echo "skip: the kernel does not account waiting for a core"; exit 77; }
neighbours=
# shellcheck disable=SC2154
trap 'kill $neighbours 2> /dev/null; cd /; rm -rf "$work"' EXIT
for _ in $(seq $(($(nproc) + 1))); do
    timeout 120 sh -c 'while :; do :; done' &
    neighbours="$neighbours $!"
done
"$TACHO" run -o run.tacho --no-peak --overhead 0 --sample-ms 50 -- "$TRAIN" gpt2-tiny --steps 200 --layers 2 --channels 64 --heads 2 --batch 4 --seq 64 \
    --log-every 0 --eval-every 0 > log 2> err || { cat log err; fail "the run failed"; }
# shellcheck disable=SC2086
kill $neighbours
grep -q '^tacho: SHARED MACHINE: other programs used' err || fail "tacho run does not warn: $(cat err)"
"$TACHO" report run.tacho --json > json || fail "no report"
others=$(field json system other_cores) waits=$(field json system cpu_wait_pct)
echo "others used $others CPUs, the step's thread waited $waits % of the time"
awk -v o="$others" -v n="$(nproc)" 'BEGIN { exit !(o > 0.3 * n && o <= n) }' || fail "others: $others of $(nproc)"
awk -v w="$waits" 'BEGIN { exit !(w > 5 && w <= 100) }' || fail "waits: $waits"
! grep -q '"verdict": "HEALTHY' json || fail "called healthy"
for format in --full --markdown --html; do
    # shellcheck disable=SC2086
    "$TACHO" report run.tacho $format > out || fail "no report $format"
    # a page that begins with the first screen has it in its verdict, and the sentence below
    at=$(grep -n -m1 'SHARED MACHINE\|OTHER PROGRAMS hold' out | cut -d: -f1)
    grep -q 'SHARED MACHINE' out || fail "no sentence about other programs $format"
    where=$(grep -n '^What to change\|^#.* What to change\|^Where a step goes\|^#.* Where a step goes\|^<section\|^Checked' out | head -1 | cut -d: -f1)
    [ -n "$at" ] && [ "$at" -le "$where" ] || fail "no warning in the head of the report $format"
done
for size in 24x80 10x40; do
    "$TACHO" top run.tacho --batch -n 1 --size "$size" > out
    grep -q 'SHARED MACHINE: other programs\|OTHER PROGRAMS hold' out || fail "no warning on the first screen at $size: $(cat out)"
done
echo "ok"
