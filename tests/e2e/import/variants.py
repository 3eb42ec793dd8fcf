#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes files that producers write in another order, with other units, or with less in them than usual. usage: variants.py make FOLDER"""
import gzip, json, os, sys

from formats import Plane, field, flight, varint
from logs import record, scalar
from profiles import event, packet
from versions import LEVEL0, profile

DAY_US = 1_700_000_000_000_000  # us since 1970


def mixed_axes():
    """A loss of each step of 1 s whose name holds "val", the same by samples, and one of validation by epoch."""
    out = record(field(1, 1_700_000_000.0) + field(3, "brain.Event:2"))
    for step in range(1, 301):
        out += record(field(1, 1_700_000_000.0 + step) + field(2, step) + field(5, scalar("train/interval_loss", 2.0)))
        out += record(field(1, 1_700_000_000.1 + step) + field(2, 64 * step) + field(5, scalar("train/loss vs samples", 2.0)))
        if step % 100 == 0:
            out += record(field(1, 1_700_000_000.5 + step) + field(2, step // 100 - 1) + field(5, scalar("Loss/val", 3.0)))
    return out


def marked_steps():
    """A profile of XLA on the CPU as XPlane and as JSON: steps of 10 ms that the program marks, each with a call that waits for its operation."""
    marks = [("train", 10_000 * k, 9_000, {"step_num": k}) for k in range(8)]
    calls = [("PjitFunction(train_step)", 10_000 * k + 100, 8_000, {}) for k in range(8)]
    operations = [("dot.1", 10_000 * k + 500, 7_000, {"hlo_op": "dot.1", "hlo_module": "jit_train_step"}) for k in range(8)]
    lines = {7: ("python", sorted(marks + calls, key=lambda event: event[1])), 8: ("tf_XLAEigen/8", operations)}
    plane = Plane("/host:CPU")
    events = [{"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}}]
    for tid, (name, line) in lines.items():
        plane.line(tid, name, 0, [(text, start * 10**6, dur * 10**6, own, {}) for text, start, dur, own in line])
        events.append({"ph": "M", "pid": 701, "tid": tid, "name": "thread_name", "args": {"name": name}})
        events += [{"ph": "X", "pid": 701, "tid": tid, "ts": start, "dur": dur, "name": text, "args": {k: str(v) for k, v in own.items()}}
                   for text, start, dur, own in line]
    return plane.bytes(), json.dumps({"displayTimeUnit": "ns", "traceEvents": events})


def chakra_json():
    """Starts that are times of day, in us with fractions, and names with escapes."""
    node = {"ctrl_deps": [], "data_deps": [], "exclusive_dur": 50, "is_cpu_op": False, "inputs": {"values": []}, "outputs": {"values": []}}
    return json.dumps({"schema": "1.0.2-chakra.0.0.4", "nodes": [
        {**node, "id": k + 1, "name": name, "ts": DAY_US + at, "inclusive_dur": 50.25}
        for k, (name, at) in enumerate((('gemm "a"', 0.001), ("add é", 5000), ("mul", 9000)))]})


def chakra_et():
    """Messages with times of day; communication without a duration, as a simulator's input has it."""
    def message(body):
        return varint(len(body)) + body

    return message(field(1, "0.0.4")) + b"".join(
        message(field(1, k) + field(2, name) + field(3, kind) + field(6, DAY_US + 5000 * k) + (field(7, dur) if dur else b"") +
                field(10, field(1, "is_cpu_op") + field(27, 0)))
        for k, (name, kind, dur) in enumerate((("gemm", 4, 100), ("all-reduce", 7, 0), ("gemm", 4, 100)), 1))


def reordered(data, order):
    """The fields of a message, those of the given numbers first."""
    parts, at = [], 0
    while at < len(data):
        begin, tag, shift = at, data[at], 0
        at += 1
        length = 0
        while True:
            length |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                break
        at += length if tag & 7 == 2 else 0
        parts.append((tag >> 3, data[begin:at]))
    return b"".join(part for number in order for key, part in parts if key == number) + \
        b"".join(part for key, part in parts if key not in order)


def two_clocks():
    """A clock that one writer tells of and another one uses (from 128 on they belong to all), and a text that was interned."""
    out = packet(field(10, 2) + field(6, field(1, field(1, 6) + field(2, 1_000_000)) + field(1, field(1, 128) + field(2, 0))))
    one = field(10, 1)
    out += packet(one + field(13, 1) + field(60, field(1, 11) + field(4, field(1, 5) + field(2, 6) + field(5, "main"))) +
                  field(12, field(29, field(1, 7) + field(2, "forward"))))
    out += packet(one + field(58, 128) + field(8, 500) + field(11, event(1, 11, "mm", "cpu_op", field(4, field(10, "Call stack") + field(17, 7)))))
    return out + packet(one + field(58, 128) + field(8, 1500) + field(11, event(2, 11)))


def unknown_clock():
    one = field(10, 1)
    return packet(one + field(13, 1) + field(58, 128) + field(8, 500) + field(11, event(1, 11, "mm"))) + \
        packet(one + field(58, 128) + field(8, 900) + field(11, event(2, 11)))


def rocprof_json():
    """A kernel and a range whose names have escapes."""
    return '{"rocprofiler-sdk-tool":[' + json.dumps({
        "metadata": {"pid": 5, "node": {"hostname": "n"}},
        "agents": [{"id": {"handle": 9}, "type": 2, "logical_node_type_id": 0, "cu_count": 4, "product_name": "MI"}],
        "strings": {"buffer_records": [{"kind": "NONE", "operations": []}, {"kind": "KERNEL_DISPATCH", "operations": ["NONE"]}], "marker_api": []},
        "kernel_symbols": [{"kernel_id": 1, "formatted_kernel_name": 'gemm<"é">.kd'}],
        "buffer_records": {"kernel_dispatch": [{
            "start_timestamp": 5, "end_timestamp": 9, "correlation_id": {"internal": 3},
            "dispatch_info": {"agent_id": {"handle": 9}, "queue_id": {"handle": 1}, "kernel_id": 1, "grid_size": {"x": 64, "y": 1, "z": 1},
                              "workgroup_size": {"x": 64, "y": 1, "z": 1}}}]}}) + "]}"


def make(folder):
    def put(name, data):
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        with open(f"{folder}/{name}", "wb") as f:
            f.write(data.encode() if isinstance(data, str) else data)

    put("events.out.tfevents.1.mixed", mixed_axes())
    for name, data in zip(("marked.xplane.pb", "marked.trace.json"), marked_steps()):
        put(name, data)
    put("linked.json", chakra_json())
    put("day.et", chakra_et())
    # rbspy: times alone, without a period; 500 stacks of 1 ms and one of 12 ms
    wall = [((1,), (1_000_000,))] * 500 + [((2,), (12_000_000,))]
    put("wall.pb", profile([("wall", "nanoseconds")], wall, 0, ("", "")))
    # a period of 10 ms, and stacks of less: 100 of 3 ms are 30 samples
    put("short.pb", profile([("cpu", "nanoseconds")], [((1,), (3_000_000,))] * 100, 10_000_000, ("cpu", "nanoseconds")))
    put("absurd.pb", profile([("samples", "count"), ("cpu", "nanoseconds")], [((1,), (2**63 - 1, 5))], 10_000_000, ("cpu", "nanoseconds")))
    usual = profile([("samples", "count"), ("cpu", "nanoseconds")], [((1,), (3, 30_000_000))] * 9, 10_000_000, ("cpu", "nanoseconds"))
    put("datadog.pb", reordered(usual, (2, 1)))
    put("go.pb", reordered(field(9, 1_700_000_000_000_000_000) + usual, (9, 1, 10, 11, 12)))
    put("locks.pb", reordered(profile([("delay", "nanoseconds")], [((1,), (5,))], 1, ("contentions", "count")), (11, 12, 1)))
    put("gperftools.prof", bytes(8) + b"\3" + bytes(7) + bytes(8) + bytes(80))
    put("heap.prof", "heap profile:    1: 4096 [    1: 4096] @ heap/1\n")
    put("renamed_kernel_trace.csv", '"Kind","Agent_Id","Queue_Id","Thread_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n' +
        "".join(f'"KERNEL_DISPATCH","Agent 4","1","7","16","{name}","{k}","{1000 * k}","{1000 * k + 500}"\n'
                for k, name in enumerate(("forward", "backward"), 1)))
    put("timestamps.csv", "Dispatch_ID,Kernel_Name,GPU_ID,queue-id,pid,tid,Grid_Size,Workgroup_Size,DispatchNs,Start_Timestamp,End_Timestamp,CompleteNs\n"
        + "".join(f'{k},"copy(double*) [clone .kd]",2,0,9,9,64,64,1,{1000 + 1000 * k},{1500 + 1000 * k},9000\n' for k in range(3)))
    put("escapes.json", rocprof_json())
    put("two_clocks.pftrace", two_clocks())
    put("unknown_clock.pftrace", unknown_clock())
    put("requests.json", json.dumps([{"id": 1, "timestamps": [{"name": "REQUEST_START", "ns": 5}]}]))
    head = {"header": {"id": "0x7", "rank": 0, "n_ranks": 2, "nnodes": 1}, "metadata": {
        "inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "profiler_plugin", "hostname": "n", "pid": 7,
        "dump_timestamp_us": DAY_US + 10**6}, "coll_perf": {"coll": "AllReduce", "coll_sn": 1, "coll_msg_size_bytes": 1 << 20,
                                                           "coll_exec_time_us": 100, "coll_busbw_gbs": 1.5}}
    put("inspector.log", json.dumps(head).replace("1048576", "1.048576e+06") + "\n" + json.dumps(head) + "\n")
    # export_memory_timeline: sums of categories by time, events in ns, a picture
    sums = json.dumps([[1796067374573485, 1796067374573571], [[0, 512], [0, 1024]]]).encode()
    put("memory.json", sums)
    put("memory.json.gz", gzip.compress(sums))
    put("memory.raw.json.gz", gzip.compress(b"[[1796067374573485096, 2, 262144, 0], [1796067374573571394, 2, 1024, 0]]"))
    put("memory.html", '<html>\n<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>\n<body>\n'
        "  <img src='data:image/png;base64,iVBORw0KGgo='>\n</body>\n</html>")
    # a byte order mark in front, as editors write it
    mark = b"\xef\xbb\xbf"
    put("mark/kernel_details.csv", mark + LEVEL0.encode())
    put("mark/nccl_trace_rank_0.json", mark + json.dumps(flight(0, 11)).encode())


if __name__ == "__main__":
    make(sys.argv[2])
