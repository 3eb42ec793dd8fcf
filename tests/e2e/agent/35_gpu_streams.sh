#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# What streams and calls wait for (CUPTI's kinds 36 and 38) is recorded until one stream is seen to have all the work, and again once a second
# one is really used: with the substitute driver and CUPTI (tests/targets/fake_*.c), which log the kinds that are enabled and each record.
# shellcheck disable=SC2153  # TACHO comes from tests/run
set -u
# shellcheck source=tests/e2e/kit/gpu_common.sh
. "$(dirname "$0")/../kit/gpu_common.sh"

late='waits between streams not recorded until a second stream was noticed%'
switched() { # NAME enable|disable KIND: how often
    awk -F '\t' -v w="$2" -v k="$3" '$2 == w && $3 == k' "$1.log" | wc -l
}
# times NAME ENABLED DISABLED: how often both kinds were
times() {
    for kind in 36 38; do
        expect "$1" "times that kind $kind was enabled" "$(switched "$1" enable $kind)" "$2"
        expect "$1" "times that kind $kind was disabled" "$(switched "$1" disable $kind)" "$3"
    done
    grep 'synchronization is still' "$1.out" && bad "$1" "what the program waited for did not come"
    expect "$1" waits "$(rows "$1" sync)" "$(logged "$1" 38)"
}
gap() { # NAME COLUMN
    ask "$1" "SELECT $2 FROM loss WHERE reason LIKE '$late'"
}
# key NAME off|on: a run key of the only process, ns since it began
key() {
    ask "$1" "SELECT value FROM run WHERE key = 'process.' || (SELECT max(process) FROM track WHERE kind = 'stream') || '.waits_$2_ns'"
}
losses_of() { ask "$1" "SELECT count(*) FROM loss WHERE source IN ('agent', 'cupti')"; }
# first NAME TEXT STREAM: when the first row of that name, or on that stream, began
first() {
    ask "$1" "SELECT min(start) FROM slice JOIN string ON string.id = slice.name JOIN track ON track.id = track WHERE text = '$2' OR tid = ${3:--1}"
}

# one stream, after the start of cuBLAS, of which the first comes before all other work: on until that is seen, then off for good
record one TACHO_GPU= -- -- --steps 11 --waits -1 --blas $((1 | 2 | 4 | 128 | 256)) --await 7:-1 &
# the second stream comes with the fifth step
record second TACHO_GPU= -- -- --steps 12 --waits -1 --second 4 --await 4:8 &
# calls that make a stream wait, without work on it
record call TACHO_GPU= -- -- --steps 24 --waits 4 --await 4:20 &
# two streams from the first step on
record two TACHO_GPU= -- -- --steps 6 --ms 250 --second 0 &
# the device always has work, so CUPTI gives no buffer back: nothing is known, and nothing is missed
record busy TACHO_GPU= -- -- --steps 14 --ms 150 --waits -1 --second 9 --busy 400 &
wait
times one 1 1
exact one
expect one "waits" "$(rows one sync)" 7
expect one "waits after the switch" "$(ask one "SELECT count(*) FROM slice JOIN string ON string.id = category WHERE text = 'sync' AND
    start > $(key one off) + (SELECT min(start) FROM process WHERE id IN (SELECT process FROM track WHERE kind = 'stream'))")" 0
expect one "a time when it began again" "$(key one on)" ""
times two 1 0
exact two
expect two "keys" "$(key two off)$(key two on)" ""
times busy 1 0
expect busy kernels "$(rows busy kernel)" "$(logged busy 10)"
expect busy losses "$(losses_of busy)" 0
expect busy waits "$(rows busy sync)" 14
for name in second call; do
    times $name 2 1
    expect $name "notes about waits" "$(losses $name "$late")" 1
    expect $name "losses, with the note" "$(losses_of $name)" 1
    expect $name "the note has its times" "$(gap $name 't0 < t1')" 1
    expect $name "end of the gap, us from the run key" "$(ask $name "SELECT abs(t1 - start - $(key $name on)) / 1000 FROM loss, process
        WHERE reason LIKE '$late' AND process.id = (SELECT max(process) FROM track WHERE kind = 'stream')")" 0
    expect $name "rows between the switches" "$(ask $name "SELECT count(*) FROM slice JOIN string ON string.id = category
        JOIN process ON process.id = (SELECT max(process) FROM track WHERE kind = 'stream')
        WHERE text = 'sync' AND slice.start - process.start BETWEEN $(key $name off) + 1000 AND $(key $name on) - 1000")" 0
    # each call has its row but those between the switches
    expect $name "calls that wait, without a row, at other times" "$(ask $name "SELECT count(*) FROM slice c JOIN string n ON n.id = c.name
        JOIN process ON process.id = (SELECT max(process) FROM track WHERE kind = 'stream')
        WHERE n.text IN ('cudaStreamSynchronize', 'cudaStreamWaitEvent')
        AND c.start - process.start NOT BETWEEN $(key $name off) - 1000 AND $(key $name on) + 1000
        AND c.correlation NOT IN (SELECT s.correlation FROM slice s JOIN string k ON k.id = s.category WHERE k.text = 'sync')")" 0
done
expect second "waits" "$(rows second sync)" 8
expect second "begin of the gap, us from the first kernel of the second stream" "$(ask second "SELECT abs($(gap second t0) - $(first second '' 57)) / 1000")" 0
expect call "begin of the gap, us from the first call" "$(ask call "SELECT abs($(gap call t0) - $(first call cudaStreamWaitEvent)) / 1000")" 0
"$TACHO" report second.tacho --full > second.report 2>&1
tr -s ' \n' ' ' < second.report | grep -q 'cupti: waits between streams not recorded until a second stream was noticed (TACHO_GPU=waits: from the start): from [0-9.]* to [0-9.]* s' ||
    bad second "the report does not say it: $(grep -A3 Trust second.report)"
