#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Several ranks of one job on one node, under one tacho and under one tacho each: one file, every event of every rank in it once.
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
# shellcheck disable=SC2317  # called by traps and by other functions
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"

# ---- without a launcher: its variables are all that tacho looks at
start() { # NAME ID RANK RANKS NODE-RANKS TARGET-OPTIONS...: in the background
    local name=$1 id=$2 rank=$3 size=$4 node=$5
    shift 5
    job "$id" "$rank" "$size" "$node" "$TACHO" run --no-peak --overhead 0 -o "$name" -- "$ranks" --log "$name.log" "$@" > "$name.$rank.out" 2> "$name.$rank.err" &
}
for r in 0 1 2; do start three 100 $r 3 3 --steps 40 --meet three.meet; pids[r]=$!; done
for r in 0 1 2; do wait "${pids[r]}" || wrong "three: exit code of rank $r"; done
whole three.tacho
[ "$(ranks_of three.tacho)" = "0:40:2560 1:40:2560 2:40:2560" ] || wrong "three: $(ranks_of three.tacho)"
books three.tacho three.log "three ranks"
totals three.tacho three
[ "$(losses three.tacho)" = 0 ] || wrong "three: lost"
[ "$(value three.tacho job.ranks)" = 3 ] || wrong "three: job.ranks"
[ "$(cat three.?.err | grep -c 'next: tacho report')" = 1 ] || wrong "three: not one of them says where the file is: $(cat three.?.err)"
[ "$(one three.tacho "SELECT count(*) FROM process WHERE ended='exit' AND exit_status=0")" = 3 ] || wrong "three: ends"
"$TACHO" report --json three.tacho > report.json || wrong "three: report"
[ "$(python3 -c 'import json; r = json.load(open("report.json")); print(r["run"]["ranks"], r["steps"]["count"])')" = "3 120" ] ||
    wrong "three: report: $(head -c 300 report.json)"

# exit codes are each target's own; the file names the ranks that failed
start codes 101 0 2 2 --steps 5 --exit 3 --exit-rank 1; a=$!
start codes 101 1 2 2 --steps 5 --exit 3 --exit-rank 1; b=$!
wait $a; ra=$?; wait $b; rb=$?
[ "$ra $rb" = "0 3" ] || wrong "codes: $ra $rb"
whole codes.tacho
[ "$(value codes.tacho exit_status)" = 3 ] || wrong "codes: exit_status"
[ "$(one codes.tacho "SELECT exit_status FROM process WHERE rank=1")" = 3 ] || wrong "codes: row of rank 1"

# whichever ends first: the file is finished when the last one has ended
for short in 0 1; do
    start "short$short" "10$((2 + short))" 0 2 2 --steps 200 --work-us 5000 --short-rank $short --short-steps 3; a=$!
    sleep 0.3
    start "short$short" "10$((2 + short))" 1 2 2 --steps 200 --work-us 5000 --short-rank $short --short-steps 3; b=$!
    wait $a || wrong "short $short: rank 0"
    wait $b || wrong "short $short: rank 1"
    whole "short$short.tacho"
    books "short$short.tacho" "short$short.log" "rank $short ends early"
    [ "$(files "short$short*.tacho")" = 1 ] || wrong "short $short: files"
done

