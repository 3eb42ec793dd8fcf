#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes files that are near relatives of what tacho reads or refuses. usage: kin.py make FOLDER"""
import json, marshal, os, sqlite3, sys

from formats import field
from logs import record, scalar
from versions import rpd


def timeline(names):
    """A timeline of TensorFlow 1: processes by name -> events (name, label, start in us, duration)."""
    events = []
    for pid, (name, rows) in enumerate(names.items()):
        events.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}})
        events += [{"ph": "X", "cat": "Op", "name": op, "pid": pid, "tid": lane, "ts": 1_600_000_000_000_000 + start, "dur": dur,
                    "args": {"name": label, "op": op}} for op, label, lane, start, dur in rows]
    return json.dumps({"traceEvents": events}, indent=4)


def timelines(put):
    """The same call of session.run as the device tracers of TensorFlow 1.15, of 1.12, and one that has no single streams tell it."""
    job = "/job:localhost/replica:0/task:0/device:"
    host = {f"{job}CPU:0 Compute": [("_Arg", "x", 0, 0, 5)], f"{job}CPU:0 Tensors": [],
            f"{job}GPU:0 Compute": [("MatMul", "dense/MatMul", 0, 10, 20), ("Relu", "dense/Relu", 1, 15, 5)], f"{job}GPU:0 Tensors": []}
    label = "dense/MatMul:MatMul#id=207,device=/job:localhost/device:GPU:0,async=false#@@gemm(float const*)"
    put("tf115.json", timeline({
        "Allocators": [], **host, "/gpu:0 (Tesla P4)/context#0/stream#2:MemcpyHtoD Compute": [("unknown", "edge_5_x@@MemcpyHtoD", 0, 20, 10)],
        "/gpu:0 (Tesla P4)/context#0/stream#2:MemcpyHtoD Tensors": [],
        "/device:GPU:0/stream:all Compute": [("MatMul#id=207,device=/job", "dense/MatMul", 0, 40, 50), ("unknown", "edge_5_x@@MemcpyHtoD", 1, 20, 10)],
        "/device:GPU:0/stream:all Tensors": [],
        "/gpu:0 (Tesla P4)/context#0/stream#1 Compute": [("unknown", label, 0, 40, 50)]}))
    put("tf112.json", timeline({
        "Allocators": [], **host, "/device:GPU:1/stream:13 Compute": [("MatMul", "dense/MatMul", 0, 40, 50), ("MEMCPYDtoH", "edge_6", 0, 95, 5)],
        "/device:GPU:1/memcpy Compute": [("MEMCPYDtoH", "edge_6", 0, 95, 5)],
        "/device:GPU:1/stream:all Compute": [("MatMul", "dense/MatMul", 0, 40, 50)]}))
    put("tf_all.json", timeline({
        "Allocators": [], **host, "/gpu:0/memcpy Compute": [("MEMCPYHtoD", "edge_5", 0, 20, 10)],
        "/gpu:0/stream:all Compute": [("MatMul", "dense/MatMul", 0, 40, 50)]}))


def kineto(start_s, **more):
    """Two steps of 10 ms that begin at a time of day."""
    return json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": 1_600_000_000_000_000_000} | more | {"traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{k}", "pid": 7, "tid": 7, "ts": start_s * 1e6 + 1e4 * k, "dur": 1e4}
        for k in range(2)]})


def api(start):
    """A table of rocprofv3 with one call."""
    return ('"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
            f'"HIP_RUNTIME_API_EXT","hipLaunchKernel","7","7","11","{start}","{start + 500}"\n')