grep -q 'LOST_EVENTS' second.report && bad second "a note is taken for lost events"
"$TACHO" report one.tacho --full 2>&1 | grep -q 'waits between streams' && bad one "a run with one stream says something of waits"

# what is known of the streams outlives another profiler, which enables 38 itself, but not 36
record between TACHO_GPU= -- -- --steps 14 --ms 100 --second 1 --kineto 9:11 --tell &
record between-one TACHO_GPU= -- -- --steps 14 --ms 100 --waits -1 --await 5:-1 --kineto 9:11 --tell &
# NCCL has a stream of its own: a communicator of several ranks is enough, also one that is made later, and misses
# nothing but what was used before
record ranks TACHO_GPU= -- -- --steps 8 --ms 200 --waits -1 --nccl 2 &
record rank TACHO_GPU= -- -- --steps 6 --waits -1 --nccl 1 --await 5:-1 &
record late-ranks TACHO_GPU= -- -- --steps 10 --waits -1 --nccl 2 --nccl-at 5 --blas 32 --await 4:6 --second 6 &
record used-before TACHO_GPU= -- -- --steps 10 --waits -1 --nccl 2 --nccl-at 5 --await 4:6 --second 4 &
wait
expect between "times that events were enabled" "$(switched between enable 36)" 2
expect between-one "times that events were enabled" "$(switched between-one enable 36)" 1
expect between-one "waits" "$(rows between-one sync)" "$(logged between-one 38)"
expect between "waits" "$(rows between sync)" "$(logged between 38)"
again=$(awk -F '\t' '$2 == "kineto" { seen = NR } $2 == "enable" && $3 == 10 { all = NR } $2 == "enable" && $3 == 36 { waits = NR }
    END { print (all > seen && waits > all && waits - all < 12) }' between.log)
expect between "enabled with the others" "$again" 1
times ranks 1 0
times rank 1 1
times late-ranks 2 1
times used-before 2 1
for name in ranks rank late-ranks; do
    expect $name losses "$(losses_of $name)" 0
done
expect used-before "notes about waits" "$(losses used-before "$late")" 1
expect used-before "begin of the gap, us from the first kernel of the second stream" "$(ask used-before "SELECT
    abs($(gap used-before t0) - $(first used-before '' 57)) / 1000")" 0

# windows: the first ones are over before it is known that there is one stream; the next ones begin without
record windows-one TACHO_GPU= FAKE_CUPTI_VERSION=130101 -- --every 2 -- --steps 30 --ms 100 --waits -1 &
record windows-two TACHO_GPU= FAKE_CUPTI_VERSION=130101 -- --every 2 -- --steps 20 --ms 100 --second 0 &
wait
all=$(switched windows-one enable 10)
some=$(switched windows-one enable 38)
{ [ "$some" -gt 0 ] && [ "$some" -lt "$all" ]; } || bad windows-one "$some of $all windows had waits"
last=$(awk -F '\t' '$2 == "enable" { last = ($3 == 10 ? "" : last) " " $3 } END { print last " " }' windows-one.log)
case $last in *" 38 "*) bad windows-one "the last window had waits: $last" ;; esac
expect windows-one "waits" "$(rows windows-one sync)" "$(logged windows-one 38)"
expect windows-one losses "$(losses_of windows-one)" 0
expect windows-two "windows with waits" "$(switched windows-two enable 38)" "$(switched windows-two enable 10)"
expect windows-two waits "$(rows windows-two sync)" "$(logged windows-two 38)"
[ "$(rows windows-two sync)" -ge 20 ] || bad windows-two "$(rows windows-two sync) waits in ten windows"
expect windows-two losses "$(losses_of windows-two)" 0

# as asked: all the time, beside an option of tacho run; or only what is listed, of which nothing is missing
record forced TACHO_GPU=waits -- --gpu-memory -- --steps 8 --ms 200 --waits -1 &
record listed TACHO_GPU= TACHO_GPU_KINDS=10,5 -- -- --steps 3 --second 0 &
# over before it was noticed; killed before anything came back, with a second stream and with the start of cuBLAS alone
record short TACHO_GPU= -- -- --steps 5 --waits -1 --second 4 --await 4:-1 &
record killed TACHO_GPU= -- -- --steps 5 --waits -1 --second 4 --await 4:-1 --end kill &
record killed-one TACHO_GPU= -- -- --steps 6 --waits -1 --blas 16 --await 4:-1 --end kill &
wait
times forced 1 0
exact forced
expect listed "kinds" "$(awk -F '\t' '$2 == "enable" { print $3 }' listed.log | sort -nu | tr '\n' ' ')" "5 10 "
expect listed losses "$(losses_of listed)" 0
for name in short killed; do
    times $name 1 1
    expect $name waits "$(rows $name sync)" 4
    expect $name "notes about waits" "$(losses $name "$late")" 1
    expect $name "begin of the gap, us from the first kernel of the second stream" "$(ask $name "SELECT abs($(gap $name t0) - $(first $name '' 57)) / 1000")" 0
    expect $name "the gap lasts to the end" "$(gap $name 't0 < t1')" 1
done
times killed-one 1 1
expect killed-one memsets "$(rows killed-one memset)" 10
expect killed-one "notes about waits" "$(losses killed-one "$late")" 0
exit $fail
