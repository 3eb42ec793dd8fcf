#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Files of other producers as their other versions and settings write them: made ones, whose answers are known.
set -u
# shellcheck source=tests/e2e/kit/import_common.sh
. "$(dirname "$0")/../kit/import_common.sh"
make_files versions.py
slices="SELECT n.text, c.text, coalesce(t.device, ''), t.tid, s.start, dur, coalesce(correlation, '') FROM slice s JOIN track t ON t.id = s.track
    JOIN string n ON n.id = s.name JOIN string c ON c.id = s.category"

# XLA: steps by the launches of a module whose kernels name none; a collector that was not merged; sparse cores
import graphs.xplane.pb graphs.tacho
is "steps of command buffers" "$(raw_rows_of graphs.tacho "SELECT count(*), min(\"end\" - start), max(\"end\" - start) FROM step")" 3,1000000,1000000
is "their source" "$(raw_rows_of graphs.tacho "SELECT value FROM run WHERE key = 'steps.marked_by'")" "launches of the XLA module jit_train_step"
is "calls of CUPTI" "$(raw_rows_of graphs.tacho "SELECT count(*) FROM slice s JOIN string c ON c.id = s.category WHERE c.text = 'driver'")" 4
is "the operation" "$(raw_rows_of graphs.tacho "SELECT DISTINCT json_extract(d.payload, '\$.op_name') FROM slice s JOIN detail d ON d.id = s.detail
    WHERE d.schema = 'gpu.kernel'")" "jit(train)/dot"
# calls that return at once last until the next one, the last one until its operations end
import calls.xplane.pb calls.tacho
is "steps of calls" "$(raw_rows_of calls.tacho "SELECT \"end\" - start FROM step ORDER BY start" | tr '\n' ' ')" '1000000 1000000 1000000 920000 '
import sparse.xplane.pb sparse.tacho
is "streams of a TPU with sparse cores" "$(raw_rows_of sparse.tacho "SELECT t.tid, count(*), sum(dur) FROM slice s JOIN track t ON t.id = s.track
    JOIN string c ON c.id = s.category WHERE c.text = 'kernel' GROUP BY 1 ORDER BY 1" | tr '\n' ' ')" '0,4,1200000 16,2,600000 17,2,600000 '
is "a collective inside of a fusion" "$(raw_rows_of sparse.tacho "SELECT count(*) FROM slice s JOIN detail d ON d.id = s.detail
    WHERE d.collective = 'all_reduce'")" 2

# Ascend: tables without streams, tables of tasks; of a folder one timeline a rank, with the rank that the profiler or the folder names
import kernel_details.csv level0.tacho
is "a table of Level0" "$(raw_rows_of level0.tacho "$slices ORDER BY start" | cut -d, -f1,2,4,6 | tr '\n' ' ')" \
    'aclnnMatmul_MatMulV2,kernel,0,420500 hcom_allReduce__445_0_1,kernel,100000,300000 aclnnMul_Mul,kernel,0,18320 '
import task_time.csv tasks.tacho
is "a table of tasks" "$(raw_rows_of tasks.tacho "$slices ORDER BY start" | cut -d, -f1,2,6 | tr '\n' ' ')" \
    'MatMul_1,kernel,420500 EVENT_WAIT,sync,10000 MEMCPY_ASYNC,memcpy,30000 TASK_TIMEOUT_SET,sync,94000 PROFILING_DISABLE,sync,20 LabelSmoothing,kernel,5000 '
