#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes files of other producers as other versions and settings of them write it. usage: versions.py make FOLDER"""
import json, os, pickle, random, sqlite3, sys, zlib

from allocator_model import Allocator
from formats import Plane, ascend, field, flight, varint
from profiles import event, packet

START = 1_700_000_000_000_000_000


# ---- XLA ---------------------------------------------------------------------------------------------------------------------------


def command_buffers():
    """Kernels of CUDA graphs name no module and no operation: the launches of the host do. Four steps; a collector of the host whose
    calls were not merged into /host:CPU."""
    gpu, host, cupti = Plane("/device:GPU:0"), Plane("/host:CPU"), Plane("/host:CUPTI")
    step = 1_000_000_000  # ps
    gpu.line(1, "Stream #7(Compute)", START, [("loop_fusion", i * step + 100_000_000, 700_000_000, {"tf_op": "jit(train)/dot"}, {})
                                             for i in range(4)])
    host.line(11, "python", START, [("jit_train_step:XLA GPU module", i * step, 200_000_000, {}, {}) for i in range(4)] +
              [("jit_log:XLA GPU module", 300_000_000, 50_000_000, {}, {})])
    cupti.line(11, "python", START, [("cuGraphLaunch", i * step + 50_000_000, 20_000_000, {"correlation_id": 5 + i}, {}) for i in range(4)])
    return gpu.bytes() + host.bytes() + cupti.bytes()


def asynchronous_calls():
    """Four calls of a compiled function on the CPU that return after 30 us; the operations of each last 900 us on another thread."""
    host, step = Plane("/host:CPU"), 1_000_000_000  # ps
    host.line(11, "python", START, [("PjitFunction(train_step)", i * step, 30_000_000, {}, {}) for i in range(4)])
    host.line(12, "tf_XLAEigen", START, [("dot.1", i * step + 20_000_000, 900_000_000, {"hlo_module": "jit_train_step"}, {}) for i in range(4)])
    return host.bytes()


def sparse_cores():
    """Two steps of a TPU with two sparse cores, whose operations overlap those of the core; a collective inside of a fusion."""
    step, out = 1_000_000_000, b""
    core = Plane("/device:TPU:0")
    core.line(1, "XLA Ops", START, [(("%fusion.1", "fusion.1"), i * step, 500_000_000, {}, {"hlo_category": "loop fusion"}) for i in range(2)] +
              [(("%fusion.2", "fusion.2"), i * step + 500_000_000, 100_000_000, {}, {"hlo_category": "all-reduce fusion"}) for i in range(2)])
    core.line(2, "Steps", START, [(str(i), i * step, step, {}, {}) for i in range(2)])
    for number, line in enumerate(("XLA Ops", "Sparse Core Ops")):
        plane = Plane(f"/device:TPU:0 SparseCore {number}")
        plane.line(1, line, START, [(("%gather", f"gather.{number}"), i * step + 100_000_000, 300_000_000, {}, {}) for i in range(2)])
        plane.line(2, "Sparse Core Steps", START, [("0", 0, 2 * step, {}, {})])
        out += plane.bytes()
    return core.bytes() + out


# ---- Ascend ------------------------------------------------------------------------------------------------------------------------

LEVEL0 = ("Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim\n"
          "0,aclnnMatmul_MatMulV2,MatMulV2,AI_CORE,1774670741777000.000\t,420.500,0,8\n"
          "0,aclnnMul_Mul,Mul,AI_VECTOR_CORE,1774670741777420.500\t,18.320,0,8\n"
          "0,hcom_allReduce__445_0_1,hcom_allReduce_,HCCL,1774670741777100.000\t,300.000,0,N/A\n")
SUMMARY = ("Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us)\n"
           '0,1,5,2,"MatMul",MatMul,AI_CORE,"1774670741777000.000",420.5\n')
TASKS = ("Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)\n"
         '0,MatMul_1,KERNEL_AICORE,2,5,420.5,"1774670741777000.000\t","1774670741777420.500\t"\n'
         '0,,EVENT_WAIT,2,6,10.0,"1774670741777420.500\t","1774670741777430.500\t"\n'
         '0,MEMCPY_ASYNC,MEMCPY_ASYNC,2,7,30.0,"1774670741777430.500\t","1774670741777460.500\t"\n'
         '0,N/A,TASK_TIMEOUT_SET,2,8,94.0,"1774670741777460.500\t","1774670741777554.500\t"\n'
         '0,N/A,PROFILING_DISABLE,2,9,0.02,"1774670741777554.500\t","1774670741777554.520\t"\n'
         '0,LabelSmoothing,AI_VECTOR_CORE,2,10,5.0,"1774670741777560.000\t","1774670741777565.000\t"\n')


def ascend_folders(put):
    """Two ranks as torch_npu leaves them with data_simplification off; msprof's own files lie below. One names its rank in a file, the
    other in its folder."""
    tx = [{"ph": "X", "name": "mark", "pid": 1, "tid": 1, "ts": "1774670741777000.000", "dur": 5, "args": {}}]
    for folder, info in (("node1_55_2026_ascend_pt", "profiler_info_6.json"), ("tp0_rank4_56_2026_ascend_pt", "profiler_info.json")):
        put(f"cluster/{folder}/{info}", {"config": {}, "start_info": {}, "torch_npu_version": "2.1"})
        put(f"cluster/{folder}/profiler_metadata.json", {"ENV_VARIABLES": {}})
        put(f"cluster/{folder}/ASCEND_PROFILER_OUTPUT/trace_view.json", ascend())
        put(f"cluster/{folder}/ASCEND_PROFILER_OUTPUT/kernel_details.csv", LEVEL0)
        below = f"cluster/{folder}/PROF_000001_2026_ABC/mindstudio_profiler_output"
        put(f"{below}/msprof_2026.json", ascend())
        put(f"{below}/msprof_tx_2026.json", tx)
        put(f"{below}/op_summary_2026.csv", SUMMARY)
    for device in range(2):
        below = f"prof/PROF_00000{device}_2026_ABC/mindstudio_profiler_output"
        put(f"{below}/op_summary_2026.csv", SUMMARY)
        put(f"{below}/task_time_2026.csv", TASKS)


