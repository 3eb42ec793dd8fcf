#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# wide: yes
# What CUPTI is strict about, and what its versions do differently, with the substitute that is as strict (tests/targets/fake_cupti.c):
# one subscriber in a process, buffers that another profiler would get, records that are not complete, ids that are wrong.
# $GPU_DEFECTS: only these functions (long_gpu_defects.sh, which puts each defect back and wants its function to fail).
# shellcheck disable=SC2153  # TACHO comes from tests/run
set -u
# shellcheck source=tests/e2e/kit/gpu_common.sh
. "$(dirname "$0")/../kit/gpu_common.sh"

kineto() { # NAME WHAT: the number that the stand-in for torch.profiler noted last
    awk -F '\t' -v w="$2" '$2 == "kineto" && $4 == w { n = $3 } END { print n + 0 }' "$1.log"
}
noted() { # NAME WHAT: how often
    awk -F '\t' -v w="$2" '$2 == "kineto" && $4 == w' "$1.log" | wc -l
}
attribute() { # NAME NUMBER: what CUPTI's attribute was first set to
    awk -F '\t' -v a="$2" '$2 == "set" && $3 == a { print $4; exit }' "$1.log"
}
# CUPTI's clock is another one once torch.profiler was there: all kernels have the times that the log has, but for an offset
on_time() { # NAME
    awk -F '\t' '$3 == 10 && $2 == "tool" { print substr($5, 5) }' "$1.log" | sort -n > "$1.want"
    ask "$1" "SELECT start FROM slice JOIN string ON string.id = category WHERE text = 'kernel' ORDER BY start" > "$1.got"
    paste "$1.got" "$1.want" | awk '{ d = $1 - $2; if (NR == 1 || d < least) least = d; if (NR == 1 || d > most) most = d }
        END { if (!NR || most - least > 5000000) { print NR " kernels, " most - least " ns apart"; exit 1 } }' ||
        bad "$1" "kernels are not where they were"
}
key() { ask "$1" "SELECT value FROM run WHERE key = '$2'"; }

# 1, 2: torch.profiler until August 2026 subscribes at its first use, and without a subscription it records nothing in this process
defect_1_2() {
    for how in old new jax; do
        record "told-$how" FAKE_KINETO=$how FAKE_CUPTI_VERSION=130101 -- -- --steps 9 --kernels 20 --kineto 3:6 --tell --threads 2
        expect "told-$how" "refusals of the other profiler" "$(noted "told-$how" refused)" 0
        expect "told-$how" "kernels of the other profiler" "$(kineto "told-$how" kernels)" 120
        expect "told-$how" "kinds left on for it" "$(kineto "told-$how" "kinds that were on")" 0
        expect "told-$how" "buffers that it does not know" "$(noted "told-$how" "unknown buffer")" 0
        expect "told-$how" kernels "$(rows "told-$how" kernel)" 240
        on_time "told-$how"
        expect "told-$how" "launches by the driver" "$(ask "told-$how" "SELECT count(*) FROM slice JOIN string ON string.id = name
            WHERE text = 'cuLaunchKernel'")" 48
        expect "told-$how" gap "$(losses "told-$how" '%another profiler of the process%')" 1
        expect "told-$how" "other losses" "$(ask "told-$how" "SELECT count(*) FROM loss WHERE source IN ('agent', 'cupti') AND reason NOT LIKE '%another profiler%'")" 0
    done
    # ... also where it was there before CUDA was
    record before -- -- --steps 9 --kernels 20 --kineto -1:4 --tell
    expect before "kernels of the other profiler" "$(kineto before kernels)" 80
    expect before kernels "$(rows before kernel)" 100
    on_time before
    expect before gap "$(losses before '%another profiler of the process%')" 1
    # ... and where it had come and gone: the subscription that it keeps is no reason to record nothing
    record gone -- -- --steps 3 --kernels 20 --kineto -1:-1 --tell
    exact gone
    # silence alone is no gap, whether the call is recorded or not
    record idle -- -- --steps 1 --kernels 10 --ms 6500 &
    record deaf FAKE_CUPTI=deaf -- -- --steps 1 --kernels 10 --ms 6500
    wait
    exact idle
    exact deaf
}

# 3: a loop that polls an event writes no record, and where CUPTI insists none becomes a row
defect_3() {
    record poll -- -- --steps 2 --poll 5000
    exact poll
    grep -q "query.*recorded" poll.log && bad poll "CUPTI records queries"
    record poll-all FAKE_CUPTI=allsync -- -- --steps 2 --poll 500
    exact poll-all
    grep -q "query.*recorded" poll-all.log || bad poll-all "CUPTI records no queries"
}