import cluster cluster.tacho
is "ranks of a cluster" "$(raw_rows_of cluster.tacho "SELECT rank FROM process WHERE rank IS NOT NULL ORDER BY rank" | sort -u | tr '\n' ' ')" '4 6 '
grep -q ': 2 files,' err || fail "not one timeline a rank: $(cat err)"
import prof prof.tacho
grep -q ': 2 files,' err || fail "not one table a device: $(cat err)"
# pieces of one timeline or table, which msprof exports by iteration or cuts into slices, are one process; iterations of the graph that has
# most time are the steps, and no kernels
import graph graph.tacho
grep -q ': 8 files,' err || fail "not all iterations: $(cat err)"
is "ranks of graphs" "$(raw_rows_of graph.tacho "SELECT rank, (SELECT group_concat(DISTINCT device) FROM track WHERE process = p.id AND device IS NOT NULL)
    FROM process p ORDER BY rank" | tr '\n' ' ')" '0,gpu:0 1,gpu:1 '
is "steps of graphs" "$(raw_rows_of graph.tacho "SELECT \"index\", count(*), min(\"end\" - start), max(\"end\" - start) FROM step GROUP BY 1" | tr '\n' ' ')" \
    '1,2,600000,600000 2,2,600000,600000 10,2,600000,600000 '
is "rows of graphs" "$(raw_rows_of graph.tacho "SELECT n.text, c.text, count(*), sum(dur) FROM slice s JOIN track t ON t.id = s.track
    JOIN string n ON n.id = s.name JOIN string c ON c.id = s.category WHERE t.device IS NOT NULL AND n.text NOT GLOB '* [0-9]*'
    GROUP BY 1 ORDER BY 1" | tr '\n' ' ')" \
    'Default/AllReduce-op5_0,kernel,6,900000 Default/MatMul-op1,kernel,6,2400000 MEMCPY_ASYNC,memcpy,6,120000 NOTIFY_WAIT,sync,6,480000 REDUCE_ASYNC_V2,memcpy,6,180000 '
is "collectives of graphs" "$(raw_rows_of graph.tacho "SELECT DISTINCT d.collective FROM slice s JOIN detail d ON d.id = s.detail
    WHERE d.collective IS NOT NULL")" all_reduce
"$TACHO" report graph.tacho --json > graph.json || fail "the report of graphs"
is "times of graphs" "$(python3 -c 'import json; print(*[round(d[k]) for d in json.load(open("graph.json"))["devices"]
    for k in ("compute_us", "comm_us", "exposed_comm_us")])')" '1200 450 450 1200 450 450'
is "sums of graphs" "$(raw_rows_of graph.tacho "SELECT value FROM run WHERE key GLOB 'source.ascend.*' ORDER BY key" | tr '\n' ' ')" \
    '450000 450000 1200000 150000 '
import graph/PROF_000001_2023_AAA/device_1/timeline/msprof_1_2_2.json iteration.tacho
is "one iteration" "$(raw_rows_of iteration.tacho "SELECT count(*), min(\"end\" - start) FROM step")" 1,600000
import sliced sliced.tacho
is "slices" "$(raw_rows_of sliced.tacho "SELECT count(DISTINCT process), count(*), count(DISTINCT track) FROM slice s JOIN track t ON t.id = s.track
    WHERE t.device = 'gpu:5'")" 1,6,2
import tables tables.tacho
is "slices of a table" "$(raw_rows_of tables.tacho "SELECT count(DISTINCT process), count(*), count(DISTINCT track) FROM slice s
    JOIN track t ON t.id = s.track")" 1,2,1
# rows of the NPU behind those of Python: in a folder whose top has settings alone, and as a file; its own sums
for in in npu/host_55_2026_ascend_pt npu npu/host_55_2026_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json; do
    rm -f order.tacho
    import "$in" order.tacho
    grep -q ': 1 file,' err || fail "$in: not the timeline alone: $(cat err)"
    is "$in: its program, what is lost" "$(raw_rows_of order.tacho "SELECT program, (SELECT count(*) FROM loss) FROM process")" Python,0
    "$TACHO" report order.tacho --json > order.json || fail "$in: the report"
    python3 "$here/formats.py" ascend order.json order.tacho > out || fail "$in: the overlap rows: $(cat out)"
