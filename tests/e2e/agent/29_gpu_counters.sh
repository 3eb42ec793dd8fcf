#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Hardware counters of GPUs without a GPU: a substitute driver and CUPTI (tests/targets/fake_*.c) that log each value they hand out.
# The file must hold these values on tracks with unit and device; what is refused is said with the reason; a job is never harmed.
set -u
# shellcheck source=tests/e2e/kit/gpu_common.sh
. "$(dirname "$0")/../kit/gpu_common.sh"
record() { # NAME FAULT COUNTERS TARGET-OPTIONS...
    local name=$1 fault=$2 counters=$3
    shift 3
    env LD_LIBRARY_PATH="$fake" FAKE_PROFILER="$fault" FAKE_PROFILER_LOG="$TMPDIR/$name.log" FAKE_LOG="$TMPDIR/$name.records" TACHO_GPU=waits \
        "$TACHO" run --no-hook --no-peak --no-counters --overhead 0 --counters "$counters" -o "$name.tacho" -- "$bin/target_cuda" "$@" \
        > "$name.out" 2>&1
    expect "$name" status $? 0
    [ -f "$name.log" ] || : > "$name.log"
}
key() { ask "$1" "SELECT value FROM run WHERE key = '$2'"; }
values() { # NAME PREFIX: metric, value of all rows
    ask "$1" "SELECT printf('%.1f', value) FROM counter JOIN track ON track.id = track WHERE name LIKE '$2%' ORDER BY value"
}

# sampled: seven of nine metrics fit into the pass; each value that was handed out is a row, at most a tenth of a second apart
record sampled '' sampled --steps 20 --kernels 5 --ms 40
cut -f 3 sampled.log | sort -n > want
values sampled pm_ | sort -n > got
cmp -s want got || { echo "sampled: $(wc -l < got) values in the file, $(wc -l < want) handed out"; fail=1; }
[ "$(wc -l < want)" -ge 500 ] || { echo "sampled: only $(wc -l < want) values in 0.8 s at 200 a second"; fail=1; }
expect sampled tracks "$(ask sampled "SELECT count(*) FROM track WHERE name LIKE 'pm_%' AND device = 'gpu:0'")" 7
expect sampled unit "$(ask sampled "SELECT unit FROM track WHERE name = 'pm_sm_active'")" %
expect sampled key "$(key sampled counters.sampled | sed 's/ [0-9]* samples/ N samples/')" "FX1: 7 metrics, 1 pass, N samples"
expect sampled losses "$(ask sampled "SELECT count(*) FROM loss")" 0
# samples lie 5 ms apart, inside of the run
expect sampled times "$(ask sampled "WITH x AS (SELECT time, time - lag(time) OVER (ORDER BY time) AS gap FROM counter
    JOIN track ON track.id = track WHERE name = 'pm_sm_active')
    SELECT count(*) FROM x WHERE gap NOT BETWEEN 4000000 AND 6000000
    OR time NOT BETWEEN (SELECT min(start) FROM process) AND (SELECT max(coalesce(end, start)) FROM process) + 10000000")" 0
# nothing of what is recorded otherwise is missing
expect sampled kernels "$(ask sampled "SELECT count(*) FROM slice JOIN string ON string.id = category WHERE text = 'kernel'")" 100
"$TACHO" report sampled.tacho --json | grep -q '"pm_tensor_active"' || { echo "sampled: the report does not list them"; fail=1; }

# over steps: 17 metrics in 6 passes, from the fourth step on; these steps have no kernels in the file, all others have
record range '' roofline --steps 20 --kernels 5
cut -f 3 range.log | sort -n > want
values range range_ | sort -n > got
cmp -s want got || { echo "range: the file has other values than were handed out"; diff want got | head; fail=1; }
expect range values "$(wc -l < got)" 17
expect range key "$(key range counters.roofline)" "FX1: 17 metrics, 6 passes, 1 times"
expect range kernels "$(ask range "SELECT count(*) FROM slice JOIN string ON string.id = category WHERE text = 'kernel'")" 70
expect range "steps without kernels" "$(ask range "SELECT group_concat(\"index\") FROM (SELECT \"index\" FROM step WHERE NOT EXISTS (
    SELECT 1 FROM slice k JOIN string ON string.id = k.category WHERE text = 'kernel' AND k.start BETWEEN step.start AND step.end)
    ORDER BY \"index\")")" "3,4,5,6,7,8"
