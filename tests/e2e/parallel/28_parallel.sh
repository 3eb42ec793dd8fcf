#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# Two ranks of the reference engine: the run of one rank with two micro-batches; gradient bytes to the byte, in the same order on both ranks;
# a slowed rank and a slowed link; signals, failures and kills end all ranks.
# shellcheck disable=SC2154 # variables of collector_common.sh
# shellcheck disable=SC2086  # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
export OMP_NUM_THREADS=1 # threads that wait for one another are what suffers most on a busy machine
printf 'leak:%s\n' libmpi libopen-pal libopen-rte libpmix libevent libhwloc mca_ > leaks # the library's, not ours
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0 # whole stacks, or the library has no name
export LSAN_OPTIONS=suppressions=$work/leaks:print_suppressions=0
train=("$TRAIN" gpt2-tiny --layers 2 --channels 64 --data "$SRC/LICENSE" --seq 64 --batch 4 --seed 3 --log-every 1)
ranks=(mpirun -np 2 "${train[@]}")
"${ranks[@]}" --steps 1 > out 2> err || { grep -q 'without MPI' err && { echo "train was built without MPI"; exit 77; }; wrong "first: $(cat err)"; }
lines() { sed -n 's/^step *\([0-9]*\).*loss \([0-9.]*\)  norm \([0-9.]*\).*/\1 \2 \3/p' "$1"; }
parameters=$((2 * 13 * 64 + 2 * 12 * 64 * 64 + 256 * 64 + 128 * 64 + 2 * 64)) # 2 layers, 64 channels, 256 words, 128 positions

# ---- a plain start never starts MPI
"${train[@]}" --steps 100000 > /dev/null &
pid=$!
wait_for grep -q libmpi "/proc/$pid/maps"
sleep 0.3
! grep -q 'mca_' "/proc/$pid/maps" || wrong "a plain start opened MPI's parts"
kill -KILL $pid
wait $pid 2> /dev/null

# ---- the same training as one rank that takes two micro-batches: losses and norms to three digits behind the point (the order of sums
# differs); with and without overlap the same checkpoint, byte by byte; only rank 0 speaks
"${train[@]}" --steps 12 --accumulate 2 --eval-every 6 > alone || wrong "alone"
"${ranks[@]}" --steps 12 --eval-every 6 --checkpoint whole --bucket-mib 0.125 > both || wrong "two ranks"
"${ranks[@]}" --steps 12 --eval-every 6 --checkpoint after --bucket-mib 0.125 --no-overlap > after.out || wrong "without overlap"
[ "$(lines both | wc -l)" = 12 ] || wrong "not one line a step: $(lines both | wc -l)"
paste -d ' ' <(lines alone) <(lines both) | awk '{ d = $2 - $5; e = $3 - $6; if ($1 != $4 || d * d > 1e-6 || e * e > 1e-5) bad = 1 } END { exit bad || NR != 12 }' ||
    wrong "two ranks differ from one: $(paste <(lines alone) <(lines both) | tail -n 3)"
[ "$(grep -c '^evaluation' both)" = 2 ] || wrong "evaluations"
paste -d ' ' <(sed -n 's/^evaluation.*loss \([0-9.]*\).*/\1/p' alone) <(sed -n 's/^evaluation.*loss \([0-9.]*\).*/\1/p' both) |
    awk '{ d = $1 - $2; if (d * d > 1e-6) bad = 1 } END { exit bad || NR != 2 }' || wrong "evaluations differ"
cmp -s whole after || wrong "overlap changes the weights"
diff <(lines both) <(lines after.out) > /dev/null || wrong "overlap changes the losses"
grep -q '^2 ranks.* comm-0$' both || wrong "no line about the ranks: $(cat both)"
grep -q '^2 ranks.* after backward$' after.out || wrong "no line about --no-overlap"

# ---- one rank is told to stop: both stop after the same step, rank 0 writes, the rest is as if nothing had happened
"${ranks[@]}" --steps 60 > long || wrong "long"
for signal in TERM INT; do
    : > part.out # the lines of the run before are not this one's
    "${ranks[@]}" --steps 60 --checkpoint part --slow-rank 1=0.2 > part.out 2> part.err &
    pid=$!
    wait_for grep -q '^step *5/' part.out
    second=$(pgrep -P $pid | tail -n 1)
    kill -$signal "$second"
    wait $pid
    code=$?
    case $signal in TERM) want=143 ;; INT) want=130 ;; esac
    [ $code = $want ] || wrong "SIG$signal: exit code $code"
    made=$(lines part.out | wc -l)
    [ "$made" -lt 60 ] || { echo "60 steps before the signal"; continue; }
    "${ranks[@]}" --steps 60 --resume part > rest || wrong "SIG$signal: no resume"
    cat <(lines part.out) <(lines rest) | diff - <(lines long) > /dev/null || wrong "SIG$signal after $made steps: the resumed run differs"
    rm -f part