# 4: windows with CUDA graphs. Before 13.1 update 1 the ids of graph launches are wrong from the second window on.
defect_4() {
    for version in 130001 130101; do
        name=graphs-$version
        record "$name" FAKE_CUPTI_VERSION=$version -- --every 3 -- --steps 9 --kernels 20 --graphs 4
        expect "$name" kernels "$(rows "$name" kernel)" 108
        wrong=$(awk -F '\t' '$2 == "tool" && ($3 == 5 || $3 == 4) { print $1 "\t" $4 }' "$name.log" | sort -u | wc -l)
        [ "$wrong" -gt 0 ] || bad "$name" "no calls in the log"
        # a kernel of a graph that names a call which launched no graph is wrong
        expect "$name" "kernels with a wrong launch" "$(ask "$name" "SELECT count(*) FROM slice k JOIN string ks ON ks.id = k.category
            JOIN detail d ON d.id = k.detail AND d.payload ->> '$.graph_node' <= 4 JOIN slice l ON l.correlation = k.correlation JOIN string ls ON ls.id = l.category JOIN string ln ON ln.id = l.name
            WHERE ks.text = 'kernel' AND ls.text IN ('runtime', 'driver') AND ln.text NOT LIKE '%GraphLaunch' AND ln.text NOT LIKE '%514'")" 0
        linked=$(ask "$name" "SELECT count(*) FROM slice k JOIN string ks ON ks.id = k.category JOIN detail d ON d.id = k.detail
            WHERE ks.text = 'kernel' AND d.payload LIKE '%\"graph_node\":%' AND k.correlation IS NULL")
        said=$(losses "$name" '%ids of CUDA graph launches%')
        if [ $version = 130001 ]; then
            expect "$name" "graph kernels without an id" "$linked" 36
            expect "$name" "row about it" "$said" 1
        else
            expect "$name" "graph kernels without an id" "$linked" 0
            expect "$name" "row about it" "$said" 0
        fi
    done
}

# 5: device memory of CUPTI has a limit, and the file says which
defect_5() {
    record pool -- -- --steps 2
    expect pool "device buffers" "$(attribute pool 2)" 167
    expect pool "the limit in the file" "$(key pool cupti.device_memory)" "at most 509 MiB a context (167 buffers)"
    record pool-small TACHO_GPU_DEVICE_MIB=64 -- -- --steps 2
    expect pool-small "device buffers" "$(attribute pool-small 2)" 20
}

# 6: sizes of records up to 13.5, and of one to come; a library that does not know its version
defect_6() {
    for version in 130101 130201 130301 130401 130500 130600; do
        record "v$version" FAKE_CUPTI_VERSION=$version -- -- --steps 2 --kernels 30
        exact "v$version"
        record "kill-$version" FAKE_CUPTI_VERSION=$version FAKE_CUPTI=lazy -- -- --steps 2 --kernels 30 --end kill
        if [ $version = 130600 ]; then # not one record was seen before the end, so no size is known: nothing is guessed
            expect "kill-$version" kernels "$(rows "kill-$version" kernel)" 0
            [ "$(losses "kill-$version" '%rest of a buffer not read%')" -ge 1 ] || bad "kill-$version" "what was dropped is not said"
        else
            exact "kill-$version"
        fi
    done
    record no-version FAKE_CUPTI="version=999" -- -- --steps 2
    exact no-version
}

# 7: more threads than there are buffers
defect_7() {
    record threads TACHO_GPU_MIB=16 -- -- --steps 3 --kernels 100 --threads 40
    exact threads
}

# 8: a CUPTI that is newer than the driver is left for the next one; if there is none, the row says what to do
defect_8() {
    site=$TMPDIR/env/lib/python3.11/site-packages/nvidia/cu13/lib
    mkdir -p "$site"
    cp "$fake/libcupti.so.13" "$site/"
    record newer VIRTUAL_ENV="$TMPDIR/env" FAKE_CUPTI="newer=/cu13/" -- -- --steps 2
    exact newer
    expect newer "library in use" "$(key newer cupti.library)" "$fake/libcupti.so.13"
    record too-new TACHO_CUPTI="$site/libcupti.so.13" FAKE_CUPTI="newer=/cu13/" -- -- --steps 2
    expect too-new status "$(cat too-new.status)" 0
    expect too-new "loss row" "$(losses too-new 'device work not recorded:%error 15: newer than the driver%')" 1
}

# 9: a kernel that still runs at the end has a reason of its own
defect_9() {
    record running -- -- --steps 2 --endless
    expect running "kernel that still ran" "$(losses running 'record without an end: still running%')" 1
    expect running "other losses" "$(ask running "SELECT count(*) FROM loss WHERE source IN ('agent', 'cupti') AND reason NOT LIKE 'record without an end%'")" 0
}

# 10: a slice of a device (MIG): which one; its peak is a part of the whole device's, and NVML's power is of the whole
defect_10() {
    record slice FAKE_CUPTI=mig -- -- --steps 2
    expect slice instance "$(ask slice "SELECT value FROM run WHERE key LIKE 'device.%.gpu:0.mig'")" "instance 3, compute instance 1"
    expect slice uuid "$(ask slice "SELECT substr(value, 1, 6) FROM run WHERE key LIKE 'device.%.gpu:0.mig_uuid'")" MIG-ab
    # ... functions of the host on streams
    record host FAKE_CUPTI_VERSION=130101 -- -- --steps 2 --host 4
    expect host "functions of the host" "$(rows host host)" 8
    expect host losses "$(ask host "SELECT count(*) FROM loss WHERE source IN ('agent', 'cupti')")" 0
    record host-older -- -- --steps 2 --host 4
    expect host-older losses "$(ask host-older "SELECT count(*) FROM loss WHERE source IN ('agent', 'cupti')")" 0
    # ... several subscribers: while the agent counts the launches of a profiler that it was not told of, a third tool may come
    record several FAKE_KINETO=new FAKE_CUPTI=joins FAKE_CUPTI_VERSION=130301 -- -- --steps 95 --kernels 5 --ms 100 --kineto 15:200
    expect several "another tool" "$(noted several "joined with") $(kineto several "joined with")" "1 0"
}

for number in ${GPU_DEFECTS:-1_2 3 4 5 6 7 8 9 10}; do "defect_$number"; done
exit $fail