def captures(put):
    """Folders of captures that are ranks of one run, and of such that are not."""
    def job(rank, world):
        return {"distributedInfo": {"rank": rank, "world_size": world, "backend": "nccl"}}

    for k, start in enumerate((0, 17, 60)):
        put(f"times/sub/trace_{k}.json", kineto(start))
        put(f"once/trace_{k}.json", kineto(k / 1000))
        put(f"named/rank{k}.json", kineto(start))
        put(f"job/trace_{k}.json", kineto(start, **job(k, 3)))
        put(f"alone/trace_{k}.json", kineto(k / 1000, **job(0, 1)))
        put(f"late/worker{k}.json", kineto(start))
        put(f"late_nodes/node-{'ab'[k // 2]}-gpu{k % 2}.json", kineto(start))
        put(f"late_pids/worker{k + 1}.{1600000000000 + k}.pt.trace.json", kineto(start))
        put(f"alone_named/rank{k}.json", kineto(k / 1000, **job(0, 1)))
        put(f"booted/node{k}_{100 + k}.160000000000{k}.pt.trace.json", kineto(start, baseTimeNanoseconds=10**9))
        put(f"beside/{('extra', 'rank0', 'rank1')[k]}.json", kineto(0 if k == 1 else 60))
        put(f"gaps/gpu{(0, 2, 5)[k]}.json", kineto(start))
    for k in range(2):
        put(f"cycles/rank{k}.json", kineto(60 * k, **job(0, 2)))
    for name, start in (("decode", 10**9), ("prefill", 10**12)):
        put(f"tables/{name}_hip_api_trace.csv", api(start))
        put(f"hosts/{name}/100_hip_api_trace.csv", api(start))
    for pid, start in ((100, 10**9), (110, 10**12), (111, 10**12)):
        put(f"launcher/{pid}_hip_api_trace.csv", api(start))
        if pid > 100:
            put(f"launcher/{pid}_kernel_trace.csv", '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp",'
                f'"End_Timestamp"\n"KERNEL_DISPATCH","1","1","1","gemm","11","{start + 600}","{start + 900}"\n')


def monitor(path):
    """A database of rocmProfileData whose monitor sampled the clocks of two GPUs, and one value that is no number."""
    rpd(path)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE rocpd_monitor(id INTEGER PRIMARY KEY, deviceType TEXT, deviceId INTEGER, monitorType TEXT, start INTEGER, \"end\" INTEGER,"
               " value TEXT)")
    db.executemany("INSERT INTO rocpd_monitor(deviceType, deviceId, monitorType, start, \"end\", value) VALUES ('gpu', ?, 'sclk', ?, ?, ?)",
                   [(gpu, 1000 * k, 1000 * k + 1000, str(500 + 100 * gpu + k)) for k in range(3) for gpu in range(2)] + [(1, 5000, 6000, "N/A")])
    db.commit()
    db.close()


def board(tags, steps, step_s, version=True):
    """An event file: tag -> each how many steps it is logged."""
    out = record(field(1, 1_700_000_000.0) + field(3, "brain.Event:2")) if version else b""
    for step in range(steps):
        for tag, every in tags.items():
            if step % every == 0:
                out += record(field(1, 1_700_000_000.0 + step_s * step) + field(2, step) + field(5, scalar(tag, 2.0)))
    return out


def boards(put):
    put("board_epochs/events.out.tfevents.1.a", board({"train/loss": 1, "val/loss": 1}, 20, 30))
    put("board_named/events.out.tfevents.1.a", board({"loss_epoch": 1}, 20, 0.1))
    put("board_maybe/events.out.tfevents.1.a", board({"loss": 1}, 20, 30))
    put("board_steps/events.out.tfevents.1.a", board({"train/loss": 1, "val/loss": 5}, 20, 30))
    put("board_quick/events.out.tfevents.1.a", board({"loss": 1}, 20, 0.1))
    put("board_boost/events.out.tfevents", board({"RMSE": 1}, 20, 0.1, version=False))
    again = board({"loss": 1}, 20, 0.1)
    put("board_again/events.out.tfevents.1.a", again)
    put("board_again/events.out.tfevents.2.a", board({"loss": 1}, 20, 30))


