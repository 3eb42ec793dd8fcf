#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The socket at which the recorders of a job meet, where a program of the same user takes every call and hangs up, or calls a recorder and
# says nothing, or where the leader is stopped: a recorder starts all the same, soon, and those of one job find each other.
# parallel: yes
# timeout: 600
# shellcheck disable=SC2154 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
rounds=${ROUNDS:-2} hung=0
record() { # JOB RANK RANKS NAME COMMAND...
    env SLURM_JOB_ID="$1" SLURM_STEP_ID=0 SLURM_PROCID="$2" SLURM_STEP_NUM_TASKS="$3" SLURM_STEP_TASKS_PER_NODE="$3" SLURM_NODEID=0 \
        timeout 30 "$TACHO" run --no-peak --no-counters --no-hook -o "$4" -- "${@:5}"
}
# meet.py hold | call JOB: what the adversary does at the socket of a job; says "begun" when it does it, or "done"
cat > meet.py << 'PY'
import os, socket, sys
name = 0xCBF29CE484222325
for byte in f"{sys.argv[2]}.0".encode():
    name = (name ^ byte) * 0x100000001B3 % 2**64
address = f"\0tacho-{os.geteuid()}-{name:016x}-0"
if sys.argv[1] == "hold":
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    holder.bind(address)
    holder.listen(64)
    print("begun", flush=True)
    while True:
        holder.accept()[0].close()
for _ in range(1100):
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    caller.connect(address)
    caller.close()
print("done", flush=True)
PY
for ((round = 0; round < rounds; round++)); do
    rm -f ./*.tacho begun
    python3 meet.py hold "$$$round" > begun &
    holder=$!
    wait_for grep -q begun begun
    record "$$$round" 0 1 held true > out 2> err || { hung=$((hung + 1)); wrong "hold: exit code $?: $(cat err)"; }
    kill $holder
    wait $holder 2> /dev/null
    whole held.tacho
    grep -q 'another program holds the socket name of this job' err || wrong "hold: nothing said: $(cat err)"

    rm -f stop
    record "9$$$round" 0 2 first sh -c 'until [ -e stop ]; do sleep 0.05; done' > first.out 2> first.err &
    first=$!
    wait_for test -s first.tacho.live/run.db
    timeout 60 python3 meet.py call "9$$$round" > called || wrong "call: the adversary did not end"
    record "9$$$round" 1 2 first true > second.out 2> second.err || { hung=$((hung + 1)); wrong "call: exit code $?: $(cat second.err)"; }
    : > stop
    wait $first || wrong "call: rank 0: $(cat first.err)"
    whole first.tacho
    [ "$(one first.tacho "SELECT count(*) FROM process WHERE rank = 1")" = 1 ] || wrong "call: the ranks did not meet: $(cat second.err)"

    rm -f stop started # the leader is stopped: a rank that comes then is not held up by it
    record "8$$$round" 0 2 led sh -c 'echo $PPID > started; until [ -e stop ]; do sleep 0.05; done' > led.out 2> led.err &
    led=$!
    wait_for test -s started
    leader=$(cat started)
    kill -STOP "$leader"
    SECONDS=0
    record "8$$$round" 1 2 own true > own.out 2> own.err || { hung=$((hung + 1)); wrong "stopped: exit code $?: $(cat own.err)"; }
    [ "$SECONDS" -lt 15 ] || wrong "stopped: the rank waited $SECONDS s"
    kill -CONT "$leader"
    : > stop
    wait $led || wrong "stopped: rank 0: $(cat led.err)"
    grep -q "leads the ranks of this node (pid $leader) is stopped" own.err || wrong "stopped: nothing said: $(cat own.err)"
    whole led.tacho
    whole own.tacho
done
echo "hostile: who meets at a job's socket | $rounds rounds | $hung hung"
[ "$hung" = 0 ] && [ "$bad" = 0 ]
