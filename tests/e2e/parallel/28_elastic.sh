#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# --elastic: ranks are killed, and the job goes on from its last checkpoint with the ranks that are left and the same global batch: the final
# checkpoint is that of a run which nothing happened to, bit by bit, and so is each loss; what was lost is counted; where too few are left it ends,
# and other errors and signals end it as they end any run.
# shellcheck disable=SC2154 # variables of ranks_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
[ -z "$SAN" ] || { echo "a sanitizer keeps processes of a dying job"; exit 77; }
export OMP_NUM_THREADS=1
train=("$TRAIN" gpt2-tiny --layers 2 --channels 32 --heads 4 --data "$SRC/LICENSE" --seq 16 --batch 1 --seed 3 --log-every 1)
timeout 60 mpirun -np 2 "${train[@]}" --steps 1 > out 2> err || { grep -q 'without MPI' err && { echo "train was built without MPI"; exit 77; }; wrong "two ranks: $(cat err)"; }

# begin ARGUMENTS: the supervisor in the background, output into out and err; reached STEP: its job has made that step; ranks PID: the processes that the supervisor's launcher started
begin() {
    rm -f out
    "${train[@]}" "$@" > out 2> err &
    supervisor=$!
}
reached() { for ((i = 0; i < 300; i++)); do grep -q "^step *$1/" out 2> /dev/null && return 0; sleep 0.1; done; wrong "step $1 was never made: $(cat out err)"; }
ranks() { pgrep -P "$(pgrep -P "$1" | head -1)" | while read -r pid; do echo "$pid"; done; }
losses() { awk '/^step / { loss[$2 + 0] = $4 } END { for (s in loss) print s, loss[s] }' "$1" | sort -n; }

steps=(--steps 24 --all-reduce ordered)
"${train[@]}" "${steps[@]}" --accumulate 12 --checkpoint whole > whole.out 2> err || wrong "one rank: $(cat err)"
begin "${steps[@]}" --elastic 4 --accumulate 3 --zero 1 --checkpoint disk --checkpoint-every 5 --simulate-compute forward=0.02
reached 7
kill -9 "$(ranks $supervisor | sed -n 3p)"
reached 13
kill -9 "$(ranks $supervisor | sed -n 2p)"
wait $supervisor || wrong "the job did not go on: $(cat out err)"
cmp whole disk || wrong "not the checkpoint of a run that nothing happened to"
losses whole.out > expected
losses out | diff expected - || wrong "other losses"
grep -q '^elastic: rank [0-3] of 4 died after [0-9]* steps; going on with 3 ranks, 4 micro-batches each$' out || wrong "first: $(grep ^elastic out)"
grep -q '^elastic: rank [0-2] of 3 died after [0-9]* steps; going on with 2 ranks, 6 micro-batches each$' out || wrong "second: $(grep ^elastic out)"
# steps from "resumed" to what was reached are made twice
awk '/^elastic: rank/ { reached = $8; ranks = $5 } /^resumed:/ { lost += reached - $2; all += (reached - $2) * ranks; seen++ }
    /^elastic: 2 restarts/ { said = $4; ranked = $9; sub(/\(/, "", ranked); ended = 1; paused = $(NF - 5) }
    END { exit !(ended && seen == 2 && said == lost && ranked == all && lost >= 0 && lost <= 12 && paused > 0) }' out || wrong "what was lost: $(grep '^elastic\|^resumed' out)"
grep '^elastic: 2 restarts' out
[ "$(grep -c 'has died\|mpirun noticed' err)" -ge 2 ] || wrong "who died is not said: $(cat err)"

# replicas of a pipeline, and checkpoints beside training
"${train[@]}" "${steps[@]}" --accumulate 4 --checkpoint whole > whole.out 2> err || wrong "one rank: $(cat err)"
rm -f disk*
begin "${steps[@]}" --elastic 4 --layout pp2.dp2 --accumulate 2 --checkpoint disk --checkpoint-every 5 --checkpoint-async --simulate-compute forward=0.03
reached 9
kill -9 "$(ranks $supervisor | sed -n 4p)"
wait $supervisor || wrong "pp2.dp2 did not go on: $(cat out err)"
grep -q '; going on with 2 ranks, 4 micro-batches each$' out || wrong "pp2.dp2: $(grep ^elastic out)"
"${train[@]}" "${steps[@]}" --steps 25 --accumulate 4 --resume disk --checkpoint a > /dev/null 2> err || wrong "disk: $(cat err)"
"${train[@]}" "${steps[@]}" --steps 25 --accumulate 4 --resume whole --checkpoint b > /dev/null 2> err || wrong "whole: $(cat err)"
cmp a b || wrong "pp2.dp2: not the checkpoint of a run that nothing happened to"

# one stage is no pipeline
begin --elastic 2 --layout pp2 --accumulate 2 --steps 500 --checkpoint none --checkpoint-every 5 --simulate-compute forward=0.02
reached 2
kill -9 "$(ranks $supervisor | sed -n 1p)"
wait $supervisor && wrong "pp2: it ended well"
grep -q '^train: --elastic: 1 rank left: too few for a replica of 2$' err || wrong "pp2: $(cat err)"

# a signal ends it after the step, with its checkpoint, and it does not begin anew
begin --elastic 2 --steps 5000 --checkpoint stopped --checkpoint-every 1000 --simulate-compute forward=0.02
reached 2
kill -TERM $supervisor
wait $supervisor && wrong "a signal: it ended well"
[ -s stopped ] && ! grep -q '^elastic' out || wrong "a signal: $(tail -n 3 out) $(cat err)"

refused() { # STATUS WORDS ARGUMENTS
    "${train[@]}" --elastic 2 "${@:3}" > out 2> err
    [ $? = "$1" ] && grep -qe "$2" err && grep -q '^hint: ' err || wrong "${*:3}: $(cat err)"
    ! grep -q '^elastic' out || wrong "${*:3}: it began anew"
}
refused 2 'nothing to go on from'
refused 2 'not of 2 ranks' --checkpoint x --checkpoint-every 5 --layout dp3
refused 2 'needs 6 ranks' --checkpoint x --checkpoint-every 5 --layout dp2.tp3
refused 3 'no-such-launcher: No such file' --checkpoint x --checkpoint-every 5 --launcher 'no-such-launcher -x'
timeout 60 mpirun -np 1 "${train[@]}" --elastic 2 --checkpoint x --checkpoint-every 5 > out 2> err
grep -q 'started by a launcher' err || wrong "under mpirun: $(cat err)"
exit $bad
