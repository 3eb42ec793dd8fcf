#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# How Slurm and Kubernetes end a job: a signal to all processes, or only to the first, and SIGKILL after a time of grace; then
# memory of the job may be gone too. docs/durability.md says what is kept.
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
. "$SRC/tests/e2e/kit/collector_kills.sh"
run=("$TACHO" run --no-peak --no-counters --overhead 0)
ended() { one "$1" "SELECT value FROM run WHERE key='ended'"; }
# all PID: the processes of a job step, its recorder first
all() { echo "$1" && pgrep -P "$1"; }
# complete NAME: each range of the journal is in the file
complete() {
    whole "$1.tacho"
    paste <(journal_counts "$1.journal") <(file_counts "$1.tacho") | awk -v name="$1" '
        $2 < $1 || $2 > $1 + 1 || NF != 2 { print "FAIL: " name ": journal " $1 ", file " $2; exit 1 }' || bad=1
}
begin() { # NAME COMMAND...: $pid is the recorder
    local name=$1
    shift
    "${run[@]}" -o "$name" -- "$@" "$bin/target_events" --threads $threads --forever --rate 5000 --journal "$name.journal" > out 2> "$name.err" &
    pid=$!
    wait_for test -s "$name.journal"
    sleep 0.5
}
# ends NAME CODE: the recorder ends by itself with that exit code
ends() {
    wait $pid
    local rc=$?
    [ $rc = "$2" ] || wrong "$1: exit code $rc instead of $2: $(cat "$1.err")"
}

# ---- srun, scancel, a limit of time: SIGTERM reaches recorder and target
begin all-term
# shellcheck disable=SC2046 # one word a process
kill -TERM $(all $pid)
ends all-term 0
complete all-term
[ "$(ended all-term.tacho)" = 'exit 0' ] || wrong "all-term: $(ended all-term.tacho)" # the target ends by itself on TERM

# ---- Kubernetes, docker stop: SIGTERM reaches the first process only, which passes it on
begin first-term
kill -TERM $pid
ends first-term 0
complete first-term

# ---- the recorder as the first process of a container: it reaps, and gets signals although it is number 1
if [ "$(id -u)" = 0 ] && unshare --pid --fork --mount-proc true 2> /dev/null; then
    unshare --pid --fork --mount-proc "${run[@]}" -o first -- "$bin/target_events" --threads $threads --forever --rate 5000 \
        --journal first.journal > out 2> first.err &
    pid=$!
    wait_for test -s first.journal
    sleep 0.5
    kill -TERM "$(pgrep -P $pid)"
    ends first 0
    complete first
fi

# ---- the target does not answer SIGTERM: SIGKILL to all of them, after the grace. The next command finishes the run
begin killed
kill -STOP "$(pgrep -P $pid)"
# shellcheck disable=SC2046
kill -TERM $(all $pid)
sleep 0.5
[ "$(pgrep -cP $pid)" = 1 ] || wrong "killed: SIGTERM ended it"
# shellcheck disable=SC2046
kill -KILL $(all $pid)
wait $pid 2> /dev/null
expect 0 "$TACHO" report killed
complete killed
ended killed.tacho | grep -q 'collector' || wrong "killed: $(ended killed.tacho)"

# ---- the same, and the memory of the job is removed (a container ends, job_container/tmpfs, an epilog): what was committed is there,
# the rest is a row
begin memory
now=$(now_ns)
# shellcheck disable=SC2046
kill -KILL $(all $pid)
wait $pid 2> /dev/null
pools=$(readlink -f memory.tacho.live/segments)
case $pools in
/dev/shm/*)
    rm -r "$pools"
    expect 0 "$TACHO" recover memory
    whole memory.tacho
    found=$(file_counts memory.tacho | awk '{ n += $1 } END { print n + 0 }')
    before=$(journal_before memory.journal $((now - 2000000000)))
    [ "$found" -ge "$before" ] || wrong "memory: $found ranges in the file, $before were made two seconds before the end"
    [ "$(one memory.tacho "SELECT count(*) FROM loss WHERE reason LIKE 'rest of a pool not read%' AND count IS NULL")" = 1 ] ||
        wrong "memory: nothing says that it is gone: $(one memory.tacho 'SELECT * FROM loss')"
    ! grep -q ' 0 lost' err || wrong "memory: $(cat err)"
    ;;
esac

# ---- sbatch --signal=B:USR1: only the shell of the batch script gets the signal, and passes it on or not
cat > batch.sh <<X
trap 'echo warned > warned; kill -USR1 \$child' USR1
"\$@" &
child=\$!
until wait \$child; [ \$? != 138 ]; do :; done
X
"${run[@]}" -o inner -- "$bin/target_signals" --count 1 > inner.out 2> inner.err &
pid=$!
wait_for grep -q ready inner.out
kill -USR1 $pid
ends inner 0
whole inner.tacho
bash batch.sh "${run[@]}" -o batch -- "$bin/target_signals" --count 1 > batch.out 2> batch.err &
pid=$!
wait_for grep -q ready batch.out
kill -USR1 $pid
ends batch 0
whole batch.tacho
[ -s warned ] && grep -q 'signal .*USR1' batch.out || wrong "batch: $(cat batch.out)"

# ---- a second SIGTERM while the run is finished changes nothing
begin twice
kill -TERM $pid
kill -TERM $pid 2> /dev/null
ends twice 0
complete twice
exit $bad
