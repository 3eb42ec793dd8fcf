#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Ranks look after one another: a killed rank ends the job at once, with its number, its step and the checkpoint to go on from; a call that
# one rank leaves out or makes with other bytes is named instead of hanging. A rank that is held by a signal for a while is not taken for one that hangs.
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/faults_common.sh"

killed 3 1 --all-reduce ring
killed 2 0 --layout pp2 --accumulate 2
planted 3 skip 3:1:1 --all-reduce ring --bucket-mib 0.01
planted 2 halve 4:0:3 --zero 3
planted 2 skip 2:1:2 --layout pp2 --accumulate 2
# weights that differ are found at a step that compares them, not only at the end
mpirun -np 2 "${train[@]}" --steps 6 --assert-equal 2 > out 2> err || wrong "--assert-equal: $(cat err)"
# held while it waits for a slow rank, which then waits for it, too: longer than it takes to call that a deadlock
mpirun -np 2 "${train[@]}" --steps 12 --simulate-compute forward=0.02,backward=0.02,rank0=15 > out 2> err &
pid=$!
wait_for grep -q '^step     1' out
held=$(rank_process $pid 1)
kill -STOP "$held"
sleep 14
kill -CONT "$held"
wait $pid || wrong "a rank that was held for 14 s: $(cat err)"
[ "$(grep -c '^step' out)" = 12 ] || wrong "a rank that was held: $(cat out)"
"${train[@]}" --inject skip=1:2 > out 2> err
[ $? = 2 ] && grep -q '^hint: .*skip=STEP:RANK:CALL' err || wrong "--inject skip=1:2: $(cat err)"
exit $bad
