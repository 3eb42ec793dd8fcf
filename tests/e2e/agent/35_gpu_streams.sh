#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# What streams and calls wait for (CUPTI's kinds 36 and 38) is recorded once more than one stream is in use, and not before: with
# the substitute driver and CUPTI (tests/targets/fake_*.c), which log the kinds that are enabled and each record they write.
# shellcheck disable=SC2153  # TACHO comes from tests/run
set -u
# shellcheck source=tests/e2e/kit/gpu_common.sh
. "$(dirname "$0")/../kit/gpu_common.sh"

late='waits between streams not recorded until a second stream was noticed%'
switched() { # NAME enable|disable KIND: how often
    awk -F '\t' -v w="$2" -v k="$3" '$2 == w && $3 == k' "$1.log" | wc -l
}
gap() { # NAME COLUMN
    ask "$1" "SELECT $2 FROM loss WHERE reason LIKE '$late'"
}

# one stream: never enabled, and nothing is said about it
record one TACHO_GPU= -- -- --steps 5 --ms 500 --waits -1 &
# the second stream comes with the fourth step
record second TACHO_GPU= -- -- --steps 12 --ms 300 --waits -1 --second 3 &
# a call that makes a stream wait, without work on it
record call TACHO_GPU= -- -- --steps 9 --ms 300 --waits 2 &
# torch.profiler in between
record between TACHO_GPU= -- -- --steps 14 --ms 300 --second 1 --kineto 9:11 --tell &
wait
for kind in 36 38; do
    expect one "times that kind $kind was enabled" "$(switched one enable $kind)" 0
    expect one "times that kind $kind was disabled" "$(switched one disable $kind)" 0
    expect second "times that kind $kind was enabled" "$(switched second enable $kind)" 1
    expect call "times that kind $kind was enabled" "$(switched call enable $kind)" 1
done
exact one
for name in second call; do
    [ "$(rows $name sync)" -gt 0 ] || bad $name "no waits"
    expect $name waits "$(rows $name sync)" "$(logged $name 38)"
    expect $name "notes about waits" "$(losses $name "$late")" 1
    expect $name "losses, with the note" "$(ask $name "SELECT count(*) FROM loss WHERE source IN ('agent', 'cupti')")" 1
    expect $name "waits before the time of the note" "$(ask $name "SELECT count(*) FROM slice JOIN string ON string.id = category
        WHERE text = 'sync' AND start < (SELECT t1 FROM loss WHERE reason LIKE '$late')")" 0
    expect $name "the note has its times" "$(gap $name 't0 < t1')" 1
done
expect second "begin of the gap, us from the first kernel of the second stream" "$(ask second "SELECT abs((SELECT t0 FROM loss
    WHERE reason LIKE '$late') - min(start)) / 1000 FROM slice JOIN track ON track.id = track WHERE tid = 57")" 0
expect call "begin of the gap, us from the first call" "$(ask call "SELECT abs((SELECT t0 FROM loss WHERE reason LIKE '$late') - min(start)) / 1000
    FROM slice JOIN string ON string.id = name WHERE text = 'cudaStreamWaitEvent'")" 0
# each step after the switch has its waits
expect second "calls that wait, without a row, after the note" "$(ask second "SELECT count(*) FROM slice c JOIN string n ON n.id = c.name
    WHERE n.text = 'cudaStreamSynchronize' AND c.start > (SELECT t1 + 1000000 FROM loss WHERE reason LIKE '$late')
    AND c.correlation NOT IN (SELECT s.correlation FROM slice s JOIN string k ON k.id = s.category WHERE k.text = 'sync')")" 0
"$TACHO" report second.tacho --full > second.report 2>&1
tr -s ' \n' ' ' < second.report | grep -q 'cupti: waits between streams not recorded until a second stream was noticed (TACHO_GPU=waits: from the start): from [0-9.]* to [0-9.]* s' ||
    bad second "the report does not say it: $(grep -A3 Trust second.report)"
