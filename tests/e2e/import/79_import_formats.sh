#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Files of other producers: XPlane, rocprofv3, Ascend, pickles of PyTorch, and those that tacho refuses by name. Made files have
# known answers; shared ones are compared with what Python reads of them.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
public=${TACHO_TRACES:-$SRC/../shared/traces}/formats
[ -d "$public" ] && public=$(cd "$public" && pwd)
work_folder
export XDG_CACHE_HOME=$PWD/cache
python3 "$here/formats.py" make made || fail "the files were not made"
cd made || exit 1

# refusals: who wrote it, what to give instead, and the exit status
refused() { # STATUS FILE WORDS...
    status=$1 file=$2
    shift 2
    "$TACHO" report "$file" > out 2> err
    [ $? = "$status" ] || fail "$file: not exit status $status: $(cat out err)"
    [ -s out ] && fail "$file: a report of what was refused: $(cat out)"
    grep -q '^hint: ' err || fail "$file: no hint: $(cat err)"
    for word; do grep -qF -- "$word" err || fail "$file: '$word' is not in: $(cat err)"; done
}
refused 4 async.json 'asynchronous events'
refused 3 empty.json 'it has no event'
refused 3 names.json 'an empty trace'
refused 4 nodes.json 'execution trace of PyTorch' 'export_chrome_trace'
refused 4 speedscope.json 'speedscope'
refused 4 samples.json 'samples (py-spy'
refused 4 flame.svg 'flame graph'
refused 4 stacks.txt 'folded stacks'
refused 4 perf.data 'Linux perf'
refused 4 lfs.json.gz 'Git LFS' 'git lfs pull'
refused 4 stats.csv 'rocprof' '_results.json'
refused 4 a.zip 'zip archive'
refused 3 text.xplane.pb 'copied as text' 'binary'
refused 4 system.pickle 'runs code (opcode STACK_GLOBAL)'
[ -e was-run ] && fail "the pickle ran its command"
refused 4 bomb.pickle 'neither a memory snapshot nor a flight recorder dump'
refused 4 deep.pickle 'neither a memory snapshot nor a flight recorder dump'
refused 4 other.pickle 'neither a memory snapshot nor a flight recorder dump'
refused 3 long.pickle 'cut off'
refused 3 gap.pickle 'memo has gaps beyond the limit'