done
is "tasks that wait" "$(raw_rows_of order.tacho "SELECT n.text, c.text FROM slice s JOIN track t ON t.id = s.track JOIN string n ON n.id = s.name
    JOIN string c ON c.id = s.category WHERE t.device = 'gpu:5' AND t.tid = 5 ORDER BY start" | tr '\n' ' ')" \
    'Notify Wait,sync Write Value,sync TASK_TIMEOUT_SET,sync '
import mindspore mindspore.tacho
is "MindSpore: the capture, not what was made for a viewer" "$(raw_rows_of mindspore.tacho "SELECT count(DISTINCT process), (SELECT count(*) FROM step)
    FROM track") $(raw_rows_of mindspore.tacho 'SELECT source FROM loss')" "1,1 flops_summary_0.json"

# AMD: rocmProfileData, counters without a trace of kernels, Perfetto
import trace.rpd rpd.tacho
raw_rows_of rpd.tacho "$slices ORDER BY start" > rows
diff - rows << 'END' || fail "rows of rocmProfileData"
step 5,roctx,"",43,900,8100,""
hipLaunchKernel,runtime,"",43,1000,500,11
hipMemcpyAsync,runtime,"",43,1600,100,13
gemm(float*),kernel,gpu:3,0,2000,1000,11
Memcpy HtoD,memcpy,gpu:3,-2,3600,400,13
relu,kernel,gpu:3,0,5000,300,""
FillBuffer,memset,gpu:3,0,5400,100,""
END
is "bytes of its copies" "$(raw_rows_of rpd.tacho "SELECT bytes FROM detail WHERE schema = 'gpu.memcpy'")" 4096
import two.rpd two.tacho
raw_rows_of two.tacho "SELECT p.pid, $(sed 's/^SELECT //' <<< "$slices") JOIN process p ON p.id = t.process ORDER BY p.pid, s.start" > rows
diff - rows << 'END' || fail "rows of rocmProfileData's third version"
42,step 1,roctx,"",43,900,8100,""
42,hipLaunchKernel,runtime,"",43,1000,500,11
42,gemm(float*),kernel,gpu:0,2,2000,1000,11
42,Memcpy HtoD,memcpy,gpu:0,-2,3600,400,11
42,Memcpy DtoH,memcpy,gpu:0,-2,4000,200,11
52,step 1 of rank 1,roctx,"",53,950,8050,""
52,hipLaunchKernel,runtime,"",53,1100,500,21
52,gemm(float*),kernel,gpu:1,2,2100,1200,21
52,gemm(float*),kernel,gpu:1,7,5000,100,""
END
import rpd.json rpdjson.tacho
raw_rows_of rpdjson.tacho "${slices/s.start, dur/s.start - (SELECT min(start) FROM slice), dur} ORDER BY start" > rows
diff - rows << 'END' || fail "rows of rocmProfileData's JSON"
step 5,annotation,"",43,0,8100000,""
hipLaunchKernel,runtime,"",43,100000,500000,""
step 5,annotation,gpu:1,0,1099000,1002000,""
gemm(float*),kernel,gpu:1,0,1100500,1000000,""
CopyHostToDevice,memcpy,gpu:1,0,2700000,400000,""
FillBuffer,memset,gpu:1,0,3200000,5000,""
END
import tables_amd tables_amd.tacho
grep -q ': 8 files,' err || fail "not all tables: $(cat err)"
raw_rows_of tables_amd.tacho "SELECT p.rank, $(sed 's/^SELECT //' <<< "$slices") JOIN process p ON p.id = t.process ORDER BY p.rank, s.start LIMIT 6" > rows
diff - rows << 'END' || fail "rows of rocprofv3's tables"
0,step 5,roctx,"",77,900,8100,""
0,hipLaunchKernel,runtime,"",77,1000,500,11
0,"gemm(float*, int)",kernel,gpu:1,6,2000,1000,11
0,Memcpy HtoD,memcpy,gpu:1,-2,3600,400,12
0,Memcpy DtoH,memcpy,gpu:1,-2,4000,100,13
1,step 5,roctx,"",78,1400,8100,""
END
is "processes of rocprofv3's tables" "$(raw_rows_of tables_amd.tacho "SELECT count(DISTINCT process), count(*) FROM slice s JOIN track t ON t.id = s.track")" 2,10
import python.4242.json unitrace.tacho
raw_rows_of unitrace.tacho "${slices/s.start, dur/s.start - (SELECT min(start) FROM slice), dur} ORDER BY start" > rows
diff - rows << 'END' || fail "rows of unitrace"
step 5,annotation,"",4242,0,8100000,""
aten::mm,op,"",4242,50000,200000,""
zeCommandListAppendLaunchKernel,driver,"",4242,100000,50000,""
Launch,driver,"",4242,110000,0,11
gemm_kernel[SIMD32],kernel,gpu:1,7,1100000,1000000,11
Memcpy HtoD,memcpy,gpu:1,7,2700000,400000,12
zeCommandListAppendBarrier,sync,gpu:1,7,3100000,100000,13
END
is "its rank, GPU and bytes" "$(raw_rows_of unitrace.tacho "SELECT rank, (SELECT value FROM run WHERE key LIKE '%gpu:1.name'),
    (SELECT bytes FROM detail WHERE schema = 'gpu.memcpy') FROM process" | tr -d '"')" '3,Intel(R) GPU Max 1550,4096'
