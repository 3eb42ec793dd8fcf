# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts about ranks that fail: sourced after ranks_common.sh, not run.
# shellcheck shell=bash disable=SC2154 # variables of ranks_common.sh
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
[ -z "$SAN" ] || { echo "a sanitizer keeps processes of a dying job"; exit 77; }
export OMP_NUM_THREADS=1
train=("$TRAIN" gpt2-tiny --layers 4 --channels 32 --heads 4 --data "$SRC/LICENSE" --seq 16 --batch 1 --seed 3 --log-every 1 --schedule constant --warmup 0)
mpirun -np 2 "${train[@]}" --steps 1 > out 2> err || { grep -q 'without MPI' err && { echo "train was built without MPI"; exit 77; }; wrong "first: $(cat err)"; }

# rank_process MPIRUN RANK: the process of a rank that this mpirun has started
rank_process() {
    local child
    for child in $(pgrep -P "$1"); do
        if tr '\0' '\n' < "/proc/$child/environ" 2> /dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$2"; then
            echo "$child"
        fi
    done
}

# killed RANKS RANK ARGUMENTS: that rank is killed between two steps, after a checkpoint at least
killed() {
    local ranks=$1 rank=$2 pid victim start
    shift 2
    rm -f saved
    : > out
    mpirun -np "$ranks" "${train[@]}" --steps 100000 --checkpoint saved --checkpoint-every 3 --simulate-compute forward=0.01,backward=0.01 "$@" > out 2> err &
    pid=$!
    wait_for grep -q '^checkpoint after' out
    sleep "0.$((RANDOM % 9))"
    victim=$(rank_process $pid "$rank")
    [ -n "$victim" ] || { wrong "no process of rank $rank"; kill $pid; wait $pid; return; }
    start=$EPOCHREALTIME
    kill -KILL "$victim"
    wait $pid && wrong "$*: a killed rank, exit code 0"
    took=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    grep -q "^train: rank $rank (process $victim) has died: in step [0-9]" err || wrong "$*: rank $rank of $ranks was killed: $(cat err)"
    steps=$(sed -n 's/^hint: --resume saved goes on after \([0-9]*\) steps$/\1/p' err)
    [ -n "$steps" ] || wrong "$*: no checkpoint is named: $(cat err)"
    echo "note: $*: rank $rank killed, the job ended after $took s, saved after $steps steps"
}

# planted RANKS KIND STEP:RANK:CALL ARGUMENTS: the call that was left out or halved on purpose is the one that is named
planted() {
    local ranks=$1 kind=$2 where=$3 start=$EPOCHREALTIME rank call step wanted
    IFS=: read -r step rank call <<< "$where"
    shift 3
    timeout 60 mpirun -np "$ranks" "${train[@]}" --steps 20 --inject "$kind=$where" "$@" > out 2> err && wrong "$kind=$where $*: exit code 0: $(cat err)"
    took=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    wanted=$(sed -n "s/^injected: rank $rank \(skips\|halves\) call $call of step $step: //p" err)
    [ -n "$wanted" ] || { wrong "$kind=$where $*: nothing was injected: $(cat err)"; return; }
    if [ "$kind" = skip ]; then
        # one of several equal calls in a row cannot be told from the others
        grep -q "^train: .*: rank $rank skipped call [0-9]* of step $step: $wanted" err || wrong "skip=$where $*: $(grep -a 'injected\|train:' err)"
    else
        grep -q "^train: .*: rank $rank: call $call of step $step was .*; in the step before: $wanted" err || wrong "halve=$where $*: $(grep -a 'injected\|train:' err)"
    fi
    [ "$(grep -c '^train: ' err)" = 1 ] || wrong "$kind=$where $*: not said once: $(cat err)"
}