# folders: one without a trace is searched below; of JAX's sessions the newest, of its two formats the XPlane
"$TACHO" import deep -o deep.tacho 2> err || fail "a folder of folders: $(cat err)"
[ "$("$TACHO" sql deep.tacho "SELECT group_concat(rank) FROM process" --csv | tail -n 1 | tr -d '\r"')" = 0,1 ] || fail "not two ranks"
"$TACHO" import logs -o logs.tacho 2> err || fail "a folder of JAX: $(cat err)"
grep -q ': 1 file,' err || fail "not the newest session alone: $(cat err)"

figure() { # FILE PATH VALUE: a value of the JSON report
    "$TACHO" report "$1" --json > report.json 2> err || fail "$1: $(cat err)"
    python3 - "$2" "$3" << 'END' || fail "$1: $2 is not $3"
import json, sys
value = json.load(open("report.json"))
for part in sys.argv[1].split("/"):
    value = value[int(part) if part.isdigit() else part]
sys.exit(0 if str(value) == sys.argv[2] else f"{sys.argv[1]}: {value}")
END
}
# a TPU: steps of its own line, the loop not counted twice, the exposed all-reduce
figure tpu.xplane.pb steps/median_ms 1.0
figure tpu.xplane.pb steps/source 'line Steps of the device'
figure tpu.xplane.pb budget/compute_pct 60.0
figure tpu.xplane.pb budget/exposed_comm_pct 20.0
"$TACHO" report tpu.xplane.pb --full 2>&1 | grep -q 'torch' && fail "the advice does not speak JAX"
# host offload: the core waits for copies, which are no compute; bytes count once. By turns one of two cores takes longer, but neither waits
# for the other one: to make them even is worth nothing
figure offload.xplane.pb budget/exposed_copy_pct 80.0
figure offload.xplane.pb budget/compute_pct 20.0
"$TACHO" import offload.xplane.pb -o offload.tacho 2> err || fail "offload: $(cat err)"
"$TACHO" sql offload.tacho "SELECT copy_kind, coalesce(kind, ''), count(*), sum(dur), coalesce(sum(bytes), '') FROM slice s
    JOIN detail d ON d.id = s.detail WHERE d.schema = 'gpu.memcpy' GROUP BY 1, 2 ORDER BY 1, 2" --csv | tail -n +2 | tr -d '\r' > offload.rows
diff - offload.rows << 'END' || fail "copies of the offload"
DtoH,"",24,7200000,491520
DtoH,start,48,96,""
DtoH,wait,48,14399904,""
HtoD,"",24,12000000,491520
HtoD,start,48,96,""
HtoD,wait,48,23999904,""
END
"$TACHO" report offload.xplane.pb --full > out 2> err || fail "offload: $(cat err)"
grep -q '^COPY-BOUND' out || fail "the verdict of the offload: $(cat out)"
grep -q 'RANK_JITTER' out && fail "even devices: $(cat out)"
grep -q 'gpu:' out && fail "a TPU is called a GPU: $(grep 'gpu:' out)"
"$TACHO" advise offload.xplane.pb --what-if ranks=even > out 2> err || fail "ranks=even: $(cat err)"
grep -q 'ranks=even: no prediction: one process drives several devices' out || fail "ranks=even: $(cat out)"
# the same in the JSON of a TPU
cat > offload.trace.json << 'END'
{"metadata": {"highres-ticks": true}, "traceEvents": [
{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:TPU:0"}},
{"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "XLA Ops"}},
{"ph": "M", "pid": 1, "tid": 3, "name": "thread_name", "args": {"name": "Async XLA Ops"}},
{"ph": "X", "pid": 1, "tid": 2, "ts": 1, "dur": 5, "name": "add.1", "args": {"hlo_category": "loop fusion"}},
{"ph": "X", "pid": 1, "tid": 2, "ts": 6, "dur": 20, "name": "copy-done.1", "args": {"hlo_category": "copy-done", "bytes_accessed": "4096",
    "long_name": "%copy-done.1 = f32[5]{0:T(8)S(5)} copy-done((f32[5]{0:T(8)S(5)}, f32[5]{0}, u32[]) %copy-start.1)"}},
{"ph": "X", "pid": 1, "tid": 3, "ts": 7, "dur": 20, "name": "async-copy.1", "args": {"hlo_category": "copy-start", "bytes_accessed": "4096",
    "long_name": "%copy-start.1 = (f32[5]{0:T(8)}, f32[5]{0:T(8)S(5)}, u32[]) copy-start(f32[5]{0:T(8)S(5)} %p)"}}]}
END
"$TACHO" import offload.trace.json -o offload_json.tacho 2> err || fail "XLA's JSON of a TPU: $(cat err)"
"$TACHO" sql offload_json.tacho "SELECT n.text || ' ' || copy_kind || ' ' || coalesce(bytes, '-') FROM slice s JOIN string n ON n.id = s.name
    JOIN string c ON c.id = s.category JOIN detail d ON d.id = s.detail WHERE c.text = 'memcpy' ORDER BY start" --csv |
    tail -n +2 | tr -d '\r' > offload.rows
diff - offload.rows << 'END' || fail "copies of XLA's JSON"
copy-done.1 DtoH -
async-copy.1 HtoD 4096
END
# rocpd, both layouts: the same rows
for layout in old new; do
    "$TACHO" import ${layout}_results.db -o $layout.tacho 2> err || fail "rocpd: $(cat err)"
    "$TACHO" sql $layout.tacho "SELECT n.text, start, dur, c.text, correlation, coalesce(grid, ''), coalesce(bytes, '') FROM slice s
        JOIN string n ON n.id = s.name JOIN string c ON c.id = s.category LEFT JOIN detail d ON d.id = s.detail ORDER BY start" \
        --csv | tr -d '\r' > $layout.rows
done
diff - old.rows << 'END' || fail "rows of rocpd"
text,start,dur,text,correlation,"coalesce(grid, '')","coalesce(bytes, '')"
step 5,900,8100,roctx,,"",""
hipLaunchKernel,1000,500,runtime,11,"",""
gemm(float*),2000,1000,kernel,11,"4,1,1",""
gemm(float*),3000,500,kernel,13,"4,1,1",""
Memcpy HtoD,3600,400,memcpy,13,"",4096
gemm(float*),6000,2000,kernel,13,"4,1,1",""
END
cmp old.rows new.rows || fail "the two layouts of rocpd differ"
# Ascend: the file's own overlap rows, launches through the arrows
"$TACHO" import trace_view.json -o ascend.tacho 2> err || fail "Ascend: $(cat err)"
figure ascend.tacho devices/0/device 5
python3 "$here/formats.py" ascend report.json ascend.tacho > out || fail "the overlap rows of the made trace"
[ "$("$TACHO" sql ascend.tacho "SELECT count(*) FROM slice k JOIN slice l ON l.correlation = k.correlation AND l.id <> k.id
    JOIN string n ON n.id = l.name WHERE n.text LIKE 'Launch%'" --csv | tail -n 1 | tr -d '\r')" = 2 ] || fail "kernels without their launch"
# memory: what failed, what would have helped, what leaks; every protocol gives the same
for protocol in 2 3 4 5; do
    "$TACHO" report oom$protocol.pickle > oom$protocol.out 2> err || fail "snapshot of protocol $protocol: $(cat err)"
    tail -n +3 oom$protocol.out > oom$protocol.rest
    cmp oom2.rest oom$protocol.rest || fail "protocol $protocol reads differently"
done
grep -q '^OUT OF MEMORY: a request of 100 MiB failed' oom4.out || fail "$(cat oom4.out)"
tr '\n' ' ' < oom4.out | grep -q 'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True it would have fitted' || fail "$(cat oom4.out)"
figure oom4.pickle allocator/0/exact True
figure leak.pickle allocator/0/leaks/0/blocks 40
figure leak.pickle allocator/0/leaks/0/name '/srv/me/train.py(35): cache'
"$TACHO" import leak.pickle -o leak.tacho 2> err || fail "leak: $(cat err)"
"$TACHO" top leak.tacho --batch -n 1 --view memory --size 60x160 > out 2> err || fail "top of a leak: $(cat err)"
grep -q 'grows at *[/]srv/me/train.py(35): cache: 40 blocks' out || fail "top does not name the leak: $(cat out)"
# hangs: the rank that is behind, the one without a dump, another order
for folder in 'done|every collective that was issued was completed' 'hang|for rank 2, which has completed fewest' \
    'absent|there is no dump of rank 2' 'order|number 0 is all_reduce on rank 0 and broadcast on rank 1'; do
    "$TACHO" report "${folder%%|*}" > out 2> err || fail "$folder: $(cat err)"
    tr '\n' ' ' < out | grep -qF "${folder#*|}" || fail "$folder: $(cat out)"
done
# a completed entry without a start (a sanitizer saw its duration overflow)
"$TACHO" report timeless --full > out 2> err || fail "timeless: $(cat err)"
grep -q 'event has no usable time stamp: 1' out || fail "timeless: $(cat out)"
# a state and a group with quotes and a line end in them: the payload stays JSON
"$TACHO" import quoted -o quoted.tacho 2> err || fail "quoted: $(cat err)"
[ "$("$TACHO" sql quoted.tacho "SELECT json_extract(payload, '$.state') || json_extract(payload, '$.group') FROM detail WHERE payload LIKE '%a?b%'" --csv | tail -n 1 | tr -d '\r')" = 'a?b??c?d??' ] ||
    fail "quotes in a dump: $("$TACHO" sql quoted.tacho 'SELECT payload FROM detail')"

# a table whose steps come in any order takes time that grows with its rows alone; steps that are not kept are counted
{
    echo 'Step Id,Device_id,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us)'
    awk 'BEGIN { for (round = 0; round < 8; round++) for (i = 1; i <= 65600; i++) printf "%d,0,1,k,Add,AI_CORE,%d,1\n", i, round * 100000 + i }'
} > scattered.csv
(ulimit -t 5 && exec "$TACHO" import scattered.csv -o scattered.tacho) 2> err || fail "a table with its steps in any order: $(cat err)"
[ "$("$TACHO" sql scattered.tacho "SELECT (SELECT count(*) FROM step), count FROM loss WHERE reason LIKE 'step beyond%'" --csv | tail -n 1 | tr -d '\r')" = 65536,64 ] ||
    fail "steps of the table: $("$TACHO" sql scattered.tacho 'SELECT * FROM loss')"

# public truth
[ -f "$public/jax_te_fused.xplane.pb" ] || { echo "made files; no public ones in $public"; exit 0; }
cd .. || exit 1
"$TACHO" import "$public/jax_te_fused.xplane.pb" -o x.tacho 2> err || fail "XPlane: $(cat err)"
python3 "$here/formats.py" xplane "$public/jax_te_fused.xplane.pb" x.tacho || fail "the kernels of the XPlane"
"$TACHO" import "$public/jax_te_fused.trace.json.gz" -o j.tacho 2> err || fail "XLA's JSON: $(cat err)"
python3 "$here/formats.py" xplane "$public/jax_te_fused.xplane.pb" j.tacho || fail "the kernels of XLA's JSON"
for file in x j; do
    [ "$("$TACHO" sql $file.tacho 'SELECT program FROM process' --csv | tail -n 1 | tr -d '\r')" = 'XLA program' ] || fail "the program of $file.tacho"
done
# the device works for 94 % of each step, and the thread whose calls are listed apart waits for it in block_until_ready
for file in x j; do
    "$TACHO" report $file.tacho --json | python3 -c '
import json, sys
path = json.load(sys.stdin)["critical_path"]
compute = 100 * path["by_cause_us"]["compute"] / path["length_us"]
assert compute > 90 and path["think_pct"] < 1 and path["suspected_waits"] >= 3, (compute, path["think_pct"], path["suspected_waits"])
assert "block_until_ready" in path["suspected_wait_in"], path["suspected_wait_in"]' || fail "what a step of $file.tacho waits for"
done
"$TACHO" import "$public/rocprofv3_908_results.json.gz" -o r.tacho 2> err || fail "rocprofv3: $(cat err)"
python3 "$here/formats.py" rocprof "$public/rocprofv3_908_results.json.gz" r.tacho || fail "the kernels of rocprofv3"
"$TACHO" import "$public/ascend_trace_view.json.gz" -o a.tacho 2> err || fail "Ascend: $(cat err)"
"$TACHO" report a.tacho --json > a.json || fail "the report of Ascend"
python3 "$here/formats.py" ascend a.json a.tacho || fail "the overlap rows of Ascend"
"$TACHO" report "$public/ascend_kernel_details.csv.gz" > out 2> err || fail "Ascend's table: $(cat err)"
"$TACHO" report "$public/cs336_mem_fullstep.pickle.gz" --json > m.json 2> err || fail "snapshot: $(cat err)"
python3 "$here/formats.py" snapshot "$public/cs336_mem_fullstep.pickle.gz" m.json || fail "the snapshot"
if [ -f "$public/xprof_tpu.xplane.pb.gz" ]; then
    "$TACHO" report "$public/xprof_tpu.xplane.pb.gz" > out 2> err && fail "a damaged XPlane was read: $(cat out)"
    grep -q 'copied as text' err || fail "$(cat err)"
fi
exit 0
