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
    return json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": 1_600_000_000_000_000_000, **more, "traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{k}", "pid": 7, "tid": 7, "ts": start_s * 1e6 + 1e4 * k, "dur": 1e4}
        for k in range(2)]})


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
    for name, start in (("decode", 10**9), ("prefill", 10**12)):
        put(f"tables/{name}_hip_api_trace.csv", '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
            f'"HIP_RUNTIME_API_EXT","hipLaunchKernel","7","7","11","{start}","{start + 500}"\n')


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
    monitor(f"{folder}/monitor.rpd")


if __name__ == "__main__":
    make(sys.argv[2])