# too few steps to count to the end: said
record short '' roofline --steps 5 --kernels 5
expect short values "$(values short range_ | wc -l)" 0
case $(ask short "SELECT reason FROM loss WHERE source = 'counters.roofline'") in
*"too few steps"*) ;;
*) echo "short: no word of the count that did not end"; fail=1 ;;
esac

# ranges inside the steps: 6 more steps, each cut at its pushes and pops; metric i is i + 0.5 for each kernel that was launched there
counted() { # NAME PATH METRIC
    ask "$1" "SELECT printf('%.1f', json_extract(payload, '\$.$3')) FROM slice JOIN detail ON detail.id = detail JOIN string ON string.id = name
        WHERE schema = 'tacho.counted' AND text = '$2' AND json_type(payload, '\$.$3') IS NOT NULL"
}
record parts '' roofline --steps 30 --kernels 5 --ranges 3
expect parts key "$(key parts counters.ranges)" "FX1: 17 metrics, 6 passes, 8 ranges"
expect parts "the whole step" "$(key parts counters.roofline)" "FX1: 17 metrics, 6 passes, 1 times"
expect parts losses "$(ask parts "SELECT count(*) FROM loss")" 0
# kernels of a piece, from the target's own list; bf16 is metric 0, L2 metric 9, the last one 16
for piece in "(no range):5" forward:1 forward/layer.0:1 forward/layer.0/matmul:2 forward/layer.2:1 forward/layer.2/matmul:2; do
    kernels=${piece##*:} path=${piece%:*}
    expect parts "bf16 of $path" "$(counted parts "$path" range_tensor_bf16)" "$(awk "BEGIN { printf \"%.1f\", $kernels * 0.5 }")"
    expect parts "L2 of $path" "$(counted parts "$path" range_l2)" "$(awk "BEGIN { printf \"%.1f\", $kernels * 9.5 }")"
    expect parts "stalls of $path" "$(counted parts "$path" range_stall_wait)" "$(awk "BEGIN { printf \"%.1f\", $kernels * 16.5 }")"
done
# pieces add up to the step: 5 + 1 + 3 x 3 kernels
expect parts "L2 of the step" "$(values parts range_l2)" "$(awk 'BEGIN { printf "%.1f", 15 * 9.5 }')"
expect parts "L2 of all pieces" "$(ask parts "SELECT printf('%.1f', sum(json_extract(payload, '\$.range_l2'))) FROM slice
    JOIN detail ON detail.id = detail WHERE schema = 'tacho.counted'")" "$(awk 'BEGIN { printf "%.1f", 15 * 9.5 }')"
expect parts "steps without kernels" "$(ask parts "SELECT group_concat(\"index\") FROM (SELECT \"index\" FROM step WHERE NOT EXISTS (
    SELECT 1 FROM slice k JOIN string ON string.id = k.category WHERE text = 'kernel' AND k.start BETWEEN step.start AND step.end)
    ORDER BY \"index\")")" "3,4,5,6,7,8,9,10,11,12,13,14"
expect parts "ranges recorded" "$(ask parts "SELECT count(*) FROM slice JOIN string ON string.id = name WHERE text = 'matmul' AND dur IS NOT NULL")" 90
"$TACHO" report parts.tacho --json > parts.json
python3 - << 'END' || fail=1
import json
j = json.load(open("parts.json"))
r = {x["name"]: x for x in j["ranges_counted"]}
ok = len(r) == 8 and r["forward/layer.1/matmul"]["dram_bytes"] == 2 * (7.5 + 8.5) and r["forward"]["pieces"] == 4
if not ok:
    print("parts: the report has other ranges:", json.dumps(r)[:400])
    raise SystemExit(1)
