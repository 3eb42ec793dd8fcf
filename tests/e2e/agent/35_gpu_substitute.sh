#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# wide: yes
# Device work without a device: a substitute driver and CUPTI (tests/targets/fake_*.c) that log each record they write. The file
# must hold exactly these, or say in a loss row what is missing: whatever way the process ends, whoever else uses CUPTI.
# shellcheck disable=SC2153  # TACHO comes from tests/run
set -u
# shellcheck source=tests/e2e/kit/gpu_common.sh
. "$(dirname "$0")/../kit/gpu_common.sh"

record plain -- -- --steps 5 --kernels 40
exact plain
expect plain status "$(cat plain.status)" 0
expect plain "name of the device" "$(ask plain "SELECT value FROM run WHERE key LIKE 'device.%.gpu:0.name'")" "Substitute GPU"
expect plain "kernels with a launch" "$(ask plain "SELECT count(*) FROM slice k JOIN string ks ON ks.id = k.category
    JOIN track kt ON kt.id = k.track JOIN slice l ON l.correlation = k.correlation JOIN string ls ON ls.id = l.category
    WHERE ks.text = 'kernel' AND ls.text IN ('runtime', 'driver') AND l.start <= k.start")" 200
expect plain "stream" "$(ask plain "SELECT DISTINCT device || ' ' || tid FROM track WHERE kind = 'stream' AND tid = 7")" "gpu:0 7"
expect plain "threads of one id" "$(ask plain "SELECT max(n) FROM (SELECT count(*) n FROM track WHERE kind = 'thread' GROUP BY process, tid)")" 1
# rows lie inside the step that launched them, on the same clock as NVTX
expect plain "calls outside of steps" "$(ask plain "SELECT count(*) FROM slice JOIN string ON string.id = category
    WHERE text IN ('runtime', 'driver') AND NOT EXISTS (SELECT 1 FROM step s WHERE slice.start >= s.start - 2000 AND slice.start < s.end + 2000)")" 0

record threads -- -- --steps 4 --kernels 500 --threads 6
exact threads
record spawn -- -- --steps 3 --spawn 3
exact spawn
# the leak checker of a sanitizer cannot run in a child that was forked while another thread allocated
if [ -z "$SAN" ]; then
    record fork -- -- --steps 3 --fork 6
    exact fork
fi
record osexit -- -- --steps 3 --end osexit
exact osexit
record kill -- -- --steps 3 --end kill
exact kill
expect kill status "$(cat kill.status)" 137
record late -- -- --steps 3 --late
exact late
for version in 13 15 18 24 28 130000 130200; do
    record "v$version" FAKE_CUPTI_VERSION=$version -- -- --steps 2 --kernels 30
    exact "v$version"
    expect "v$version" "waits that name their record" "$(ask "v$version" "SELECT count(*) FROM slice JOIN detail ON detail.id = detail WHERE payload LIKE '%record_correlation%'")" 2
done

# buffers at their cap: each record is in the file or counted
record full TACHO_GPU_MIB=2 FAKE_CUPTI=lazy -- -- --steps 3 --kernels 8000 --threads 3
lost=$(losses full '%all buffers full%')
all=$(awk -F '\t' '$2 == "tool" && $3 != 36 && $3 != 8 && $3 != 9 && $3 != 37' full.log | wc -l)
have=$(ask full "SELECT count(*) FROM slice JOIN string ON string.id = category WHERE text IN ('kernel', 'memcpy', 'memset', 'sync', 'runtime', 'driver')")
events=$(logged full 36)
[ "$lost" -gt 0 ] || bad full "nothing was lost, so nothing was tested"
[ $((have + lost)) -ge "$all" ] && [ $((have + lost)) -le $((all + events)) ] || bad full "$have rows and $lost lost of $all"

record zero FAKE_CUPTI="zero=10" -- -- --steps 2 --kernels 50
expect zero kernels "$(rows zero kernel)" 90
expect zero losses "$(losses zero 'record without times%')" 10
record dropped FAKE_CUPTI="dropped=3" -- -- --steps 2
[ "$(losses dropped '%dropped by CUPTI%')" -ge 3 ] || bad dropped "dropped records are not in the losses"

