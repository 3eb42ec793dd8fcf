#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# Hardware counters of GPUs without a GPU: a substitute driver and CUPTI (tests/targets/fake_*.c) that log each value they hand out.
# The file must hold these values on tracks with unit and device; what is refused is said with the reason; a job is never harmed.
set -u
# shellcheck source=tests/e2e/gpu_common.sh
. "$(dirname "$0")/gpu_common.sh"
record() { # NAME FAULT COUNTERS TARGET-OPTIONS...
    local name=$1 fault=$2 counters=$3
    shift 3
    env LD_LIBRARY_PATH="$fake" FAKE_PROFILER="$fault" FAKE_PROFILER_LOG="$TMPDIR/$name.log" FAKE_LOG="$TMPDIR/$name.records" \
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

# what is refused is said, with CUPTI's error and what to do; the rest of the recording is whole
for mode in sampled roofline; do
    record "denied-$mode" denied $mode --steps 20 --kernels 5
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

# a program that forks, and one that is killed
record fork '' sampled --steps 5 --kernels 5 --ms 40 --fork 2
expect fork tracks "$(ask fork "SELECT count(*) FROM track WHERE name LIKE 'pm_%'")" 7
record exit '' sampled --steps 30 --kernels 5 --ms 40 --end osexit
[ "$(values exit pm_ | wc -l)" -ge 100 ] || { echo "exit: what was read before _exit is not in the file"; fail=1; }
exit $fail