# another program holds the name of the job's socket: the ranks meet under the next one, soon, and say so
start held 105 0 2 2 --steps 200 --work-us 5000; a=$!
start held 105 1 2 2 --steps 200 --work-us 5000; b=$!
names() { grep -o "@tacho-$(id -u)-[0-9a-f]*-0" /proc/net/unix | sort -u; }
wait_for test -s held.tacho.live/run.db
name=$(names)
wait $a $b
holders=
for name in $name; do # of other jobs too, if any run here
    names | grep -qx "$name" || { rm -f held.out; python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind("\0" + sys.argv[1][1:])
print("held", flush=True)
time.sleep(100)' "$name" > held.out & holders="$holders $!"; wait_for grep -q held held.out; }
done
rm -f held.tacho held.log
job 105 0 2 2 timeout 40 "$TACHO" run --no-peak --overhead 0 -o held -- "$ranks" --log held.log --steps 100 --work-us 5000 > held.0.out 2> held.0.err & a=$!
job 105 1 2 2 timeout 40 "$TACHO" run --no-peak --overhead 0 -o held -- "$ranks" --log held.log --steps 100 --work-us 5000 > held.1.out 2> held.1.err & b=$!
wait $a || wrong "held: rank 0: $(cat held.0.err)"
wait $b || wrong "held: rank 1: $(cat held.1.err)"
# shellcheck disable=SC2086 # several numbers; one that is left would hold every later `wait` for 100 s
kill ${holders:?}
whole held.tacho
books held.tacho held.log "a name that is held"
grep -q 'another program holds the socket name of this job' held.?.err || wrong "held: nothing said: $(cat held.?.err)"

# a command that is not there: 127 of that rank, the others are recorded
start missing 104 0 2 2 --steps 100 --work-us 5000; a=$!
sleep 0.2
job 104 1 2 2 "$TACHO" run --no-peak -o missing -- ./nothing-of-this-name > out 2> err
[ $? = 127 ] || wrong "missing: exit code"
grep -q 'nothing-of-this-name' err || wrong "missing: $(cat err)"
wait $a || wrong "missing: rank 0"
whole missing.tacho
books missing.tacho missing.log "the other rank's command is missing"

# two jobs at once, each rank to the same default name: two files
mkdir two
for j in 105 106; do for r in 0 1; do
    (cd two && exec env -u X OMPI_MCA_ess_base_jobid="$(job_id $j)" OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 \
        "$TACHO" run --no-peak --overhead 0 -- "$ranks" --steps 30 --log "$(job_id $j).log" --meet "$j.meet") > out 2>> two.err &
done; done
wait
[ "$(cd two && files '*.tacho')" = 2 ] || wrong "two jobs: $(ls two; cat two.err)"
for f in two/*.tacho; do
    whole "$f"
    [ "$(ranks_of "$f")" = "0:30:1920 1:30:1920" ] || wrong "two jobs: $f: $(ranks_of "$f")"
    books "$f" "two/$(value "$f" job.id).log" "one of two jobs at once"
done

# another output, --separate: files of their own
start other1 107 0 2 2 --steps 20; a=$!
start other2 107 1 2 2 --steps 20; b=$!
wait $a || wrong "other 1"
wait $b || wrong "other 2"
[ "$(ranks_of other1.tacho) $(ranks_of other2.tacho)" = "0:20:1280 1:20:1280" ] || wrong "another output"
mkdir apart
for r in 0 1; do
    (cd apart && job 108 $r 2 2 "$TACHO" run --no-peak --separate --overhead 0 -- "$ranks" --steps 20) > out 2>> apart.err &
done
wait
[ "$(cd apart && files '*.tacho')" = 2 ] || wrong "--separate: $(ls apart; cat apart.err)"

# several nodes: the host is part of the name; a second command of the job at the same time is another recording
job 109 0 4 1 "$TACHO" run --no-peak -o nodes -- "$ranks" --steps 5 > out 2> err || wrong "nodes: $(cat err)"
host=$(uname -n)
whole "nodes-${host%%.*}.tacho"
# ranks without an NVTX call have their rows and ranks too
for r in 0 1; do job 110 $r 2 2 "$TACHO" run --no-peak -o silent -- sleep 2 > out 2>> silent.err & done
wait
[ "$(one silent.tacho "SELECT group_concat(rank || program) FROM (SELECT * FROM process ORDER BY rank)")" = 0sleep,1sleep ] ||
    wrong "silent: $(one silent.tacho 'SELECT * FROM process'; cat silent.err)"

# ranks bound to a processor each, as mpirun does by default: the processors of the run are those of all
cpus=$(taskset -pc $$ 2> /dev/null | sed 's/.*: *//; s/[-,]/ /g')
first=${cpus%% *}
last=${cpus##* }
if [ -n "$cpus" ] && [ "$first" != "$last" ]; then
    for r in "$first" "$last"; do
        job 111 "$([ "$r" = "$first" ]; echo $?)" 2 2 taskset -c "$r" "$TACHO" run --no-peak -o bound -- sleep 2 > out 2>> bound.err &
    done
    wait
    [ "$(value bound.tacho cpu.usable)" = 2 ] || wrong "bound: cpu.usable is $(value bound.tacho cpu.usable): $(cat bound.err)"
fi
# another user's ranks are not heard: a file each
if for_other_users; then
    public=$others/public
    mkdir -m 0777 "$public"
    (cd "$public" && exec env OMPI_MCA_ess_base_jobid="$(job_id 112)" OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 \
        "$TACHO" run --no-peak -- sleep 2) > out 2>> user.err &
    (cd "$public" && exec env OMPI_MCA_ess_base_jobid="$(job_id 112)" OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 HOME=/ \
        "${as_user[@]}" "$others/tacho" run --no-peak -- sleep 2) > out 2>> user.err &
    wait
    [ "$(cd "$public" && files '*.tacho')" = 2 ] || wrong "another user: $(ls "$public"; cat user.err)"
fi

# another launcher's variables
slurm() { env SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_PROCID="$1" SLURM_STEP_TASKS_PER_NODE=2 SLURM_NODEID=0 SLURM_STEP_NUM_TASKS=2 "${@:2}"; }
torch() { env TORCHELASTIC_RUN_ID=$$ MASTER_ADDR=localhost MASTER_PORT=29511 RANK="$1" WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 "${@:2}"; }
pmix() { env OMPI_COMM_WORLD_RANK="$1" OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=prterun-h-$$@1 "${@:2}"; }
for launcher in slurm torch pmix; do
    for r in 0 1; do
        $launcher $r "$TACHO" run --no-peak --overhead 0 -o $launcher -- "$ranks" --ranks 2 --steps 10 > out 2>> $launcher.err &
    done
    wait
    [ "$(ranks_of $launcher.tacho)" = "0:10:640 1:10:640" ] || wrong "$launcher: $(ranks_of $launcher.tacho) $(cat $launcher.err)"
done

# a node of several: what is printed at the end is about this node's ranks, and says so; of one node nothing is said
mkdir -p several
for nodes in 2 1; do
    rm -f several/*
    slurm 0 env SLURM_STEP_NUM_TASKS=$((2 * nodes)) SLURM_STEP_TASKS_PER_NODE="2(x$nodes)" "$TACHO" run --no-peak --overhead 0 --separate -o several/one -- "$ranks" --ranks 1 --steps 10 > out 2> err
    said=$(grep -c "the file has this node's ranks only; those of all nodes: tacho report several\$" err)
    [ "$said" = $((nodes - 1)) ] || wrong "$nodes nodes: $(cat err)"
done

# ---- with Open MPI
if ! has_mpirun; then
    [ $bad = 0 ] && echo "parts were skipped: no mpirun of Open MPI"
    exit $bad
fi
for n in 2 3; do
    expect 0 mpirun -np $n "$TACHO" run --no-peak --overhead 0 --report -o each$n -- "$ranks" --steps 40 --meet each$n.meet --log each$n.log
    whole each$n.tacho
    books each$n.tacho each$n.log "mpirun -np $n tacho run"
    [ "$(grep -c '^Step time' out)" = 1 ] || wrong "each $n: one report: $(cat out)"
    grep -q "$n ranks" out || wrong "each $n: report"
    expect 0 "$TACHO" run --no-peak --overhead 0 -o under$n -- mpirun -np $n "$ranks" --steps 40 --meet under$n.meet --log under$n.log
    whole under$n.tacho
    books under$n.tacho under$n.log "tacho run mpirun -np $n"
    "$TACHO" report --json under$n.tacho > report.json
    [ "$(python3 -c 'import json; print(json.load(open("report.json"))["run"]["ranks"])')" = $n ] || wrong "under $n: ranks"
done
[ "$(ranks_of each2.tacho)" = "$(ranks_of under2.tacho)" ] || wrong "both ways: $(ranks_of each2.tacho), $(ranks_of under2.tacho)"
exit $bad
