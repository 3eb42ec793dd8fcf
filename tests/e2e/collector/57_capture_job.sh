#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# tacho capture of a job whose recorders share no memory: they meet in the folder of their runs. The same steps on all of them,
# however fast each is; who does not answer, comes too late or is not there is said, and then nothing is recorded of the others.
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
export LD_LIBRARY_PATH=$BUILD/tests/fake
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }

# recorder JOB RANK RANKS FOLDER TACHO-OPTIONS -- TARGET-OPTIONS: one of its own, as on a machine of its own; in the background
recorder() {
    local id=$1 rank=$2 size=$3 folder=$4 options=()
    shift 4
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    mkdir -p "$folder"
    job "$id" "$rank" "$size" 1 "$TACHO" run --separate --no-hook --no-peak --no-counters --overhead 0 "${options[@]}" -o "$folder/r$rank.tacho" -- \
        "$bin/target_cuda" --kernels 20 "$@" > "$folder.$rank.out" 2>&1 &
    pids+=($!)
}
# device_steps FILE: first and last step with device work, and how many
device_steps() {
    one "$1" "SELECT min(step.\"index\") || ' ' || max(step.\"index\") || ' ' || count(DISTINCT step.\"index\") FROM slice
        JOIN string ON string.id=category JOIN track ON track.id=track JOIN step ON step.process=track.process AND slice.start >= step.start
        AND slice.start < step.\"end\" WHERE text='runtime'"
}
kernels() { one "$1" "SELECT count(*) FROM slice JOIN string ON string.id=category WHERE text='kernel'"; }
# recording FOLDER RANKS: waits until each of them can be asked
recording() {
    local r
    for ((r = 0; r < $2; r++)); do wait_for test -e "$1/r$r.tacho.live/segments/control" -a -e "$1/r$r.tacho.live/run.db"; done
}
meeting() { find "$1" -maxdepth 1 -name '.tacho-job-*' | wc -l; }
captured() { # FILE-WITH-MESSAGE: "FROM TO"
    sed -n 's/.*: steps \([0-9]*\) to \([0-9]*\) are recorded in .*/\1 \2/p' "$1"
}

# Each part stands in a folder of its own and says what is wrong; they wait for steps most of the time, and so run together.

# three recorders of different pace, asked through one of their runs, then through the folder
paces() {
    local pids=() p r from to
    for r in 0 1 2; do recorder 300 $r 3 three --gpu later -- --steps $((260 - 40 * r)) --ms $((50 + 10 * r)); done
    recording three 3
    sleep 1
    "$TACHO" capture --steps 4 three/r1.tacho.live > first.out 2>&1 || wrong "three: $(cat first.out)"
    grep -q 'in 3 processes' first.out || wrong "three: $(cat first.out)"
    [ "$(meeting three)" = 1 ] || wrong "three: $(ls -a three)"
    for p in "${pids[@]}"; do wait "$p" || wrong "three: a recorder failed"; done
    read -r from to <<< "$(captured first.out)"
    for r in 0 1 2; do
        whole three/r$r.tacho
        [ "$(device_steps three/r$r.tacho)" = "$from $to 4" ] || wrong "three: rank $r: $(device_steps three/r$r.tacho), asked $from $to"
        [ "$(kernels three/r$r.tacho)" = 80 ] || wrong "three: rank $r: $(kernels three/r$r.tacho) kernels"
    done
    [ "$(meeting three)" = 0 ] || wrong "three: left: $(ls -a three)"
}

# the folder, and a step that is named; then one that is over
named_step() {
    local pids=() p r from to
    for r in 0 1; do recorder 301 $r 2 two --gpu later -- --steps 220 --ms $((50 + 5 * r)); done
    recording two 2
    sleep 0.5
    "$TACHO" capture --steps 3 --at 120 two > at.out 2>&1 || wrong "at: $(cat at.out)"
    grep -q 'steps 120 to 122 are recorded in 2 processes' at.out || wrong "at: $(cat at.out)"
    expect 2 "$TACHO" capture --steps 3 --at 5 two
    grep -q 'step 5 has begun already' err || wrong "late: $(cat err)"
    for p in "${pids[@]}"; do wait "$p"; done
    for r in 0 1; do
        [ "$(device_steps two/r$r.tacho)" = "120 122 3" ] || wrong "at: rank $r: $(device_steps two/r$r.tacho)"
    done
}