# what CUPTI refuses is said, and the target runs
for fault in "subscribe=39 holder=Nsight" enable=35 enable=26 register=999 "subscribe=39 v1"; do
    name=refused-${fault//[^a-zA-Z0-9]/_}
    record "$name" FAKE_CUPTI="$fault" -- -- --steps 2
    expect "$name" status "$(cat "$name.status")" 0
    number=${fault#*=}
    expect "$name" "loss row" "$(losses "$name" "device work not recorded:%error ${number%% *}:%")" 1
    expect "$name" kernels "$(rows "$name" kernel)" 0
done
[ "$(losses refused-subscribe_39_holder_Nsight '%Nsight%')" = 1 ] || bad refused "the holder is not named"
record nothing TACHO_CUPTI=/nowhere/libcupti.so -- -- --steps 2
expect nothing "loss row" "$(losses nothing '%libcupti was not found%')" 1
record null FAKE_CUPTI="null" -- -- --steps 2
expect null kernels "$(rows null kernel)" 0

# torch.profiler in the same process, told by the hook, and found out
record told -- -- --steps 9 --kernels 20 --ms 100 --kineto 3:6 --tell
expect told kernels "$(rows told kernel)" "$(logged told 10 tool)"
[ "$(rows told kernel)" = 120 ] || bad told "$(rows told kernel) kernels, not those of six steps"
expect told gap "$(losses told '%another profiler of the process%')" 1
record taken FAKE_KINETO=new FAKE_CUPTI_VERSION=130101 -- -- --steps 160 --kernels 10 --ms 100 --kineto 15:80
gap=$(ask taken "SELECT (t1 - t0) / 1000000 FROM loss WHERE reason LIKE '%another profiler of the process%'")
[ -n "$gap" ] && [ "$gap" -gt 4000 ] && { [ -z "${TIMING:-}" ] || [ "$gap" -lt 14000 ]; } || bad taken "gap of ${gap:-no} ms, for a profiler that ran 6500 ms"
before=$(ask taken "SELECT count(*) FROM slice JOIN string ON string.id = category, (SELECT t1 FROM loss WHERE reason LIKE '%another profiler%') WHERE text = 'kernel' AND start > t1")
[ "${before:-0}" -gt 50 ] || bad taken "${before:-0} kernels recorded after the other profiler ended"
# what CUPTI had given to the other one by mistake is read all the same, once
[ "$(rows taken kernel)" -ge "$(logged taken 10)" ] || bad taken "$(rows taken kernel) kernels of $(logged taken 10)"
expect taken "kernels twice" "$(ask taken "SELECT count(*) - count(DISTINCT correlation) FROM slice JOIN string ON string.id = category WHERE text = 'kernel'")" 0

# windows
record window -- --steps 2:4 -- --steps 8 --kernels 20
expect window kernels "$(rows window kernel)" 60
expect window kernels "$(rows window kernel)" "$(logged window 10)"
record every -- --every 3 -- --steps 9 --kernels 20
expect every kernels "$(rows every kernel)" 60
record off -- --gpu off -- --steps 3
expect off kernels "$(rows off kernel)$(wc -l < off.log)" 00
record later -- --gpu later -- --steps 3
expect later kernels "$(rows later kernel)" 0
record duration -- --duration 0.4 -- --steps 20 --kernels 10 --ms 50
n=$(rows duration kernel)
[ "$n" -gt 0 ] && [ "$n" -lt 200 ] && { [ -z "${TIMING:-}" ] || { [ "$n" -gt 20 ] && [ "$n" -lt 190 ]; }; } || bad duration "$n kernels of 200 in the first 400 ms"
record graphs -- --cuda-graphs whole -- --steps 2
expect graphs mode "$(ask graphs "SELECT value FROM run WHERE key = 'cuda.graphs'")" whole

# a window into a run that is under way: the same steps in all of its processes
(
    exec env LD_LIBRARY_PATH="$fake" FAKE_LOG="$TMPDIR/asked.log" "$TACHO" run --no-hook --no-peak --no-counters --overhead 0 \
        --gpu later -o asked.tacho -- sh -c "'$bin/target_cuda' --steps 120 --kernels 20 --ms 50 & '$bin/target_cuda' --steps 100 --kernels 20 --ms 60; wait"
) > asked.out 2>&1 &
tacho=$!
for _ in $(seq 600); do # until both have made steps
    [ "$(sqlite3 -readonly asked.tacho.live/run.db 'SELECT count(DISTINCT process) FROM step' 2> /dev/null)" = 2 ] && break
    sleep 0.1
done
"$TACHO" capture --steps 4 asked.tacho.live > capture.out 2>&1 || bad asked "$(cat capture.out)"
grep -q 'in 2 processes' capture.out || bad asked "$(cat capture.out)"
wait $tacho
expect asked kernels "$(rows asked kernel)" 160
expect asked "steps of each process" "$(ask asked "SELECT group_concat(n, ' ') FROM (SELECT count(DISTINCT step.\"index\") || ':' || min(step.\"index\") AS n
    FROM slice JOIN string ON string.id = category JOIN track ON track.id = track JOIN step ON step.process = track.process
        AND slice.start >= step.start AND slice.start < step.\"end\" WHERE text = 'runtime' GROUP BY track.process)" | tr ' ' '\n' | sort -u | wc -l)" 1
"$TACHO" capture asked.tacho > over.out 2>&1 && bad asked "a run that is over was captured"

# a collector that is killed
(
    exec env LD_LIBRARY_PATH="$fake" FAKE_LOG="$TMPDIR/recovered.log" TACHO_GPU=waits "$TACHO" run --no-hook --no-peak --no-counters --overhead 0 \
        -o recovered.tacho -- "$bin/target_cuda" --steps 25 --kernels 200 --ms 100
) > recovered.out 2>&1 &
tacho=$!
for _ in $(seq 600); do # until it has recorded steps
    [ "$(sqlite3 -readonly recovered.tacho.live/run.db 'SELECT count(*) > 2 FROM step' 2> /dev/null)" = 1 ] && break
    sleep 0.1
done
target=$(pgrep -P $tacho -x target_cuda)
kill -KILL $tacho
wait $tacho 2> /dev/null
for _ in $(seq 600); do # until the target has ended by itself
    case $(ps -o stat= -p "$target") in '' | Z*) break ;; esac
    sleep 0.1
done
"$TACHO" recover recovered.tacho > recover.out 2>&1 || bad recovered "$(cat recover.out)"
exact recovered
exit $fail
