#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Several ranks of one node: kill -9 of the tacho that records, of another one, of targets, of everything; SIGTERM to mpirun. No step
# that a rank finished is missing from the file, and none is there twice.
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"

# go NAME ID RANKS TARGET-OPTIONS...: all ranks in the background; pids: of their tachos, leader: which of them records
go() {
    local name=$1 id=$2 n=$3 r
    shift 3
    pids=()
    for ((r = 0; r < n; r++)); do
        env OMPI_MCA_ess_base_jobid="$(job_id "$id")" OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE="$n" OMPI_COMM_WORLD_LOCAL_SIZE="$n" \
            "$TACHO" run --no-peak --no-counters --overhead 0 -o "$name" -- "$ranks" --journal "$name.journal" "$@" \
            > "$name.$r.out" 2> "$name.$r.err" &
        pids+=($!)
    done
    wait_for test -s "$name.tacho.live/run.db"
    for ((r = 0; r < n; r++)); do wait_for sh -c "[ \$(od -A n -t u8 -j $((8 * r)) -N 8 $name.journal) -gt 20 ]"; done
    leader=$(live_leader "$name.tacho.live")
}
peer_of() { # a tacho that is not the leader
    local p
    for p in "${pids[@]}"; do [ "$p" != "$1" ] && echo "$p" && return; done
}
all_end() { # exit codes of all tachos into codes
    local p
    codes=
    for p in "${pids[@]}"; do
        wait "$p" 2> /dev/null
        codes="$codes $?"
    done
}

# ---- the tacho that records is killed, its target too: another one goes on, the others stay with it
go heir 200 3 --steps 1000 --work-us 2000
target=$(pgrep -P "$leader")
kill -KILL "$leader" "$target"
sleep 0.7
next=$(live_leader heir.tacho.live)
all_end
whole heir.tacho
kept heir.tacho heir.journal 3 heir
[ "$(echo "$codes" | tr ' ' '\n' | grep -c '^0$')" = 2 ] || wrong "heir: exit codes$codes"
[ "$(value heir.tacho recovered)" = 1 ] || wrong "heir: recovered"
[ "$(one heir.tacho "SELECT count(*) FROM loss WHERE reason LIKE '%collector was gone%'")" = 1 ] || wrong "heir: no loss row"
[ "$(one heir.tacho "SELECT count(*) FROM process WHERE ended='exit' AND exit_status=0")" = 2 ] || wrong "heir: ends: $(one heir.tacho 'SELECT * FROM process')"
[ "$(cat heir.?.err | grep -c 'next: tacho report')" = 1 ] || wrong "heir: $(cat heir.?.err)"
echo "ok  the collector and its target killed: $(ranks_of heir.tacho)"

# ---- only the tacho that records is killed: its target goes on and is recorded to its end
go orphan 201 2 --steps 1000 --work-us 2000
kill -KILL "$leader"
all_end
whole orphan.tacho
[ "$(ranks_of orphan.tacho)" = "0:1000:64000 1:1000:64000" ] || wrong "orphan: $(ranks_of orphan.tacho) $(cat orphan.?.err)"
kept orphan.tacho orphan.journal 2 orphan
echo "ok  the collector killed, its target goes on"

# ---- one after the other
go twice 202 3 --steps 1500 --work-us 2000
first=$leader
kill -KILL "$leader" "$(pgrep -P "$leader")"
wait_for sh -c "[ \$(sqlite3 twice.tacho.live/run.db \"SELECT value FROM run WHERE key='collector.pid'\") != $first ]"
leader=$(live_leader twice.tacho.live)
sleep 0.3
kill -KILL "$leader" "$(pgrep -P "$leader")"
all_end
whole twice.tacho
kept twice.tacho twice.journal 3 twice
echo "ok  two collectors killed, one after the other: $(ranks_of twice.tacho)"

# ---- another tacho, another target
go peer 203 3 --steps 1000 --work-us 2000
kill -KILL "$(peer_of "$leader")" # its target goes on
all_end
whole peer.tacho
[ "$(ranks_of peer.tacho)" = "0:1000:64000 1:1000:64000 2:1000:64000" ] || wrong "peer: $(ranks_of peer.tacho)"
go target 204 2 --steps 1000 --work-us 2000
kill -KILL "$(pgrep -P "$(peer_of "$leader")")"
all_end
[ "$(echo "$codes" | tr ' ' '\n' | sort | tr '\n' ' ')" = " 0 137 " ] || wrong "target: exit codes$codes"
whole target.tacho
kept target.tacho target.journal 2 target
[ "$(one target.tacho "SELECT count(*) FROM process WHERE exit_status=137 AND ended LIKE 'signal 9%'")" = 1 ] || wrong "target: its end"
value target.tacho ended | grep -q 'rank [01]: signal 9 (KILL)\|^signal 9' || wrong "target: ended: $(value target.tacho ended)"
echo "ok  another tacho killed, another target killed"

# ---- everything at once: recover
go all 205 2 --steps 100000 --work-us 1000
sleep 0.5
targets=$(for p in "${pids[@]}"; do pgrep -P "$p"; done)
# shellcheck disable=SC2086 # a list
kill -KILL "${pids[@]}" $targets
all_end
for p in $targets; do wait_for gone "$p"; done
expect 0 "$TACHO" recover all.tacho.live
whole all.tacho
kept all.tacho all.journal 2 all
echo "ok  everything killed, recovered: $(ranks_of all.tacho)"

# ---- TERM to each, as a launcher ends a job
go term 206 2 --steps 100000 --work-us 1000
kill -TERM "${pids[@]}"
all_end
[ "$codes" = " 0 0" ] || wrong "term: exit codes$codes" # the target answers TERM by ending
whole term.tacho
kept term.tacho term.journal 2 term
echo "ok  TERM"

if has_mpirun; then
    for n in 1 2; do
        mpirun -np 2 "$TACHO" run --no-peak --no-counters --overhead 0 -o mpi$n -- "$ranks" --journal mpi$n.journal --steps 100000 --work-us 1000 > out 2> err &
        mpi=$!
        wait_for test -s mpi$n.tacho.live/run.db
        for r in 0 1; do wait_for sh -c "[ \$(od -A n -t u8 -j $((8 * r)) -N 8 mpi$n.journal) -gt 20 ]"; done
        leader=$(live_leader mpi$n.tacho.live)
        if [ $n = 1 ]; then kill -TERM $mpi; else kill -KILL "$leader" "$(pgrep -P "$leader")"; fi # mpirun then ends the job
        wait $mpi && wrong "mpirun $n: exit code 0"
        settled mpi$n
        kept mpi$n.tacho mpi$n.journal 2 "mpirun $n"
    done
    echo "ok  TERM to mpirun; the collector killed under mpirun"
else
    echo "parts were skipped: no mpirun of Open MPI"
fi
exit $bad