END
# a range that only some steps have belongs to what is around it; one that was in the step the plan is of leads to another plan
record odd '' roofline --steps 60 --kernels 5 --ranges 3 --odd 8
expect odd key "$(key odd counters.ranges)" "FX1: 17 metrics, 6 passes, 8 ranges"
expect odd "bf16 of the layer that sweeps" "$(counted odd forward/layer.1 range_tensor_bf16)" 1.5
# steps that are not alike are told, after three plans
record skip '' roofline --steps 60 --kernels 5 --ranges 3 --skip 5
case $(ask skip "SELECT reason FROM loss WHERE source = 'counters.ranges'") in
*"different ranges"*) ;;
*) echo "skip: no word of steps that differ"; fail=1 ;;
esac
expect skip "the whole step" "$(key skip counters.roofline)" "FX1: 17 metrics, 6 passes, 1 times"
# too many for a pass: the outermost only
record many '' roofline --steps 40 --kernels 5 --ranges 100
expect many key "$(key many counters.ranges)" "FX1: 17 metrics, 6 passes, 102 ranges"
expect many "bf16 of a layer with all inside it" "$(counted many forward/layer.7 range_tensor_bf16)" 1.5
record late late roofline --steps 40 --kernels 5 --ranges 3
case $(key late counters.ranges) in
"failed: starting: CUPTI error 1"*) ;;
*) echo "late: $(key late counters.ranges)"; fail=1 ;;
esac
expect late "the whole step" "$(key late counters.roofline)" "FX1: 17 metrics, 6 passes, 1 times"
last=$(ask late "SELECT count(*) FROM slice k JOIN string ON string.id = k.category JOIN step ON k.start BETWEEN step.start AND step.end
    WHERE text = 'kernel' AND \"index\" = 30")
expect late "kernels after it was given up" "$last" 15
record cut '' roofline --steps 11 --kernels 5 --ranges 3
case $(ask cut "SELECT reason FROM loss WHERE source = 'counters.ranges'") in
*"too few steps"*) ;;
*) echo "cut: no word of ranges that were not counted to the end"; fail=1 ;;
esac

# what is refused is said, with CUPTI's error and what to do; the rest of the recording is whole
for mode in sampled roofline; do
    record "denied-$mode" denied $mode --steps 20 --kernels 5 --ms 40 # a context is looked for every 100 ms
    case $(ask "denied-$mode" "SELECT reason FROM loss WHERE source = 'counters.$mode'") in
    *"enabling: CUPTI error 35: not permitted; see 'tacho doctor'"*) ;;
    *) echo "denied-$mode: no word of it: $(ask "denied-$mode" "SELECT * FROM loss")"; fail=1 ;;
    esac
    kernels=$(ask "denied-$mode" "SELECT count(*) FROM slice JOIN string ON string.id = category WHERE text = 'kernel'")
    expect "denied-$mode" kernels "$kernels" 100
done
record busy busy sampled --steps 5 --kernels 5 --ms 60
case $(key busy counters.sampled) in
*"profiling hardware is in use"*) ;;
*) echo "busy: $(key busy counters.sampled)"; fail=1 ;;
esac
record none none sampled --steps 5 --kernels 5 --ms 60
case $(key none counters.sampled) in
"failed: the metrics of the chip"*) ;;
*) echo "none: $(key none counters.sampled)"; fail=1 ;;
esac
record few few sampled --steps 10 --kernels 5 --ms 60
expect few key "$(key few counters.sampled | sed 's/ [0-9]* samples/ N samples/')" "FX1: 1 metrics, 1 pass, N samples"
record overflow overflow sampled --steps 5 --kernels 5 --ms 60
expect overflow loss "$(ask overflow "SELECT reason FROM loss WHERE source = 'counters.sampled'")" "samples overwritten before they were read"

# what CUPTI writes beyond its memory is not the program's, and ends the sampling
record beyond beyond sampled --steps 5 --kernels 5 --ms 60
expect beyond key "$(key beyond counters.sampled)" "failed: CUPTI wrote beyond the memory that it had asked for"

# a program that forks, and one that is killed
record fork '' sampled --steps 5 --kernels 5 --ms 40 --fork 2
expect fork tracks "$(ask fork "SELECT count(*) FROM track WHERE name LIKE 'pm_%'")" 7
record exit '' sampled --steps 30 --kernels 5 --ms 40 --end osexit
[ "$(values exit pm_ | wc -l)" -ge 100 ] || { echo "exit: what was read before _exit is not in the file"; fail=1; }
exit $fail
