#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# NCCL's profiler plugin interface, versions 1 to 6, played by a program (tests/targets/target_nccl.c): each collective is a row
# with its communicator, bytes and sequence number; it ends with the last thing inside it; late events harm nothing.
# shellcheck disable=SC2016  # dollars for another program
set -u
# shellcheck source=tests/e2e/kit/gpu_common.sh
. "$(dirname "$0")/../kit/gpu_common.sh"
for v in 1 2 3 4 5 6; do
    name=v$v
    "$TACHO" run --no-hook --no-peak --no-counters --overhead 0 -o $name.tacho -- "$BUILD/tests/targets/target_nccl" $v 50 \
        > $name.out 2>&1
    expect $name status $? 0
    mask=7
    [ $v -ge 5 ] && mask=1799
    [ $v = 6 ] && mask=5895
    expect $name mask "$(sed -n 's/^mask //p' $name.out)" $mask
    rows="FROM slice JOIN track ON track.id = track JOIN string ON string.id = slice.name JOIN detail ON detail.id = detail WHERE track.kind = 'comm'"
    expect $name collectives "$(ask $name "SELECT count(*) $rows AND text = 'ncclAllReduce'")" 850
    expect $name sends "$(ask $name "SELECT count(*) $rows AND text = 'ncclSend'")" 50
    expect $name payloads "$(ask $name "SELECT DISTINCT detail.bytes || ' ' || communicator || ' ' || collective || ' ' || schema $rows AND text = 'ncclAllReduce'")" \
        "2048 77 all_reduce tacho.comm"
    [ $v -ge 4 ] && expect $name ranks "$(ask $name "SELECT DISTINCT ranks $rows")" 8
    expect $name "bytes of sends" "$(ask $name "SELECT DISTINCT detail.bytes $rows AND text = 'ncclSend'")" 400
    expect $name "sequence numbers" "$(ask $name "SELECT count(DISTINCT correlation) $rows AND text = 'ncclAllReduce'")" 850
    # the proxy operation ends 300 us after the collective was enqueued
    expect $name "collectives that end too early" "$(ask $name "SELECT count(*) $rows AND text = 'ncclAllReduce' AND correlation < 1000 AND slice.dur < 290000")" 0
    expect $name "open ranges" "$(ask $name "SELECT count(*) $rows AND dur IS NULL")" 0
    expect $name losses "$(ask $name "SELECT count(*) FROM loss WHERE source = 'agent'")" 0
done
# without a run the plugin declines, and NCCL is none the worse
NCCL_PROFILER_PLUGIN=$LIBTACHO "$BUILD/tests/targets/target_nccl" 5 10 > alone.out
expect alone status $? 0
expect alone mask "$(sed -n 's/^mask //p' alone.out)" 0
# a plugin of the user's stays
NCCL_PROFILER_PLUGIN=other "$TACHO" run --no-hook --no-peak --no-counters -o user.tacho -- sh -c 'echo "$NCCL_PROFILER_PLUGIN"' > user.out 2> user.err
expect user plugin "$(cat user.out)" other
grep -q NCCL_PROFILER_PLUGIN user.err || { echo "user: no warning"; fail=1; }
exit $fail
