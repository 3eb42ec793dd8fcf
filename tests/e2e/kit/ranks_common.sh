# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts about several ranks: sourced, not run.
# shellcheck shell=bash disable=SC2034,SC2154
. "$(dirname "${BASH_SOURCE[0]}")/collector_common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
ranks=$bin/target_ranks
has_mpirun() { command -v mpirun > /dev/null && mpirun --version 2>&1 | grep -q 'Open MPI\|OpenRTE' && mpirun -np 2 true > /dev/null 2>&1; }
# job ID RANK RANKS NODE-RANKS COMMAND...: as mpirun of Open MPI would start it. Recorders find each other by the job's id, so the
# ids of this script must not be those of another one that runs at the same time.
job_id() { echo "$(($$ * 1000 + $1))"; }
job() {
    local id rank=$2 size=$3 local_size=$4
    id=$(job_id "$1")
    shift 4
    env OMPI_MCA_ess_base_jobid="$id" OMPI_MCA_orte_precondition_transports=key OMPI_COMM_WORLD_RANK="$rank" \
        OMPI_COMM_WORLD_SIZE="$size" OMPI_COMM_WORLD_LOCAL_SIZE="$local_size" "$@"
}
# ranks_of FILE: "rank:steps:tokens ..." of the processes that ran steps
ranks_of() {
    one "$1" "SELECT group_concat(t, ' ') FROM (SELECT p.rank || ':' || count(*) || ':' || sum(s.tokens) AS t
        FROM step s JOIN process p ON p.id=s.process GROUP BY p.id ORDER BY p.rank)"
}
# value FILE KEY: of the table run
value() { one "$1" "SELECT value FROM run WHERE key='$2'"; }
# files PATTERN: how many
files() { find . -maxdepth 1 -name "$1" | wc -l; }
# live_leader LIVE: pid of the tacho that records
live_leader() { one "$1/run.db" "SELECT value FROM run WHERE key='collector.pid'"; }
# gone PID: it has ended (pid 1 of a container may never reap it)
gone() { case $(ps -o stat= -p "$1") in '' | Z*) return 0 ;; *) return 1 ;; esac; }
# settled NAME: what is left of a run that was ended roughly is a whole file, or is made one by recover
settled() {
    if [ -e "$1.tacho.live" ] && [ ! -e "$1.tacho" ]; then expect 0 "$TACHO" recover "$1.tacho.live"; fi
    whole "$1.tacho"
}
# journal FILE RANKS: finished steps of each rank, as the targets counted them
journal() { od -A n -t u8 -v -w8 -N $((8 * $2)) "$1" | tr -d ' '; }
# kept FILE JOURNAL RANKS NAME: no step that a rank finished is missing, none is there twice, and one more at most may be open
kept() {
    local rank=0 finished found
    while read -r finished; do
        found=$(one "$1" "SELECT count(*) || ' ' || count(DISTINCT \"index\") || ' ' || coalesce(sum(s.\"end\" IS NULL), 0) FROM step s
            JOIN process p ON p.id=s.process WHERE p.rank=$rank")
        read -r all distinct open <<< "$found"
        [ "$all" = "$distinct" ] || wrong "$4: rank $rank: steps twice: $found"
        [ $((all - open)) -ge "$finished" ] && [ "$all" -le $((finished + 1)) ] ||
            wrong "$4: rank $rank finished $finished steps, the file has $all, $open of them open"
        rank=$((rank + 1))
    done < <(journal "$2" "$3")
    [ $rank = "$3" ] || wrong "$4: journal of $rank ranks"
}