done

# ---- another number of ranks goes on from the same sample
flat=(--lr 1e-3 --min-lr 1e-3) # the learning rate does not depend on --steps
"${ranks[@]}" "${flat[@]}" --steps 12 --checkpoint twelve > /dev/null || wrong "twelve"
"${train[@]}" "${flat[@]}" --steps 24 --accumulate 2 --resume twelve > one.out || wrong "resume by one rank"
"${ranks[@]}" "${flat[@]}" --steps 24 > two.out || wrong "24 steps"
paste -d ' ' <(lines one.out) <(lines two.out | tail -n 12) | awk '{ d = $2 - $5; if ($1 != $4 || d * d > 1e-5) bad = 1 } END { exit bad || NR != 12 }' ||
    wrong "resumed by one rank: $(paste <(lines one.out) <(lines two.out | tail -n 12) | head -n 3)"

# ---- failures: words once, the right exit code, no hang
fails() { # NAME CODE WORDS TIMES COMMAND...
    local name=$1 code=$2 text=$3 times=$4 rc
    shift 4
    timeout 300 "$@" > out 2> err
    rc=$?
    [ $rc = "$code" ] || wrong "$name: exit code $rc: $(cat err)"
    [ "$(grep -c "^train: .*$text" err)" = "$times" ] || wrong "$name: words: $(cat err)"
}
fails "no data" 3 'nothing: No such file' 1 mpirun -np 2 "$TRAIN" gpt2-tiny --data nothing
fails "no data on rank 1" 3 'rank 1: .*nothing: No such file' 1 mpirun -np 1 "${train[@]}" : -np 1 "$TRAIN" gpt2-tiny --data nothing
fails "loss" 2 'the \(loss\|gradient\) is not finite' 1 "${ranks[@]}" --steps 200 --lr 1000 --clip 0 --warmup 0
fails "no checkpoint" 3 'gone: ' 1 "${ranks[@]}" --resume gone
fails "no folder" 3 'no/folder' 1 "${ranks[@]}" --steps 3 --checkpoint no/folder/file
fails "no such rank" 2 'slow-rank 2: there are 2 ranks' 1 "${ranks[@]}" --slow-rank 2=1
fails "no seconds" 2 'slow-rank 1: not understood' 1 "${train[@]}" --slow-rank 1
fails "no link" 2 'slow-link 3: one rank sends nothing' 1 "${train[@]}" --slow-link 3
fails "another launcher" 4 'the launcher started 2 ranks, .* sees 1' 1 env PMI_SIZE=2 PMI_RANK=0 "${train[@]}"