# machines: namespaces in which they cannot meet otherwise, each with a host name of its own
machines() {
    local pids=() p r from to
    unshare -n -u true 2> /dev/null || return 0
    mkdir nodes
    for r in 0 1; do
        (cd nodes && job 305 $r 2 1 unshare -n -u bash -c "hostname node$r; exec '$TACHO' run --no-hook --no-peak --no-counters --overhead 0 --gpu later \
            -o run.tacho -- '$bin/target_cuda' --kernels 20 --steps 180 --ms 50") > nodes.$r.out 2>&1 &
        pids+=($!)
    done
    for r in 0 1; do wait_for test -e nodes/run-node$r.tacho.live/segments/control -a -e nodes/run-node$r.tacho.live/run.db; done
    sleep 0.5
    "$TACHO" capture --steps 3 nodes > nodes.out 2>&1 || wrong "nodes: $(cat nodes.out)"
    for p in "${pids[@]}"; do wait "$p" || wrong "nodes: a recorder failed"; done
    read -r from to <<< "$(captured nodes.out)"
    for r in 0 1; do
        [ "$(device_steps nodes/run-node$r.tacho)" = "$from $to 3" ] || wrong "nodes: $r: $(device_steps nodes/run-node$r.tacho), asked $from $to"
    done
    [ "$(meeting nodes)" = 0 ] || wrong "nodes: left: $(ls -a nodes)"
}

# what is recorded anyway needs no meeting; a folder without one is told
recorded_anyway() {
    local pids=() p r from to
    for r in 0 1; do recorder 302 $r 2 all --gpu on -- --steps 30 --ms 50; done
    recording all 2
    [ "$(meeting all)" = 0 ] || wrong "all: $(ls -a all)"
    expect 3 "$TACHO" capture all
    expect 2 "$TACHO" capture all/r0.tacho.live
    grep -q 'recorded already' err || wrong "all: $(cat err)"
    for p in "${pids[@]}"; do wait "$p"; done
}

# one of two ranks only; and a recorder that was killed: said, and nothing is recorded of the other one
missing_ranks() {
    local pids=() p r from to
    recorder 303 0 2 alone --gpu later -- --steps 400 --ms 50
    recorder 304 0 2 dead --gpu later -- --steps 400 --ms 50
    recorder 304 1 2 dead --gpu later -- --steps 400 --ms 50
    recording dead 2
    recording alone 1
    sleep 0.5
    kill -KILL "$(live_leader dead/r1.tacho.live)"
    { "$TACHO" capture --steps 2 alone > alone.out 2>&1; echo $? > alone.status; } &
    asked=$!
    "$TACHO" capture --steps 2 dead > dead.out 2>&1 && wrong "dead: $(cat dead.out)"
    wait $asked
    [ "$(cat alone.status)" != 0 ] || wrong "alone: $(cat alone.out)"
    grep -q "only 1 of the job's 2 ranks" alone.out || wrong "alone: $(cat alone.out)"
    grep -q 'does not answer' dead.out || wrong "dead: $(cat dead.out)"
    for p in "${pids[@]}"; do wait "$p" 2> /dev/null; done
    for f in alone dead; do
        [ "$(kernels $f/r0.tacho)" = 0 ] || wrong "$f: $(kernels $f/r0.tacho) kernels"
    done
}

parts=()
for part in paces named_step machines recorded_anyway missing_ranks; do
    mkdir $part
    (cd $part || exit 1; $part; exit $bad) &
    parts+=($!)
done
for p in "${parts[@]}"; do wait "$p" || bad=1; done
exit $bad