import counters.json counters.tacho
is "kernels with counters" "$(raw_rows_of counters.tacho "$slices ORDER BY start" | cut -d, -f1,2,6,7 | tr '\n' ' ')" \
    'gemm(float*),kernel,400,3 gemm(float*),kernel,400,4 gemm(float*),kernel,400,5 '
import unnumbered.json unnumbered.tacho
is "GPUs without a number" "$(raw_rows_of unnumbered.tacho "$slices" | cut -d, -f3 | sort | uniq -c | tr -s ' ')" ' 3 gpu:1'
import rocprof.json rocprof.tacho
raw_rows_of rocprof.tacho "${slices/s.start, dur/s.start - (SELECT min(start) FROM slice), dur} ORDER BY start" > rows
diff - rows << 'END' || fail "rows of the older rocprof"
step 5,annotation,"",4243,0,8100,""
hipLaunchKernel,runtime,"",4243,100,500,""
hsa_queue_create,driver,"",4243,700,100,""
gemm(float*),kernel,gpu:1,2,1101,1099,""
CopyHostToDevice,memcpy,gpu:1,2,2700,400,""
<barrier packet>,sync,gpu:1,2,3100,100,""
END
is "its processes" "$(raw_rows_of rocprof.tacho "SELECT pid FROM process")" 4242
for trace in rocm packed; do
    import $trace.pftrace $trace.tacho
    raw_rows_of $trace.tacho "$slices ORDER BY start" > $trace.rows
done
diff - rocm.rows << 'END' || fail "rows of rocprofv3 as Perfetto"
step 5,roctx,"",77,900,8100,""
hipLaunchKernel,runtime,"",77,1000,500,11
gemm(float*),kernel,gpu:4,6,2000,1000,11
Memcpy HtoD,memcpy,gpu:4,-2,3600,400,12
END
cmp rocm.rows packed.rows || fail "compressed packets are read differently"
is "bytes of a copy" "$(raw_rows_of rocm.tacho "SELECT bytes, copy_kind FROM detail WHERE schema = 'gpu.memcpy'")" 4096,HtoD
import sys.pftrace sys.tacho
raw_rows_of sys.tacho "$slices ORDER BY start" > rows
diff - rows << 'END' || fail "rows of rocprof-sys"
step 5,roctx,"",77,900,8100,""
hipLaunchKernel,runtime,"",77,1000,500,11
gemm(float*),kernel,gpu:1,6,2000,1000,11
Memcpy HtoD,memcpy,gpu:1,-2,3600,400,12
relu(float*),kernel,gpu:1,2,4100,100,13
barrier,sync,gpu:1,2,5000,100,14
END