def ascend_order(put):
    """A capture as torch_npu orders it: all rows of Python, more than the first 256 KiB, before the first row that says that there is an NPU.
    Tasks that wait have names with blanks. Beside it lie settings and tables."""
    events = ascend()
    start = 1704161511420000
    rows = [{"ph": "X", "name": "aten::empty", "pid": 10, "tid": 10, "ts": f"{start + i % 2000}.000", "dur": 0.5, "cat": "cpu_op",
             "args": {"Sequence number": -1, "Fwd thread id": 0, "Input Dims": ";\r\n;\r\n"}} for i in range(3000)]
    tasks = [{"ph": "X", "name": name, "pid": 3, "tid": 5, "ts": f"{start + at}.000", "dur": dur, "args": {"Task Type": kind}}
             for name, kind, at, dur in (("Notify Wait", "Notify Wait", 100, 800), ("Write Value", "Write Value", 900, 50),
                                         ("TASK_TIMEOUT_SET", "Other", 1400, 500))]
    top = "npu/host_55_2026_ascend_pt"
    put(f"{top}/profiler_info_3.json", {"config": {"common_config": {}}, "start_info": {"freq": 100}, "end_info": {}, "rank_id": 3})
    put(f"{top}/profiler_metadata.json", {"ENV_VARIABLES": {"ASCEND_GLOBAL_LOG_LEVEL": ""}})
    put(f"{top}/ASCEND_PROFILER_OUTPUT/trace_view.json", rows + events + tasks)
    put(f"{top}/ASCEND_PROFILER_OUTPUT/kernel_details.csv", LEVEL0)
    put(f"{top}/ASCEND_PROFILER_OUTPUT/communication_matrix.json",
        {"step50": {"p2p": {}, "collective": {"allreduce-top1@17": {"0-1": {"Transport Type": "HCCS", "Transit Time(ms)": 2.1}}}}})


def mindspore(put):
    """A folder of MindSpore: what it made for its viewer, and below it the capture."""
    for name in ("ascend", "gpu"):
        put(f"mindspore/{name}_timeline_display_0.json", [{"name": "GetNext", "ph": "X", "tid": "0", "ts": 6.0, "dur": 5.0, "pid": 9000}])
    put("mindspore/flops_summary_0.json", {"FLOPs": 8167.743})
    put("mindspore/PROF_1_2026_A/device_0/timeline/msprof_0_2_1.json", graph_iteration(2, 1, 0))


def graph_iteration(model, number, device):
    """What msprof exports of one iteration of a graph (MindSpore): in 600 us 400 of a kernel, 150 of an all-reduce, 20 of a copy. The rows
    of the step trace span all of them. Times are since the machine was started."""
    events = [{"ph": "M", "name": "process_name", "pid": p, "tid": 0, "args": {"name": n}}
              for p, n in ((3, "Ascend Hardware"), (1002, "CANN"), (1011, "HCCL"), (1012, "Overlap Analysis"))]
    events += [{"ph": "M", "name": "thread_name", "pid": p, "tid": t, "args": {"name": n}}
               for p, t, n in ((3, 7000 + model, f"Step Trace(Model ID:{model})"), (3, 2, "Stream 2"), (1011, 0, "Plane 0"),
                               (1011, 70000, "Communication Kernel"))]
    events.append({"ph": "M", "name": "process_labels", "pid": 3, "tid": 0, "args": {"labels": "NPU"}})
    begin = 50_000_000_000 + 10_000 * number + device

    def put(name, pid, tid, at, dur, **more):
        events.append({"name": name, "pid": pid, "tid": tid, "ts": begin + at, "dur": dur, "ph": "X", **more})

    span = 600 if model == 2 else 10
    put(f"Iteration {number}", 3, 7000 + model, 0, span, cat="Iteration Time", args={"Iteration ID": number})
    put(f"FP_BP Time {number}", 3, 7000 + model, 0, 450, cat="FP_BP Time", args={"Iteration ID": number})
    if model == 2:
        put("GE@Infer", 1002, 9, 0, 600, args={"Model Id": 2})
        put("Default/MatMul-op1", 3, 2, 0, 400, args={"Task Type": "AI_CORE"})
        put("MEMCPY_ASYNC", 3, 5, 420, 20, args={"Task Type": "MEMCPY_ASYNC"})
        put("NOTIFY_WAIT", 3, 5, 440, 80, args={"Task Type": "NOTIFY_WAIT"})
        put("REDUCE_ASYNC_V2", 3, 5, 520, 30, args={"Task Type": "REDUCE_ASYNC_V2"})
        put("Default/AllReduce-op5_0", 1011, 70000, 400, 150)
        put("Notify_Wait", 1011, 0, 440, 110)
        for name, tid, at, dur in (("Computing", 0, 0, 400), ("Communication", 1, 400, 150), ("Communication(Not Overlapped)", 2, 400, 150),
                                   ("Free", 3, 550, 50)):
            put(name, 1012, tid, at, dur)
    return events


def ascend_pieces(put):
    """Captures of which msprof exports each iteration, or slices: one process each. The rank is not the order of the folders."""
    for device, name in ((1, "PROF_000001_2023_AAA"), (0, "PROF_000002_2023_BBB")):
        folder = f"graph/{name}/device_{device}"
        put(f"{folder}/info.json.{device}", {"devices": str(device), "rank_id": device})
        for model, number in ((1, 1), (2, 1), (2, 2), (2, 10)):
            events = graph_iteration(model, number, device)
            put(f"{folder}/timeline/msprof_{device}_{model}_{number}.json", events)
            put(f"{folder}/timeline/hccl_{device}_{model}_{number}.json", [e for e in events if e["pid"] == 1011])
    names, events = [[e for e in ascend() if (e["ph"] == "M") == named] for named in (True, False)]
    half = len(events) // 2
    for index, part in enumerate((names + events[:half], events[half:])):
        put(f"sliced/PROF_1_2024_A/mindstudio_profiler_output/msprof_slice_{index}_2024010112000{index}.json", part)
    for index, name in enumerate(("op_summary_20240101120000", "op_summary_slice_1_20240101120001")):
        put(f"tables/PROF_1_2024_A/mindstudio_profiler_output/{name}.csv", SUMMARY.replace("777000.000", f"77{7 + index}000.000"))


# ---- AMD ---------------------------------------------------------------------------------------------------------------------------


