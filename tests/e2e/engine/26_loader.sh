#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The loader in real runs (26_loader_timing.sh: how long it lets the step wait). The losses are the same whatever makes the
# batches. Workers that are killed, signals, many small files, what is refused.
# shellcheck disable=SC2086  # options that are lists of words
set -u
dir=$(mktemp -d)
fail() {
    echo "FAIL: $*"
    exit 1
}
data=$SRC/LICENSE
export OMP_NUM_THREADS=1 # threads that wait for one another are what suffers most on a busy machine
tiny="--layers 1 --channels 32 --heads 2 --seq 16 --batch 4 --log-every 0 --data $data"

# ---- the same run -----------------------------------------------------------------------------------------------------------
losses() {
    # shellcheck disable=SC2086
    "$TRAIN" gpt2-tiny $tiny --steps 12 --log-every 1 "$@" 2>&1 | sed -n 's/.*\(loss [0-9.]*  norm [0-9.]*\).*/\1/p'
}
losses --workers 0 > "$dir/want"
[ "$(wc -l < "$dir/want")" = 12 ] || fail "no losses"
for how in "--workers 1 --pin" "--workers 3 --prefetch 1" "--workers 2 --worker-kind processes" "--workers 3 --worker-kind processes --pin" \
    "--workers 0 --io pread --pin" "--workers 2 --io pread"; do
    # shellcheck disable=SC2086
    losses $how | cmp -s - "$dir/want" || fail "$how: other losses"
done
losses --workers 2 --no-shuffle | cmp -s - "$dir/want" && fail "--no-shuffle changes nothing"

# ---- workers that die, signals ----------------------------------------------------------------------------------------------
workers_of() { # PID: the pids of its loader processes
    local p
    for p in /proc/[0-9]*/stat; do
        # shellcheck disable=SC2016
        awk -v parent="$1" '$2 ~ /^\(loader-/ && $4 == parent && $3 != "Z" { print $1 }' "$p" 2> /dev/null
    done
}
start() { # OPTION...: a long run with two worker processes, in the background
    # shellcheck disable=SC2086
    "$TRAIN" gpt2-tiny $tiny --steps 1000000 --workers 2 --worker-kind processes "$@" > "$dir/out" 2>&1 &
    run=$!
    for _ in $(seq 3000); do
        # shellcheck disable=SC2207
        pids=($(workers_of $run))
        [ ${#pids[@]} = 2 ] && return
        sleep 0.02
    done
    cat "$dir/out"
    fail "no worker processes"
}
start --slow decode=0.02
kill -KILL "${pids[1]}"
wait $run
[ $? = 5 ] || fail "exit code of a run whose worker was killed"
grep -q '^train: loader worker [01] (process '"${pids[1]}"') was killed by signal 9' "$dir/out" || { cat "$dir/out"; fail "no words"; }
grep -q '^hint: ' "$dir/out" || fail "no hint"
kill -0 "${pids[0]}" 2> /dev/null && fail "the other worker is still there"

start --checkpoint "$dir/checkpoint"
kill -TERM "${pids[@]}" # theirs are the program's to handle
kill -TERM $run
wait $run
[ $? = 143 ] || { cat "$dir/out"; fail "exit code after SIGTERM"; }
[ -s "$dir/checkpoint" ] || fail "no checkpoint after SIGTERM"
kill -0 "${pids[0]}" 2> /dev/null && fail "a worker outlives the run"

start
kill -KILL $run
wait $run 2> /dev/null
for _ in $(seq 3000); do
    left=0
    for pid in "${pids[@]}"; do grep -qs '^loader-' "/proc/$pid/comm" && left=1; done
    [ $left = 0 ] && break
    sleep 0.02
done
[ $left = 0 ] || fail "workers outlive a program that was killed"

# ---- many small files -------------------------------------------------------------------------------------------------------
mkdir "$dir/many"
seq 10000 | awk -v dir="$dir/many" '{ f = sprintf("%s/%05d", dir, $1); printf "file %d of many, %d letters\n", $1, $1 * 7919 % 1000 > f; close(f) }'
cat "$dir"/many/* > "$dir/packed"
losses --workers 2 --data "$dir/packed" > "$dir/want" # --data adds up, so both runs start with the licence
losses --workers 2 --worker-kind processes --data "$dir/many" > "$dir/got"
[ "$(wc -l < "$dir/got")" = 12 ] || fail "no losses from 10,000 files"
cmp -s "$dir/got" "$dir/want" || fail "10,000 files give another run than the same bytes in one"

# ---- words ------------------------------------------------------------------------------------------------------------------
expect() { # CODE WORDS OPTION...
    local code=$1 words=$2
    shift 2
    # shellcheck disable=SC2086
    "$TRAIN" gpt2-tiny $tiny --steps 1 "$@" > "$dir/out" 2>&1
    local got=$?
    [ $got = "$code" ] && grep -qe "$words" "$dir/out" && grep -q '^hint: ' "$dir/out" || { cat "$dir/out"; fail "$*: exit $got"; }
}
expect 2 '--worker-kind fibres' --worker-kind fibres
expect 2 '--slow nap=1' --slow nap=1
expect 2 '--slow read' --slow read
expect 2 '--slow read=1x' --slow read=1x
expect 2 '--slow read=-1' --slow read=-1
expect 2 '--io carrier' --io carrier
expect 2 '--format tablets' --format tablets
expect 2 '--format idx: not what this model' --format idx
expect 3 'not a token shard' --format tokens

# a file that becomes shorter under a running program
head -c 200000 /dev/zero | tr '\0' 'a' > "$dir/shrinks"
for how in "--io mapped" "--io pread" "--io mapped --worker-kind processes"; do
    head -c 200000 /dev/zero | tr '\0' 'a' > "$dir/shrinks"
    : > "$dir/out" # the lines of the run before are not this one's
    # shellcheck disable=SC2086
    "$TRAIN" gpt2-tiny --layers 1 --channels 32 --heads 2 --seq 16 --batch 4 --log-every 1 --data "$dir/shrinks" --steps 1000000 $how > "$dir/out" 2>&1 &
    run=$!
    for _ in $(seq 3000); do
        grep -q '^step' "$dir/out" && break
        sleep 0.02
    done
    : > "$dir/shrinks"
    wait $run
    [ $? = 3 ] || { tail -3 "$dir/out"; fail "$how: exit code when the data became shorter"; }
    grep -q 'shrinks: shorter than when the run began' "$dir/out" || { tail -3 "$dir/out"; fail "$how: no words"; }
done

# ---- what a tool sees -------------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
"$TACHO" run -o "$dir/run.tacho" -- "$TRAIN" gpt2-tiny $tiny --steps 20 --workers 2 --worker-kind processes --pin > "$dir/out" 2>&1 ||
    { cat "$dir/out"; fail "tacho run"; }
"$TACHO" report --json "$dir/run.tacho" > "$dir/json" || fail "no report"
grep -q '"worker_kind": "processes"' "$dir/json" || fail "the report does not know the workers as processes"
for name in loader-0 loader-1; do
    grep -q "\"name\": \"$name\"" "$dir/json" || fail "no worker $name in the report"
done
rm -rf "$dir"