# Perfetto: descriptors first, other clocks, counters of differences
import synthetic.pftrace synthetic.tacho
is "a trace of a script" "$(raw_rows_of synthetic.tacho "$slices" | cut -d, -f1,5,6)" work,1000,2000
import counted.pftrace counted.tacho
is "a clock of us" "$(raw_rows_of counted.tacho "SELECT n.text, t.name, start, dur FROM slice s JOIN track t ON t.id = s.track
    JOIN string n ON n.id = s.name")" copy,queue,2000000,500000
is "a counter of differences" "$(raw_rows_of counted.tacho "SELECT t.name, time, value FROM counter c JOIN track t ON t.id = c.track ORDER BY time" |
    tr '\n' ' ')" 'held,3000000,5120 held,3001000,12288 held,3002000,10240 held,5010000,1024 '

# pprof: counts whose period is a time, units of us; counts of something else stay refused
import parca.pb parca.tacho
is "a profile of counts" "$(raw_rows_of parca.tacho "SELECT count(*) FROM sample") $(raw_rows_of parca.tacho "SELECT value FROM run
    WHERE key = 'stacks.period_ns'")" '40 20000000'
import micro.pb micro.tacho
is "a profile in us" "$(raw_rows_of micro.tacho "SELECT count(*) FROM sample") $(raw_rows_of micro.tacho "SELECT value FROM run
    WHERE key = 'stacks.period_ns'")" '4 10000000'
import dashed.pb dashed.tacho
is "a profile of Datadog" "$(raw_rows_of dashed.tacho "SELECT count(*) FROM sample") $(raw_rows_of dashed.tacho "SELECT value FROM run
    WHERE key = 'stacks.period_ns'")" '4 10000000'
refused 4 locks.pb "a pprof profile of 'contentions'"
refused 4 ascend.db "a database of Ascend's profilers"
refused 4 memscope_dump.db 'a database of memory events of an Ascend NPU'
refused 4 analysis.db 'a database of sums of torch_npu'
refused 4 OpBasicInfo.csv 'a table of single operators of an Ascend NPU'
refused 4 communication_matrix.json 'a table of collectives of msprof'
refused 4 only_locks "only_locks: no trace that tacho can read: locks.pb: a pprof profile of 'contentions'"
refused 4 only_database "no trace that tacho can read: below/ascend.db: this is a database of Ascend's profilers"
refused 3 only_empty 'no trace that tacho can read: below/rank0.json: the file is empty'
refused 3 only_settings 'no trace that tacho can read: config.json: JSON, but not a trace'
import settings settings.tacho
is "settings above a trace" "$(raw_rows_of settings.tacho "SELECT rank, (SELECT group_concat(source) FROM loss) FROM process")" 0,config.json
refused 4 results.db 'a database of the older rocprof'
refused 4 nvprof.db 'an nvprof profile'
refused 4 tables_amd/77_kernel_stats.csv 'a table of sums of rocprof'
refused 4 proton.hatchet "a profile tree of Triton's Proton"
refused 4 memory.raw.json 'a memory timeline of torch.profiler'
refused 4 graph101.json 'an execution trace of PyTorch'
refused 4 host.memory_profile.json 'a table that TensorBoard made'
refused 4 host.overview_page.pb 'a table that TensorBoard made'
refused 4 trainer_state.json 'the state of a Hugging Face Trainer'
refused 4 run-1.wandb 'a run of Weights & Biases'
refused 4 inspector.prom 'a file of Prometheus metrics of the NCCL Inspector'

# memory snapshots with expandable segments, or with private pools of CUDA graphs, or both: the replay is exact, a segment is one whatever
# was mapped when
for snapshot in grown trimmed graphs grown_graphs; do
    "$TACHO" report made/$snapshot.pickle --json > $snapshot.json 2> err || fail "$snapshot: $(cat err)"
    is "$snapshot" "$(python3 - $snapshot << 'END'