def rpd(path):
    """A database of rocmProfileData: a launch and its kernel, a copy, a range, a barrier, a kernel of a HIP graph, a fill."""
    db = sqlite3.connect(path)
    db.executescript("""
        CREATE TABLE rocpd_string(id INTEGER PRIMARY KEY, string TEXT);
        CREATE TABLE rocpd_op(id INTEGER PRIMARY KEY, gpuId INTEGER, queueId INTEGER, sequenceId INTEGER, start INTEGER, end INTEGER,
            description_id INTEGER, opType_id INTEGER);
        CREATE TABLE rocpd_api(id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start INTEGER, end INTEGER, apiName_id INTEGER,
            args_id INTEGER);
        CREATE TABLE rocpd_api_ops(id INTEGER PRIMARY KEY, api_id INTEGER, op_id INTEGER);
        INSERT INTO rocpd_string VALUES (1, ''), (2, 'hipLaunchKernel'), (3, 'KernelExecution'), (4, 'gemm(float*)'), (5, 'UserMarker'),
            (6, 'step 5'), (7, 'CopyHostToDevice'), (8, 'Barrier'), (9, 'hipMemcpyAsync'), (10, 'Task'), (11, 'FillBuffer'), (12, 'relu');
        CREATE TABLE rocpd_copyapi(api_ptr_id INTEGER PRIMARY KEY, size INTEGER);
        INSERT INTO rocpd_copyapi VALUES (13, 4096);
        INSERT INTO rocpd_api VALUES (11, 42, 43, 1000, 1500, 2, 1), (12, 42, 43, 900, 9000, 5, 6), (13, 42, 43, 1600, 1700, 9, 1);
        INSERT INTO rocpd_op VALUES (1, 3, 0, 1, 2000, 3000, 4, 3), (2, 3, 0, 2, 3600, 4000, 1, 7), (3, 3, 0, 3, 4000, 4100, 1, 8), (4, 3, 0, 4, 5000, 5300, 12, 10),
            (5, 3, 0, 5, 5400, 5500, 1, 11);
        INSERT INTO rocpd_api_ops VALUES (1, 11, 1), (2, 13, 2);
    """)
    db.close()


def rpd3(path):
    """Version 3 of its schema, of two processes: texts of ranges in a table of their own, copies in the words of rocprofiler-sdk, and an
    operation of CUPTI's source, which names no call."""
    db = sqlite3.connect(path)
    db.executescript("""
        CREATE TABLE rocpd_string(id INTEGER PRIMARY KEY, string TEXT);
        CREATE TABLE rocpd_ustring(id INTEGER PRIMARY KEY, string TEXT);
        CREATE TABLE rocpd_op(id INTEGER PRIMARY KEY, gpuId INTEGER, queueId INTEGER, sequenceId INTEGER, start INTEGER, end INTEGER,
            description_id INTEGER, opType_id INTEGER);
        CREATE TABLE rocpd_api(id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start INTEGER, end INTEGER, apiName_id INTEGER,
            category_id INTEGER, domain_id INTEGER, args_id INTEGER);
        CREATE TABLE rocpd_api_ops(id INTEGER PRIMARY KEY, api_id INTEGER, op_id INTEGER);
        INSERT INTO rocpd_string VALUES (1, ''), (2, 'hipLaunchKernel'), (3, 'KernelExecution'), (4, 'gemm(float*)'), (5, 'UserMarker'),
            (6, 'Memcpy'), (7, 'hipMemcpyHostToDevice'), (8, 'MEMORY_COPY_DEVICE_TO_HOST'), (9, 'ConcurrentKernel');
        INSERT INTO rocpd_ustring VALUES (1, ''), (2, 'step 1'), (3, 'step 1 of rank 1');
        INSERT INTO rocpd_api VALUES (11, 42, 43, 1000, 1500, 2, 1, 1, 1), (12, 42, 43, 900, 9000, 5, 1, 1, 2),
            (21, 52, 53, 1100, 1600, 2, 1, 1, 1), (22, 52, 53, 950, 9000, 5, 1, 1, 3);
        INSERT INTO rocpd_op VALUES (1, 0, 2, 1, 2000, 3000, 4, 3), (2, 1, 2, 1, 2100, 3300, 4, 3), (3, 0, 0, 0, 3600, 4000, 7, 6),
            (4, 0, 0, 0, 4000, 4200, 1, 8), (5, 1, 1, 7, 5000, 5100, 4, 9);
        INSERT INTO rocpd_api_ops VALUES (1, 11, 1), (2, 21, 2), (3, 11, 3), (4, 11, 4);
    """)
    db.close()


def rpd_json():
    """What rpd2tracing.py makes of such a database: GPUs are processes, and nothing has a category."""
    rows = [("1", "0", "gemm(float*)", "2000.5", "1000", "KernelExecution"), ("1", "0", "CopyHostToDevice", "3600", "400", "CopyHostToDevice"),
            ("1", "0", "FillBuffer", "4100", "5", "FillBuffer"), ("1", "0", "step 5", "1999", "1002", "UserMarker frame: 1 ops"),
            ("42", "43", "hipLaunchKernel", "1000", "500", "stream=0"), ("42", "43", "step 5", "900", "8100", "step 5")]
    lines = ["[ {}", ',{"name": "process_name", "ph": "M", "pid":"1","args":{"name":"GPU1"}}',
             ',{"name":"thread_name","ph":"M","pid":"42","tid":"43","args":{"name":"Hip 43"}}']
    lines += [f',{{"pid":"{pid}","tid":"{tid}","name":"{name}","ts":"{ts}","dur":"{dur}","ph":"X","args":{{"desc":"{desc}"}}}}'
              for pid, tid, name, ts, dur, desc in rows]
    lines += [',{"pid":"42","tid":"43","cat":"api_op","name":"api_op","ts":"1498","id":"1","ph":"s"}',
              ',{"pid":"1","name":"QueueDepth","ph":"C","ts":1000,"args":{"depth":1}}', "]"]
    return "\n".join(lines) + "\n"