grep -q 'LOST_EVENTS' second.report && bad second "a note is taken for lost events"
"$TACHO" report one.tacho --full 2>&1 | grep -q 'waits between streams' && bad one "a run with one stream says something of waits"
# what is known of the streams outlives another profiler: the records are on again at once
expect between "times that events were enabled" "$(switched between enable 36)" 2
expect between "waits" "$(rows between sync)" "$(logged between 38)"
again=$(awk -F '\t' '$2 == "kineto" { seen = NR } $2 == "enable" && $3 == 10 { all = NR } $2 == "enable" && $3 == 36 { waits = NR }
    END { print (all > seen && waits > all && waits - all < 12) }' between.log)
expect between "enabled with the others" "$again" 1

# NCCL has a stream of its own: a communicator of several ranks is enough
record ranks TACHO_GPU= -- -- --steps 6 --ms 300 --waits -1 --second 3 --nccl 2 &
record rank TACHO_GPU= -- -- --steps 5 --ms 500 --waits -1 --nccl 1 &
wait
expect ranks "times that kind 38 was enabled" "$(switched ranks enable 38)" 1
[ "$(rows ranks sync)" -ge 3 ] || bad ranks "$(rows ranks sync) waits in three steps with two streams"
expect ranks losses "$(ask ranks "SELECT count(*) FROM loss WHERE source IN ('agent', 'cupti')")" 0
expect rank "times that kind 38 was enabled" "$(switched rank enable 38)" 0

# a window: its first records come too late to decide by, so it begins with the waits; the next ones know
record windows-one TACHO_GPU= FAKE_CUPTI_VERSION=130101 -- --every 2 -- --steps 30 --ms 100 --waits -1 &
record windows-two TACHO_GPU= FAKE_CUPTI_VERSION=130101 -- --every 2 -- --steps 20 --ms 100 --second 0 &
wait
all=$(switched windows-one enable 10)
some=$(switched windows-one enable 38)
{ [ "$some" -gt 0 ] && [ "$some" -lt "$all" ]; } || bad windows-one "$some of $all windows had waits"
last=$(awk -F '\t' '$2 == "enable" { last = ($3 == 10 ? "" : last) " " $3 } END { print last " " }' windows-one.log)
case $last in *" 38 "*) bad windows-one "the last window had waits: $last" ;; esac
expect windows-one "waits" "$(rows windows-one sync)" "$(logged windows-one 38)"
expect windows-one losses "$(ask windows-one "SELECT count(*) FROM loss WHERE source IN ('agent', 'cupti')")" 0
expect windows-two "windows with waits" "$(switched windows-two enable 38)" "$(switched windows-two enable 10)"
expect windows-two waits "$(rows windows-two sync)" "$(logged windows-two 38)"
[ "$(rows windows-two sync)" -ge 20 ] || bad windows-two "$(rows windows-two sync) waits in ten windows"
expect windows-two losses "$(ask windows-two "SELECT count(*) FROM loss WHERE source IN ('agent', 'cupti')")" 0

# as asked: from the start, beside an option of tacho run; or only what is listed, of which nothing is missing
record forced TACHO_GPU=waits -- --gpu-memory -- --steps 3 --waits -1
expect forced "times that kind 38 was enabled" "$(switched forced enable 38)" 1
expect forced waits "$(rows forced sync)" 3
exact forced
record listed TACHO_GPU= TACHO_GPU_KINDS=10,5 -- -- --steps 3 --second 0
expect listed "kinds" "$(awk -F '\t' '$2 == "enable" { print $3 }' listed.log | sort -nu | tr '\n' ' ')" "5 10 "
expect listed losses "$(ask listed "SELECT count(*) FROM loss WHERE source IN ('agent', 'cupti')")" 0

# over before it was noticed; killed before anything came back
record short TACHO_GPU= -- -- --steps 3 --second 1
expect short waits "$(rows short sync)" 0
expect short "notes about waits" "$(losses short "$late")" 1
expect short "the gap lasts to the end" "$(gap short 't0 < t1')" 1
record killed TACHO_GPU= FAKE_CUPTI=lazy -- -- --steps 3 --second 1 --end kill
expect killed "notes about waits" "$(losses killed "$late")" 1
exit $fail