"${ranks[@]}" --steps 100000 > kill.out 2> kill.err &
pid=$!
wait_for grep -q '^step *3/' kill.out
mapfile -t two < <(pgrep -P $pid)
[ ${#two[@]} = 2 ] || wrong "not two ranks below mpirun: ${two[*]}"
kill -KILL "${two[1]}"
for ((i = 0; i < 600; i++)); do
    kill -0 $pid 2> /dev/null || break
    sleep 0.1
done
[ $i -lt 600 ] || wrong "a rank was killed, the job goes on"
wait $pid && wrong "a rank was killed: exit code 0"
ended() { ! kill -0 "$1" 2> /dev/null || grep -q '^State:.*Z' "/proc/$1/status"; }
for p in "${two[@]}"; do wait_for ended "$p"; done
echo "note: the job ended $((i / 10)) s after the kill"

# ---- recorded: each step sends each gradient once, in the same order on both ranks
record() { # NAME OPTIONS...    environment: tokens of a rank, 2560
    local name=$1 of=${tokens:-2560}
    shift
    expect 0 "$TACHO" run --no-peak --overhead 0 -o "$name" -- mpirun -np 2 "${train[@]}" --steps 10 "$@"
    whole "$name.tacho"
    [ "$(ranks_of "$name.tacho")" = "0:10:$of 1:10:$of" ] || wrong "$name: steps $(ranks_of "$name.tacho")"
    one "$name.tacho" "CREATE TEMP VIEW r AS SELECT p.rank, t.name AS thread, n.text AS name, d.bytes, d.communicator, d.collective,
        d.ranks, s.correlation AS sequence, s.start, s.dur, s.id FROM slice s JOIN track t ON t.id=s.track JOIN process p ON p.id=t.process
        JOIN string n ON n.id=s.name LEFT JOIN detail d ON d.id=s.detail WHERE t.kind='thread';
        SELECT rank || ' ' || sum(bytes) || ' ' || count(*) || ' ' || min(sequence) || ' ' || max(sequence) || ' ' || count(DISTINCT sequence) ||
            ' ' || group_concat(DISTINCT thread) || ' ' || group_concat(DISTINCT ranks) || ' ' || group_concat(DISTINCT communicator)
            FROM r WHERE collective='all_reduce' GROUP BY rank;
        SELECT 'order ' || count(*) FROM r a JOIN r b USING (communicator, sequence, collective, bytes)
            WHERE a.rank=0 AND b.rank=1 AND a.collective='all_reduce';
        SELECT 'waits ' || rank || ' ' || count(*) || ' ' || group_concat(DISTINCT thread) FROM r WHERE name='comm_wait' GROUP BY rank;
        SELECT 'together ' || count(*) FROM r a WHERE a.collective='all_reduce' AND EXISTS (SELECT 1 FROM r b WHERE b.rank=a.rank
            AND b.name='backward' AND b.start<a.start+a.dur AND a.start<b.start+b.dur);
        SELECT 'overtaken ' || count(*) FROM r a JOIN r b ON a.rank=b.rank AND a.communicator=b.communicator AND a.sequence=b.sequence+1
            WHERE a.start<b.start+b.dur;" > "$name.books"
}
# books of NAME BYTES-A-STEP CALLS-A-STEP THREAD
sent() {
    local name=$1 bytes=$((10 * $2)) calls=$((10 * $3)) thread=$4 r
    for r in 0 1; do
        grep -qx "$r $bytes $calls 0 $((calls - 1)) $calls $thread 2 1" "$name.books" ||
            wrong "$name: rank $r: $bytes bytes in $calls calls on $thread expected: $(cat "$name.books")"
        grep -qx "waits $r 10 main" "$name.books" || wrong "$name: waits: $(cat "$name.books")"
    done
    grep -qx "order $calls" "$name.books" || wrong "$name: order: $(cat "$name.books")"
    grep -qx "overtaken 0" "$name.books" || wrong "$name: overtaken: $(cat "$name.books")"
}
fp32=$((4 * parameters)) bf16=$((2 * parameters)) bucket=$((1 << 17))
tokens=20480 record overlapped --bucket-mib 0.125 --batch 16 --seq 128 # backward lasts long enough to be seen beside
sent overlapped $fp32 $(((fp32 + bucket - 1) / bucket)) comm-0
[ "$(sed -n 's/together //p' overlapped.books)" -gt 0 ] || wrong "nothing is reduced while backward runs"
record behind --bucket-mib 0.125 --no-overlap
sent behind $fp32 $(((fp32 + bucket - 1) / bucket)) main
[ "$(sed -n 's/together //p' behind.books)" = 0 ] || wrong "--no-overlap reduces while backward runs"
record whole --bucket-mib 0
sent whole $fp32 1 comm-0
record link --bucket-mib 0.125 --slow-link 3
sent link $((3 * fp32)) $(((fp32 + bucket - 1) / bucket)) comm-0
record half --bucket-mib 0.125 --dtype bf16
sent half $bf16 $(((bf16 + bucket - 1) / bucket)) comm-0

# ---- a slowed rank: it sleeps in each step (28_parallel_timing.sh: the other one waits as long)
"${ranks[@]}" --steps 10 --slow-rank 1=0.05 --timers times > /dev/null || wrong "slow rank"
python3 - << 'PY' || wrong "slow rank: times"
import json
first, second = json.load(open("times")), json.load(open("times.1"))
def names(t):
    return {n["name"]: n for n in next(x for x in t["threads"] if x["name"] == "main")["names"]}
assert "sleep" not in names(first) or names(first)["sleep"]["count"] == 0
assert names(second)["sleep"]["count"] == 10 and names(second)["sleep"]["ns"] >= 10 * 50e6
assert [s["index"] for s in first["steps"]] == list(range(10)) == [s["index"] for s in second["steps"]]
for s in first["steps"]:
    assert s["wall_ns"] == s["compute_ns"] + s["input_ns"] + s["host_ns"] + s["unattributed_ns"] + s["comm_ns"]
for s in second["steps"]: # the sleep lies inside of the step
    assert s["wall_ns"] >= 50e6
PY
[ $bad = 0 ]