def empty(put):
    """What torch.profiler writes where nothing ran."""
    mark = {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 5}
    names = [{"name": "thread_name", "ph": "M", "ts": 0, "pid": 7, "tid": 7, "args": {"name": "thread"}}]
    spans = [{"ph": "X", "cat": "Trace", "ts": 1, "dur": 9, "pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)"},
             {"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "cat": "Trace", "pid": "Traces", "tid": "Trace", "ts": 1}]
    put("nothing.json", json.dumps({"schemaVersion": 1, "traceEvents": names + [mark]}))
    put("spans.json", json.dumps({"schemaVersion": 1, "traceEvents": names + spans + [mark]}))
    put("half/a.json", kineto(0))
    put("half/b.json", json.dumps({"schemaVersion": 1, "traceEvents": names + [mark]}))


def others(put, folder):
    """Files of producers that tacho cannot read, and those that differ from them in a byte."""
    stats = marshal.dumps({("~", 0, "f"): (1, 1, 0.5, 0.5, {})})
    for name, first, second in (("ref.prof", 0xfb, 0xa9), ("shared.prof", 0xfb, 0x29), ("plain.pstats", 0x7b, 0x29), ("flat.out", 0x7b, 0xa9)):
        put(name, bytes((first, second)) + stats[2:])
    put("dump.prof", stats)
    db = sqlite3.connect(f"{folder}/dldb.sqlite")
    db.executescript("CREATE TABLE read_only_system_config(id INTEGER, dlprof_version TEXT); CREATE TABLE read_only_ops(id INTEGER);")
    db.close()
    sums = "Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble"
    put("cluster_step_trace_time.csv", f"Step,Type,Index,{sums}\n,rank,0,8.5,7.5,1.5,9,1,5,0\n")
    put("step_trace_time.csv", f"Device_id,Step,{sums}\n0,1,8.5,7.5,1.5,9,1,5,0\n")
    put("plugin.jsonl", json.dumps({"type": "ProfilerLifecycle", "func": "ProfilerInit", "commId": 7, "rank": 3}) + "\n")
    put("switch.jsonl", json.dumps({"ts": 5, "cpu": 7, "prev_comm": "a", "next_comm": "b"}) + "\n")
    put("probes.json", '{"type": "attached_probes", "data": {"probes": 1}}\n')


# beginning of a file -> what it is: versions and settings beside the usual one
RELATIVES = (
    (b"PERFFILE", "a recording of Linux perf"), (b"2ELIFREP", "a recording of Linux perf"), (b"PK\5\6", "an empty zip archive"),
    (b"PK\7\x08", "a zip archive in several parts"), (b"7z\xbc\xaf'\x1c", "a 7z archive"), (b"Rar!\x1a\7\0", "a RAR archive"),
    (b"\x50\x2a\x4d\x18", "zstd data"), (b"\x02\x21\x4c\x18", "LZ4 data"), (b"\xcf\xfa\xed\xfe", "a program of macOS"), (b"MZ\x90\0", "a program of Windows"),
    (b"\xff\xd8\xff\xe0", "a picture"), (b"GIF89a", "a picture"), (b"PARE", "an encrypted Parquet file"), (b"FEA1", "a Feather file"),
    (b"<!doctype html>", "an HTML page"), (b"<HTML>", "an HTML page"), (b"<?xml version='1.0'?><Error>", "an XML file"),
    (b"<?xml version='1.0'?><!DOCTYPE nvidia_smi_log>", "a log of nvidia-smi"), (b"| NVIDIA-SMI 535.0  Driver Version: 535 |\n", "a log of nvidia-smi"),
    (b"# gpu    pwr  gtemp\n# Idx      W      C\n    0     61     42\n", "a log of nvidia-smi"),
    (b"Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n", "a table that nsys stats printed"),
    (b"==1== NVPROF is profiling process 1\n==1== Profiling result:\n", "a table that nvprof printed"),
    (b'"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n', "a table of single kernels of Nsight Compute"),
    (b'{"version":"0.0.1","profiles":[{"type":"evented","events":[{"type":"O"}]}],"shared":{"frames":[]}}', "a speedscope profile"),
    (b"heap_v2/524288\n t*: 1: 2\n", "a heap profile of jemalloc"), (b"memray\0", "a recording of memray"), (b"MOJ\3", "a recording of Austin"),
    (b"\x80\x04\x95\0\0\0\0\0\0\0\0\x8c\x1bline_profiler._line_profiler\x94\x8c\tLineStats\x94\x93", "a profile of line_profiler"),
    (b'\x36\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', "the weights of a model (safetensors)"),
    (b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\2M\xe9\3.", "a checkpoint of PyTorch"),
    (b"module @jit_f attributes {mhlo.num_partitions = 1 : i32} {\n", "the text of an XLA program"), (b"a;b 1\r\na;c 2\r\n", "a list of folded stacks"))


def make(folder):
    def put(name, data):
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        with open(f"{folder}/{name}", "wb") as f:
            f.write(data.encode() if isinstance(data, str) else data)

    timelines(put)
    captures(put)
    boards(put)
    empty(put)
    others(put, folder)
    for k, (begins, _) in enumerate(RELATIVES):
        put(f"relative_{k}", begins if begins.isascii() and begins[-1:] in b"\n>}" else begins + bytes(64))
    put("relatives", "".join(f"{k}\t{what}\n" for k, (_, what) in enumerate(RELATIVES)))
    monitor(f"{folder}/monitor.rpd")


if __name__ == "__main__":
    make(sys.argv[2])
