#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Memory that a program keeps from step to step is found with its rate and process; memory that it frees, a cache that is
# full at some time, buffers as large as the longest batch, and a file that it maps are no leaks.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder leak
steps=100 bytes=1048576
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:quarantine_size_mb=0:thread_local_quarantine_size_kb=0 # which keep what is freed
head -c $((steps * bytes)) /dev/zero > mapped || fail "no room for the mapped file"
for kind in leak same varies cache map; do
    file=
    size=$bytes
    [ $kind = map ] && file=mapped
    [ $kind = varies ] && size=$((16 * bytes))
    # shellcheck disable=SC2086 # an empty word is no argument
    "$TACHO" run --no-peak --no-counters -o $kind.tacho -- "$BUILD/tests/targets/target_memory" $kind $steps 40 $size $file > $kind.log 2>&1 &
done
wait
for kind in leak same varies cache map; do "$TACHO" report --json $kind.tacho > $kind.json || fail "report of $kind: $(cat $kind.log)"; done
python3 - << 'PY' || fail "what is a leak"
import json

for kind in ("leak", "same", "varies", "cache", "map"):
    report = json.load(open(kind + ".json"))
    leak, ids = report["leak"], [finding["id"] for finding in report["findings"]]
    assert leak is not None, (kind, report["absent"])
    assert leak["found"] == (kind == "leak"), (kind, leak)
    assert ("LEAK" in ids) == (kind == "leak"), (kind, ids)
    assert kind == "leak" or "growth of memory" in report["checked"], (kind, report["checked"])
report = json.load(open("leak.json"))
leak, first = report["leak"], next(f for f in report["findings"] if f["id"] != "OTHER_PROGRAMS")
assert first["id"] == "LEAK" and first["listed"] == "ranked", report["findings"]  # no memory is left within minutes
assert leak["what"] == "anonymous memory" and leak["device"] is None, leak
# 1 MiB a step: malloc adds some bytes to each block, a sample is up to two steps old
assert 0.97 * 1048576 < leak["bytes_per_step"] < 1.03 * 1048576, leak
assert leak["low"] < leak["bytes_per_step"] < leak["high"], leak
assert leak["steps_left"] > 100, leak
PY
"$TACHO" report leak.tacho | grep -q 'LEAK' || fail "the text names no leak"

# of two devices the one whose memory grows is named
python3 - << 'PY'
import json

events = []
for k in range(60):
    events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{k}", "pid": 7, "tid": 7, "ts": 1000 * k, "dur": 900})
    for device in (0, 1):
        held = (500 + 4 * k * device) << 20
        events.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 7, "tid": 7, "ts": 1000 * k + 850 + device, "s": "t",
                       "args": {"Total Allocated": held, "Total Reserved": held, "Bytes": 512, "Device Type": 1, "Device Id": device, "Addr": 5}})
json.dump({"traceEvents": events}, open("two.json", "w"))
PY
"$TACHO" report --json two.json > two.out 2> err || fail "two devices: $(cat err)"
python3 -c 'import json
leak = json.load(open("two.out"))["leak"]
assert (leak["found"], leak["what"], leak["device"]) == (True, "memory of the device", "gpu:1"), leak' || fail "not the device that grows"