import json, sys
device = json.load(open(sys.argv[1] + ".json"))["allocator"][0]
print(device["exact"], device["segments"], device["reserved_peak_bytes"], device["reserved_bytes"])
END
    )" "True $(cat made/$snapshot.bytes)"
done

import snapshot20.pickle snapshot20.tacho
is "blocks of PyTorch 2.0" "$(raw_rows_of snapshot20.tacho "SELECT d.bytes, json_extract(d.payload, '\$.block'), dur FROM slice s JOIN detail d
    ON d.id = s.detail WHERE d.schema = 'torch.block' ORDER BY 1" | tr '\n' ' ')" '1500000,,2000 2000000,2097152, '
is "its memory" "$(raw_rows_of snapshot20.tacho "SELECT max(value) FROM counter c JOIN track t ON t.id = c.track WHERE t.name = 'memory.allocated'")" \
    3500000
import grown.pickle grown.tacho
is "annotations" "$(raw_rows_of grown.tacho "SELECT n.text, s.start - (SELECT min(start) FROM slice WHERE track = s.track), coalesce(dur, 'open')
    FROM slice s JOIN string n ON n.id = s.name JOIN track t ON t.id = s.track WHERE t.name = 'annotations' ORDER BY start" | tr '\n' ' ')" \
    '## step ##,0,100000 forward,10000,50000 ## step ##,120000,open '

# flight recorder as JSON, in two orders of its keys
"$TACHO" report made/hang > out 2> err || fail "a hang as JSON: $(cat err)"
tr '\n' ' ' < out | grep -qF 'for rank 2, which has completed fewest' || fail "the hang: $(cat out)"
import hang hang.tacho
is "ranks and bytes of collectives" "$(raw_rows_of hang.tacho "SELECT DISTINCT d.ranks, d.bytes, d.collective FROM slice s
    JOIN detail d ON d.id = s.detail")" 4,8192,all_reduce
# groups whose ranks do not begin at 0, in files whose names do not say "rank": the rank that waits for none is the cause
for folder in 'chain|for rank 5, which has not issued it.  ' \
    'two|for rank 5, which has not issued it. Group 2 waits for rank 7.' 'ahead|none completed it. Rank 6 issued fewest after it' \
    'dead|there is no dump of rank 7: look' 'strided|there is no dump of rank 48,64,80,' 'many|for rank 1, which has not issued it.'; do
    "$TACHO" report "made/${folder%%|*}" > out 2> err || fail "$folder: $(cat err)"
    tr '\n' ' ' < out | grep -qF "${folder#*|}" || fail "$folder: $(cat out)"
done
import timed timed.tacho
is "times of the device" "$(raw_rows_of timed.tacho "SELECT dur, count(*), min(start % 1000000) FROM slice GROUP BY 1 ORDER BY 1" | tr '\n' ' ')" \
    '250000,22,250000 499900,2,100 '
# dumps of PyTorch 2.2 have a list of entries, and times in us
"$TACHO" report made/old > out 2> err || fail "a hang of PyTorch 2.2: $(cat err)"
tr '\n' ' ' < out | grep -qF 'for rank 2, which has completed fewest' || fail "the hang of PyTorch 2.2: $(cat out)"
import old old.tacho
is "times of PyTorch 2.2" "$(raw_rows_of old.tacho "SELECT start - (SELECT min(start) FROM slice), count(*), max(dur) FROM slice
    GROUP BY start ORDER BY start LIMIT 2" | tr '\n' ' ')" '0,4,500000 1000000,4,500000 '