def counters():
    """rocprofv3 --pmc: no dispatch is in buffer_records, each is with its counters."""
    counted = [{"thread_id": 5, "dispatch_data": {"correlation_id": {"internal": 3 + k, "external": 0}, "start_timestamp": 1000 * k + 1,
                "end_timestamp": 1000 * k + 401, "dispatch_info": {"agent_id": {"handle": 9}, "queue_id": {"handle": 1}, "kernel_id": 1,
                "grid_size": {"x": 64, "y": 1, "z": 1}, "workgroup_size": {"x": 64, "y": 1, "z": 1}}},
                "records": [{"counter_id": {"handle": 5}, "value": 7.0}]} for k in range(3)]
    return {"rocprofiler-sdk-tool": [{"metadata": {"pid": 5}, "agents": [{"id": {"handle": 9}, "type": 2, "logical_node_type_id": 0}],
            "kernel_symbols": [{"kernel_id": 1, "formatted_kernel_name": "gemm(float*)"}], "strings": {"buffer_records": []},
            "callback_records": {"counter_collection": counted}, "buffer_records": {"kernel_dispatch": [], "memory_copy": []}}]}


def rocprof():
    """The older rocprof: layers are processes, times of events are whole us, the exact ones and the threads are in the arguments."""
    events = [{}] + [{"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name", "sort_index": n} for n, (pid, name) in enumerate(
        ((0, "Markers and Ranges"), (2, "CPU HIP API"), (3, "CPU HSA API"), (1, "COPY"), (7, "GPU1"), (519, "GPU Barriers1")))]

    def put(layer, lane, name, start, end, **args):
        args = {"BeginNs": str(10**15 + start), "EndNs": str(10**15 + end), "Name": name, "DurationNs": str(end - start), **args}
        events.append({"ph": "X", "name": name, "pid": str(layer), "tid": str(lane), "ts": str(start // 1000), "dur": str((end - start) // 1000 or 1),
                       "args": args})

    who = {"pid": "4242", "tid": "4243"}
    put(0, 0, "step 5", 900, 9000, **who)
    put(2, 4243, "hipLaunchKernel", 1000, 1500, args="( stream(0) )", **who)
    put(3, 4243, "hsa_queue_create", 1600, 1700, args="()", **who)
    put(7, 2, "gemm(float*)", 2001, 3100, **{"dev-id": "1", "queue-id": "2", "pid": "4242", "tid": "2"})
    put(1, 2, "CopyHostToDevice", 3600, 4000, **{"dev-id": "1", "queue-id": "2", "pid": "4242", "tid": "2"})
    put(519, 2, "<barrier packet>", 4000, 4100, **{"dev-id": "1", "queue-id": "2", "pid": "4242", "tid": "2"})
    events += [{"ts": 1, "ph": "s", "cat": "DataFlow", "id": 1, "pid": 2, "tid": 4243, "name": "dep"},
               {"ts": 2, "ph": "t", "cat": "DataFlow", "id": 1, "pid": 7, "tid": 2, "name": "dep"}]
    return {"traceEvents": events, "otherData": {"Name": "gfx90a"}}


def unnumbered():
    """Agents of an older version have no number among those of their type."""
    capture = counters()
    capture["rocprofiler-sdk-tool"][0]["agents"] = [{"id": {"handle": handle}, "type": kind, "node_id": node}
                                                    for node, (handle, kind) in enumerate(((5, 1), (7, 2), (9, 2)))]
    return capture


def old_databases(folder):
    """The older rocprof keeps what it recorded beside its results.json; nvprof has only a database."""
    for name, script in (("results.db", "CREATE TABLE HIP(BeginNs INTEGER, EndNs INTEGER, pid INTEGER, tid INTEGER, Name TEXT, __section INTEGER,"
                          "__lane INTEGER, DurationNs INTEGER)"),
                         ("nvprof.db", "CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL(_id_ INTEGER PRIMARY KEY, start INT, end INT, name INT);"
                          "CREATE TABLE StringTable(_id_ INTEGER PRIMARY KEY, value TEXT)")):
        db = sqlite3.connect(f"{folder}/{name}")
        db.executescript(script)
        db.close()


def rocprof_tables(put):
    """rocprofv3 --output-format csv of two processes: a table for kernels, copies, and the calls of each library. Agent 1 is the first GPU."""
    for pid, start in ((77, 1000), (78, 1500)):
        put(f"tables_amd/{pid}_kernel_trace.csv", '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
            '"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z",'
            '"Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
            f'"KERNEL_DISPATCH","Agent 1","6","2","{pid}","4673","29","gemm(float*, int)","11","{start + 1000}","{start + 2000}","0","64","1","1","128","1","1"\n')
        put(f"tables_amd/{pid}_memory_copy_trace.csv", '"Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id",'
            '"Start_Timestamp","End_Timestamp"\n'
            f'"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE","2","Agent 0","Agent 1","12","{start + 2600}","{start + 3000}"\n'
            f'"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_HOST","2","Agent 1","Agent 0","13","{start + 3000}","{start + 3100}"\n')
        for library, domain, name, at, dur in (("hip", "HIP_RUNTIME_API_EXT", "hipLaunchKernel", start, 500),
                                               ("marker", "MARKER_CORE_RANGE_API", "step 5", start - 100, 8100)):
            put(f"tables_amd/{pid}_{library}_api_trace.csv", '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
                f'"{domain}","{name}","{pid}","{pid}","11","{at}","{at + dur}"\n')
        put(f"tables_amd/{pid}_kernel_stats.csv", '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n"gemm",1,5,5,1,5,5,0\n')


def unitrace():
    """Intel's unitrace on rank 3: a GPU of two tiles, a call and the arrow to its kernel, a copy, a barrier, an operator and a range of ITT."""
    host, gpu = 4242, 2147483647
    events = [{"ph": "M", "name": "process_name", "pid": host, "ts": 0, "args": {"name": "RANK 3 HOST<node>"}},
              {"ph": "M", "name": "process_name", "pid": gpu, "ts": 0, "args": {"name": "RANK 3 DEVICE<node>[Intel(R) GPU Max 1550] 0:29:0:0 #0.1"}},
              {"ph": "M", "name": "thread_name", "pid": gpu, "tid": 7, "ts": 0, "args": {"name": "Thread 4242 Compute<0,0>"}}]

    def put(ph, pid, name, ts, **more):
        events.append({"ph": ph, "tid": 7 if pid == gpu else host, "pid": pid, "name": name, "ts": ts, **more})

    put("B", host, "step 5", 900, cat="cpu_op", id=0)
    put("X", host, "aten::mm", 950, dur=200, cat="cpu_op", id=0)
    put("X", host, "zeCommandListAppendLaunchKernel", 1000, dur=50, cat="cpu_op", id=0)
    put("s", host, "dep", 1010, cat="Flow_H2D_11_3", id=11)
    put("X", gpu, "gemm_kernel[SIMD32]", 2000, dur=1000, cat="gpu_op", args={"id": "11"})
    put("t", gpu, "dep", 2000, cat="Flow_H2D_11_3", id=11)
    put("X", gpu, "zeCommandListAppendMemoryCopy(M2D)[4096 bytes]", 3600, dur=400, cat="gpu_op", args={"id": "12"})
    put("X", gpu, "zeCommandListAppendBarrier", 4000, dur=100, cat="gpu_op", args={"id": "13"})
    put("E", host, "step 5", 9000, cat="cpu_op", id=0)
    return {"traceEvents": events}


def annotations(**args):
    return b"".join(field(4, field(10, key) + field(6 if isinstance(value, str) else 3, value)) for key, value in args.items())


def pftrace():
    """rocprofv3 --output-format pftrace: kernels on tracks of their queue, calls on tracks that are no threads."""
    seq, out = field(10, 1), b""
    out += packet(seq + field(60, field(1, 90) + field(2, "COMPUTE AGENT [4] QUEUE [0] (GPU)")))
    out += packet(seq + field(60, field(1, 91) + field(2, "THREAD 1 (77)")))
    out += packet(seq + field(60, field(1, 92) + field(2, "COPY to AGENT [4] THREAD [1] (GPU)")))
    for track, category, name, start, end, args in (
            (91, "hip_api", "hipLaunchKernel", 1000, 1500, {"tid": 77, "kind": 2, "corr_id": 11}),
            (91, "marker_api", "step 5", 900, 9000, {"tid": 77, "kind": 3, "corr_id": 10}),
            (90, "kernel_dispatch", "gemm(float*)", 2000, 3000, {"kind": 11, "agent": "Agent-4", "corr_id": 11, "queue": 6, "tid": 77}),
            (92, "memory_copy", "MEMORY_COPY_HOST_TO_DEVICE", 3600, 4000,
             {"kind": 12, "src_agent": "Agent-0", "dst_agent": "Agent-4", "copy_bytes": 4096, "corr_id": 12, "tid": 77})):
        out += packet(seq + field(8, start) + field(11, event(1, track, name, category, annotations(**args))))
        out += packet(seq + field(8, end) + field(11, event(2, track)))
    return out


def pftrace_sys():
    """rocprof-sys: the GPU is in the name of the track of a kernel alone, by queue or, without it, by stream; calls lie on threads."""
    seq, out = field(10, 1), b""
    out += packet(seq + field(60, field(1, 91) + field(4, field(1, 77) + field(2, 77))))
    for track, name in ((90, "GPU Kernel Dispatch [1] Queue 3"), (92, "GPU Memory Copy to Agent [5] Thread 0"), (93, "HIP Activity Stream 2"),
                        (94, "HIP Activity Device 1, Queue 2")):
        out += packet(seq + field(60, field(1, track) + field(2, name)))
    for track, category, name, start, end, args in (
            (91, "rocm_marker_api", "step 5", 900, 9000, {}),
            (91, "rocm_hip_api", "hipLaunchKernel", 1000, 1500, {"corr_id": 11, "stream": "0x0"}),
            (90, "rocm_kernel_dispatch", "gemm(float*)", 2000, 3000, {"corr_id": 11, "queue": 6}),
            (92, "rocm_memory_copy", "MEMORY_COPY_HOST_TO_DEVICE", 3600, 4000, {"corr_id": 12, "bytes": 4096, "dst_agent_id": 5}),
            (93, "rocm_hip_stream", "relu(float*)", 4100, 4200, {"corr_id": 13}),
            (94, "device_hip", "barrier", 5000, 5100, {"corr_id": 14, "device": 1, "queue": 2, "stream": "0x0", "op": "BARRIER"})):
        out += packet(seq + field(8, start) + field(11, event(1, track, name, category, annotations(**args))))
        if name != "step 5":
            out += packet(seq + field(8, end) + field(11, event(2, track)))
    return out + packet(seq + field(8, 9000) + field(11, event(2, 91)))


# ---- Perfetto ----------------------------------------------------------------------------------------------------------------------


def synthetic():
    """As scripts write it: descriptors without a writer and a time come first."""
    out = packet(field(60, field(1, 5) + field(2, "lane")))
    out += packet(field(10, 1) + field(8, 1000) + field(11, event(1, 5, "work", "c")))
    return out + packet(field(10, 1) + field(8, 3000) + field(11, event(2, 5)))


def counted():
    """A clock in units of us, tracks named by static_name, a counter of differences in KiB; the state of the writer is cleared once."""
    seq = field(10, 3)

    def clear(boot):
        clocks = field(6, field(1, field(1, 6) + field(2, boot)) + field(1, field(1, 64) + field(2, 0) + field(3, 1) + field(4, 1000)) +
                       field(1, field(1, 65) + field(2, boot // 1000) + field(4, 1000)))
        return packet(seq + field(8, boot) + clocks + field(13, 1))

    out = clear(1_000_000)
    out += packet(seq + field(60, field(1, 20) + field(10, "queue")))
    out += packet(seq + field(60, field(1, 21) + field(10, "held") + field(8, field(4, 1024) + field(5, 1))))
    out += packet(seq + field(58, 65) + field(8, 2000) + field(11, event(1, 20, "copy", "dma")))
    out += packet(seq + field(58, 65) + field(8, 2500) + field(11, event(2, 20)))
    for at, more in ((3000, 5), (3001, 7), (3002, -2)):
        out += packet(seq + field(58, 65) + field(8, at) + field(11, event(4, 21, more=field(30, more))))
    out += clear(5_000_000)
    return out + packet(seq + field(58, 64) + field(8, 10) + field(11, event(4, 21, more=field(30, 1))))


def packed(data):
    """All of a trace in compressed packets, in two parts."""
    whole, at, parts = data, 0, []
    while at < len(whole):
        length, shift, size = 0, 0, at + 1
        while True:
            length |= (whole[size] & 127) << shift
            shift += 7
            size += 1
            if whole[size - 1] < 128:
                break
        parts.append(whole[at:size + length])
        at = size + length
    half = len(parts) // 2
    return b"".join(packet(field(50, zlib.compress(b"".join(part)))) for part in (parts[:half], parts[half:]))


# ---- pprof -------------------------------------------------------------------------------------------------------------------------


def profile(types, samples, period, period_type):
    strings = ["", "main", "leaf"]

    def text(value):
        if value not in strings:
            strings.append(value)
        return strings.index(value)

    def value_type(pair):
        return field(1, text(pair[0])) + field(2, text(pair[1]))

    out = b"".join(field(1, value_type(pair)) for pair in types)
    out += b"".join(field(2, field(1, b"".join(map(varint, stack))) + field(2, b"".join(map(varint, values)))) for stack, values in samples)
    out += b"".join(field(4, field(1, k) + field(4, field(1, k))) + field(5, field(1, k) + field(2, k)) for k in (1, 2))
    out += field(11, value_type(period_type)) + field(12, period)
    return out + b"".join(field(6, value) for value in strings)


# ---- PyTorch -----------------------------------------------------------------------------------------------------------------------


def recorded(allocator, first=0):
    return allocator.snapshot(first), allocator.peak, allocator.reserved


def expandable(trimmed, graphs=False):
    """Blocks of many sizes that come and go; what was there before the history is partly given back in it. Segments grow; `trimmed`: what is
    free is given back in the middle; `graphs`: now and then a CUDA graph is captured, whose pool is a private one."""
    own, r = Allocator(expandable=True, text="expandable_segments:True"), random.Random(3)
    held, first = [], 0
    for step in range(700):
        if step == 100:
            first = len(own.trace)
        if held and r.random() < 0.47:
            own.free(held.pop(r.randrange(len(held))))
        else:
            size = r.choice((r.randrange(100, 1 << 20), r.randrange(1 << 20, 60 << 20)))
            held.append(own.malloc(size, pool=(int(graphs and step % 90 > 60), 0)))
        if trimmed and step == 400:
            for block in [b for b in held if b.place[2]][-6:]:
                held.remove(block)
                own.free(block)
            own.empty_cache()
    data, peak, now = recorded(own, first)
    begin = data["device_traces"][0][0]["time_us"]
    data["external_annotations"] = [{"device": 0, "name": name, "stage": stage, "time_us": begin + at} for name, stage, at in (
        ("## step ##", "START", 0), ("forward", "START", 10), ("forward", "END", 60), ("## step ##", "END", 100), ("lost", "END", 110),
        ("## step ##", "START", 120))]
    return data, peak, now


def old_snapshot():
    """PyTorch 2.0: a block has neither an address nor what was requested of it, its history has; events have no times."""
    frames = [{"name": "step", "filename": "/srv/me/train.py", "line": 40}]
    held = {"size": 2 << 20, "state": "active_allocated", "history": [{"addr": 0x7f0000000000, "real_size": 2_000_000, "frames": frames}]}
    trace = [{"action": "segment_alloc", "addr": 0x7f0000000000, "size": 20 << 20, "stream": 0, "frames": frames},
             {"action": "alloc", "addr": 0x7f0000000000, "size": 2_000_000, "stream": 0, "frames": frames},
             {"action": "alloc", "addr": 0x7f0000200000, "size": 1_500_000, "stream": 0, "frames": frames},
             {"action": "free_requested", "addr": 0x7f0000200000, "size": 1_500_000, "stream": 0, "frames": frames},
             {"action": "free_completed", "addr": 0x7f0000200000, "size": 1_500_000, "stream": 0, "frames": frames}]
    return {"segments": [{"device": 0, "address": 0x7f0000000000, "total_size": 20 << 20, "allocated_size": 2 << 20, "active_size": 2 << 20,
                          "stream": 0, "segment_type": "large", "blocks": [held, {"size": 18 << 20, "state": "inactive"}]}],
            "device_traces": [trace]}


def graphs():
    """Requests of a program and, between them, of two captures of CUDA graphs, each with a pool of its own."""
    own, r, held = Allocator(), random.Random(5), []
    for step in range(600):
        pool = {3: (1, 0), 7: (0, 2)}.get(step // 30 % 10, (0, 0))
        if held and r.random() < 0.48:
            own.free(held.pop(r.randrange(len(held))))
        else:
            held.append(own.malloc(r.choice((r.randrange(100, 1 << 20), r.randrange(1 << 20, 30 << 20))), pool=pool))
        if step == 400:
            own.empty_cache()
    return recorded(own)


# ---- the files ---------------------------------------------------------------------------------------------------------------------


def chakra_without_version():
    def message(body):
        return varint(len(body)) + body

    return message(b"") + message(field(2, "a") + field(3, 4) + field(7, 100)) + message(field(1, 1) + field(2, "b") + field(3, 4) +
                                                                                   field(5, 0) + field(7, 50))


def chakra_storage():
    """Types of nodes of the newest schema, which run on the host; a start of 0 is not written, and metadata are attributes alone."""
    def message(body):
        return varint(len(body)) + body

    attributes = b"".join(field(2, field(1, name) + field(number, value)) for name, number, value in (("schema", 29, "1.0.1"), ("pid", 13, 77)))
    return message(attributes) + b"".join(message(body) for body in (
        field(2, "read shard") + field(3, 8) + field(7, 50),
        field(1, 1) + field(2, "gemm") + field(3, 4) + field(5, 0) + field(6, 60) + field(7, 100),
        field(1, 2) + field(2, "save") + field(3, 10) + field(5, 1) + field(6, 200) + field(7, 30)))


def chakra_called():
    """The converter of PyTorch's traces: dependencies by control say who called whom, too, and form a circle. One node takes no time."""
    def message(body):
        return varint(len(body)) + body

    return message(field(2, field(1, "schema") + field(29, "1.0.1"))) + b"".join(message(body) for body in (
        field(1, 5) + field(2, "convolution") + field(3, 4) + field(4, 6) + field(7, 100) + field(10, field(1, "is_cpu_op") + field(27, 1)),
        field(1, 6) + field(2, "gemm") + field(3, 4) + field(4, 5) + field(5, 5) + field(7, 300),
        field(1, 7) + field(2, "view") + field(3, 4) + field(4, 6) + field(5, 6)))


def chakra_sized():
    """A graph for simulators, whose nodes have their figures as keys of their own."""
    return {"workload_graph": [
        {"Id": 1, "Name": "layer", "NodeType": 4, "is_cpu_op": False, "runtime": 100, "num_ops": 2000, "tensor_size": 512, "data_deps": []},
        {"Id": 2, "Name": "gradients", "NodeType": 7, "is_cpu_op": False, "runtime": 50, "comm_type": 2, "tensor_size": 77, "comm_size": 4096,
         "data_deps": [1]}]}


def jsonized(between, around=("", "")):
    """The messages of an .et as Chakra's jsonizer prints them; numbers of 64 bits are texts, and 0 is left out."""
    flag = [{"name": "is_cpu_op", "boolVal": False}]
    nodes = [{"version": "0.0.4"},
             {"name": "host op", "type": "COMP_NODE", "durationMicros": "100", "attr": [{"name": "is_cpu_op", "boolVal": True}]},
             {"id": "1", "name": "gemm", "type": "COMP_NODE", "dataDeps": ["0"], "durationMicros": "300", "attr": flag},
             {"id": "2", "name": "nccl", "type": "COMM_COLL_NODE", "dataDeps": ["1"], "durationMicros": "200",
              "attr": flag + [{"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "int64Val": "4096"}]}]
    return around[0] + between.join(json.dumps(node, indent=2) for node in nodes) + around[1]


def old_flight(rank, last):
    """The dump of PyTorch 2.2: a list of entries with other names of the number and of the times."""
    entries = flight(rank, last)["entries"]
    for one in entries:
        one["seq_id"] = one.pop("collective_seq_id")
        for key in ("process_group", "p2p_seq_id", "op_id", "record_id", "is_p2p", "input_dtypes", "output_dtypes"):
            del one[key]
        for key in ("time_created", "time_discovered_started", "time_discovered_completed"):
            time = one.pop(key + "_ns")
            one[key + "_us"] = time and time // 1000
    return entries


def timed_flight(rank):
    """With TORCH_NCCL_ENABLE_TIMING the device measures what the watchdog sees too late, both ends at once. One has no time of its own."""
    dump = flight(rank, 11)
    for one in dump["entries"][:-1]:
        one.update(time_discovered_started_ns=one["time_discovered_completed_ns"], duration_ms=0.25)
    return dump


def grouped_flight(rank, entries, groups=None):
    """A dump of one of ranks 4 to 7, which form two pairs and a group of all, or of a rank of other groups; `entries`: numbers that it
    issued in each, negative ones that are completed."""
    groups = groups or {"0": [4, 5, 6, 7], "1": [4, 5], "2": [6, 7]}
    one = flight(rank, 0)["entries"][0]
    own = [{**one, "process_group": (name, "tp"), "collective_seq_id": abs(number),
            "state": "scheduled" if number > 0 else "completed"} for name, numbers in entries.items() for number in numbers]
    return {"version": "2.9", "pg_config": {name: {"name": name, "desc": "tp", "ranks": str(members)} for name, members in groups.items()
                                            if rank in members}, "entries": own}


def fnv(text):
    """The number by which tacho tells groups apart."""
    number = 2166136261
    for byte in text.encode():
        number = (number ^ byte) * 16777619 % 2**32
    return number


def make(folder):
    def put(name, data):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        data = data if isinstance(data, (bytes, str)) else json.dumps(data)
        with open(path, "wb") as f:
            f.write(data.encode() if isinstance(data, str) else data)

    put("graphs.xplane.pb", command_buffers())
    put("calls.xplane.pb", asynchronous_calls())
    put("sparse.xplane.pb", sparse_cores())
    put("kernel_details.csv", LEVEL0)
    put("task_time.csv", TASKS)
    ascend_folders(put)
    ascend_pieces(put)
    ascend_order(put)
    mindspore(put)
    rpd(f"{folder}/trace.rpd")
    rpd3(f"{folder}/two.rpd")
    put("rpd.json", rpd_json())
    put("python.4242.json", unitrace())
    rocprof_tables(put)
    put("counters.json", counters())
    put("unnumbered.json", unnumbered())
    old_databases(folder)
    put("proton.hatchet", [{"children": [{"children": [], "frame": {"name": "gemm", "type": "function"}, "metrics": {"time (ns)": 100}}],
                            "frame": {"name": "ROOT", "type": "function"}, "metrics": {"time (ns)": 0}}])
    put("memory.raw.json", [[-1, 1, 37888, 7], [12, 0, 512, 2], [20, 3, 512, 2]])
    put("rocprof.json", rocprof())
    put("rocm.pftrace", pftrace())
    put("sys.pftrace", pftrace_sys())
    put("synthetic.pftrace", synthetic())
    put("counted.pftrace", counted())
    put("packed.pftrace", packed(pftrace()))
    put("parca.pb", profile([("samples", "count")], [((2, 1), (30,)), ((1,), (10,))], 20_000_000, ("cpu", "nanoseconds")))
    put("micro.pb", profile([("sample", "count"), ("wall", "microseconds")], [((2, 1), (3, 30_000)), ((1,), (1, 10_000))], 10_000,
                            ("wall", "microseconds")))
    put("dashed.pb", profile([("cpu-samples", "count"), ("cpu-time", "nanoseconds"), ("lock-acquire", "count")],
                             [((2, 1), (3, 30_000_000, 1)), ((1,), (1, 10_000_000, 0))], 0, ("", "")))
    put("locks.pb", profile([("contentions", "count")], [((1,), (5,))], 1, ("contentions", "count")))
    for rank in range(4):
        dump = flight(rank, 7 if rank == 2 else 8)
        for one in dump["entries"]:
            del one["frames"]
        if rank % 2:  # as a library sorts its keys, the groups behind the entries
            dump = json.loads(json.dumps(dump, sort_keys=True))
        put(f"hang/nccl_trace_rank_{rank}", dump)
        put(f"old/nccl_trace_rank_{rank}", pickle.dumps(old_flight(rank, 7 if rank == 2 else 8), 2))
        for name, last in (("gloo", 5), ("gloo_late", 4 if rank == 2 else 5)):
            dump = flight(rank, last)
            for one in dump["entries"]:  # of Gloo, which tells no times; all of them are done, or have failed
                one.update(profiling_name="gloo:all_reduce", state="scheduled", retired=True, time_discovered_started_ns=0,
                           time_discovered_completed_ns=0)
            put(f"{name}/nccl_trace_rank_{rank}", dump)
    for rank in range(4, 8):  # rank 5 is stuck outside of collectives: 4 waits for it in a pair, and 6 and 7 for both; in `two` so is 7
        issued = {4: {"1": [-8, 9]}, 5: {"1": [-8]}, 6: {"0": [3], "2": [-8]}, 7: {"0": [3], "2": [-8]}}[rank]
        put(f"chain/_dump_{rank}", pickle.dumps(grouped_flight(rank, issued), 2))
        issued = {4: {"1": [9], "0": [2]}, 5: {"0": [2]}, 6: {"2": [9], "0": [2]}, 7: {"0": [2]}}[rank]
        put(f"two/_dump_{rank}", pickle.dumps(grouped_flight(rank, issued), 2))
        put(f"ahead/_dump_{rank}", pickle.dumps(grouped_flight(rank, {"0": list(range(3, {6: 6, 7: 8}.get(rank, 9)))}), 2))
        # rank 7 has no dump: 6 waits for it, so 4, which waits for 6, waits for 7
        if rank < 7:
            issued = {4: {"3": [9]}, 5: {"1": [-8]}, 6: {"2": [9]}}[rank]
            put(f"dead/_dump_{rank}", pickle.dumps(grouped_flight(rank, issued, {"1": [4, 5], "2": [6, 7], "3": [4, 6]}), 2))
    for rank in (0, 16, 32):  # of a group of every 16th rank, and of one that comes last of many
        put(f"strided/_dump_{rank}", pickle.dumps(grouped_flight(rank, {"0": [1]}, {"0": list(range(0, 1024, 16))}), 2))
    many = sorted((str(i) for i in range(300)), key=fnv)
    for rank in (0, 1):
        issued = {name: [-1, 2] if name == many[-1] and not rank else [-1] for name in many}
        put(f"many/_dump_{rank}", pickle.dumps(grouped_flight(rank, issued, {name: [0, 1] for name in many}), 2))
    for rank, write in enumerate((json.dumps, pickle.dumps)):
        put(f"timed/nccl_trace_rank_{rank}", write(timed_flight(rank)))
    for name, (data, peak, now) in (("grown", expandable(False)), ("trimmed", expandable(True)), ("graphs", graphs()),
                                    ("grown_graphs", expandable(False, graphs=True))):
        put(f"{name}.pickle", pickle.dumps(data))
        put(f"{name}.bytes", f"{len(data['segments'])} {peak} {now}")
    put("snapshot20.pickle", pickle.dumps(old_snapshot()))
    put("hang_cut", json.dumps(flight(0, 8))[:1500])
    put("empty_dump", {"version": "2.9", "pg_config": {}, "pg_status": {}, "entries": []})
    put("plain.et", chakra_without_version())
    old = {"schema": "1.0.1", "pid": 7, "nodes": [
        {"id": 1, "name": "[pytorch|profiler|execution_graph|process]", "parent": 1, "fw_parent": 0},
        {"id": 2, "name": "aten::mm", "parent": 1, "fw_parent": 0}, {"id": 3, "name": "gemm", "parent": 2, "fw_parent": 0}]}
    put("graph101.json", old)
    for node, more in zip(old["nodes"], ({}, {"ts": 100.5, "inclusive_dur": 20}, {"ts": 130, "inclusive_dur": 40, "stream": 7})):
        node.update(more)
    put("linked101.json", old)
    put("storage.et", chakra_storage())
    put("called.et", chakra_called())
    put("sized.json", chakra_sized())
    put("messages.json", jsonized(""))
    put("list.json", jsonized(",\n", ("[\n", "\n]\n")))
    one = {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 5, "dur": 2}]}
    for rank in (3, 5):
        put(f"ranks/rank{rank}/trace.json", one)
        put(f"lora/rank16/host-{'ab'[rank == 5]}.json", one)  # a rank of another kind, that of a matrix
    put("ascend.db", b"SQLite format 3\0" + bytes(84) + b"CREATE TABLE CANN_API" + bytes(3000))  # that of its strings comes far behind
    for name, table in (("memscope_dump.db", "CREATE TABLE memscope_dump"),
                        ("analysis.db", "CREATE TABLE StepTraceTime (step TEXT, communication_not_overlapped NUMERIC)")):
        put(name, b"SQLite format 3\0" + bytes(84) + table.encode() + bytes(3000))
    put("OpBasicInfo.csv", "Op Name,Op Type,Task Duration(us),Block Dim,Device Id,Current Freq,Rated Freq,\ngemm,mix,5.7,1,0,1800,1800,\n")
    put("communication_matrix.json", {"step50": {"p2p": {}, "collective": {"allreduce-top1@17": {"0-1": {"Transit Time(ms)": 2.1}}}}})
    # folders of which nothing can be read say why: of a profile that is read first, settings beside it say less
    put("only_locks/locks.pb", profile([("contentions", "count")], [((1,), (5,))], 1, ("contentions", "count")))
    put("only_locks/config.json", {"a": 1})
    put("only_database/below/ascend.db", b"SQLite format 3\0" + bytes(84) + b"CREATE TABLE STRING_IDS CREATE TABLE CANN_API" + bytes(3000))
    put("only_database/config.json", {"a": 1})
    put("only_empty/below/rank0.json", "")
    put("only_settings/config.json", {"a": 1})
    put("settings/config.json", {"a": 1})
    put("settings/below/rank0.json", one)
    put("host.memory_profile.json", {"memoryProfilePerAllocator": {}, "numHosts": 1, "memoryIds": []})
    put("host.overview_page.pb", field(1, "/host:CPU") * 20)
    put("trainer_state.json", {"best_metric": None, "global_step": 500, "log_history": [{"epoch": 0.1, "loss": 2.5, "step": 10}]})
    put("run-1.wandb", b":W&B\xe1\x00\x00" + bytes(100))
    put("inspector.prom", 'nccl_bus_bandwidth_gbs{version="v5.1",gpu="GPU0",collective="ReduceScatter"} 44.1\n' * 3)


if __name__ == "__main__":
    make(sys.argv[2])