# Gloo leaves what is done or failed as scheduled, but retired: no hang where every rank issued it
"$TACHO" report made/gloo > out 2> err || fail "dumps of Gloo: $(cat err)"
grep -q 'HANG' out && fail "collectives of Gloo that are done: $(cat out)"
import gloo gloo.tacho
is "states of Gloo" "$(raw_rows_of gloo.tacho "SELECT DISTINCT json_extract(d.payload, '\$.state'), dur FROM slice s JOIN detail d ON d.id = s.detail")" \
    retired,0
"$TACHO" report made/gloo_late > out 2> err || fail "a rank of Gloo is late: $(cat err)"
tr '\n' ' ' < out | grep -qF 'waits in number 5 (all_reduce, called at /srv/me/ddp.py(77): train) for rank 2, which has not issued it' || fail "a rank of Gloo is late: $(cat out)"
import hang_cut cut.tacho
grep -q 'truncated at the end' err || fail "a cut is not mentioned: $(cat err)"
refused 3 empty_dump 'without a collective'

# Chakra without the version of its schema, and as JSON; ranks by folders
import plain.et plain.tacho
is "a graph without a version" "$(raw_rows_of plain.tacho "$slices ORDER BY start" | cut -d, -f1,5,6 | tr '\n' ' ')" 'a,0,100000 b,100000,50000 '
import storage.et storage.tacho
is "nodes of storage" "$(raw_rows_of storage.tacho "SELECT n.text, t.kind, start, dur FROM slice s JOIN track t ON t.id = s.track
    JOIN string n ON n.id = s.name ORDER BY start" | tr '\n' ' ')" \
    'read shard,thread,0,50000 gemm,stream,60000,100000 save,thread,200000,30000 '
import called.et called.tacho
is "calls that form a circle" "$(raw_rows_of called.tacho "SELECT n.text, start, dur FROM slice s JOIN string n ON n.id = s.name ORDER BY start" | tr '\n' ' ')" \
    'convolution,0,100000 gemm,100000,300000 view,400000,0 '
is "what is said of it" "$(raw_rows_of called.tacho "SELECT count FROM loss WHERE reason LIKE '%control dependencies%(kept%'")" 3
import linked101.json linked101.tacho
is "a linked graph of the first schema" "$(raw_rows_of linked101.tacho "SELECT n.text, t.kind, start, dur FROM slice s JOIN track t ON t.id = s.track
    JOIN string n ON n.id = s.name ORDER BY start" | tr '\n' ' ')" 'aten::mm,thread,100500,20000 gemm,stream,130000,40000 '
import sized.json sized.tacho
is "figures of nodes" "$(raw_rows_of sized.tacho "SELECT n.text, coalesce(d.flops, 0), coalesce(d.collective, ''), coalesce(d.bytes, 0) FROM slice s
    JOIN string n ON n.id = s.name JOIN detail d ON d.id = s.detail ORDER BY start" | tr -d '"' | tr '\n' ' ')" \
    'layer,2000,,0 gradients,0,all_gather,4096 '
for form in messages list; do
    import $form.json $form.tacho
    is "messages as JSON ($form)" "$(raw_rows_of $form.tacho "SELECT n.text, t.kind, start, dur, coalesce(d.collective, ''), coalesce(d.bytes, 0)
        FROM slice s JOIN track t ON t.id = s.track JOIN string n ON n.id = s.name LEFT JOIN detail d ON d.id = s.detail
        ORDER BY start" | tr -d '"' | tr '\n' ' ')" \
        'host op,thread,0,100000,,0 gemm,stream,100000,300000,,0 nccl,stream,400000,200000,all_reduce,4096 '
done
import ranks ranks.tacho
import lora lora.tacho
is "a folder of all" "$(raw_rows_of lora.tacho "SELECT group_concat(rank) FROM (SELECT rank FROM process ORDER BY rank)" | tr -d '"')" 0,1
is "ranks of folders" "$(raw_rows_of ranks.tacho "SELECT group_concat(rank) FROM (SELECT rank FROM process ORDER BY rank)" | tr -d '"')" 3,5
exit 0
