#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes files of other producers, and compares what tacho read of shared ones with what Python reads of them.
usage: formats.py make FOLDER | xplane FILE RUN | rocprof FILE RUN | ascend REPORT RUN | snapshot FILE REPORT"""
import gzip, io, json, os, pickle, sqlite3, struct, sys


def opened(path):
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")


def rows(run, sql):
    db = sqlite3.connect(f"file:{run}?mode=ro", uri=True)
    return db.execute(sql).fetchall()


def same(what, own, theirs):
    if own != theirs:
        differ = sorted(set(own) ^ set(theirs))[:3] if isinstance(own, dict) else ""
        sys.exit(f"{what}: {str(own)[:300]} is not {str(theirs)[:300]} {differ}")


# ---- protocol buffers -----------------------------------------------------------------------------------------------------------


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while True:
        out += bytes([value & 127 | (128 if value > 127 else 0)])
        value >>= 7
        if not value:
            return out


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data):
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 2:
            length = number()
            yield key >> 3, data[at:at + length]
            at += length
        else:
            size = 8 if key & 7 == 1 else 4
            yield key >> 3, data[at:at + size]
            at += size


class Plane:
    """Encodes an XPlane: names are given ids as they come."""

    def __init__(self, name):
        self.out, self.events, self.stats = field(2, name), {}, {}

    def stat(self, name, value):
        known = self.stats.setdefault(name, len(self.stats) + 1)
        kind = 4 if isinstance(value, int) else 5
        return field(1, known) + field(kind, value)

    def line(self, number, name, time, events):
        line = field(1, number) + field(2, name) + field(3, time)
        for name, start, dur, own, meta in events:
            known = self.events.setdefault(name, [len(self.events) + 1, meta])
            event = field(1, known[0]) + field(2, start) + field(3, dur)
            line += field(4, event + b"".join(field(4, self.stat(k, v)) for k, v in own.items()))
        self.out += field(3, line)

    def bytes(self):
        out = self.out
        for name, (number, meta) in self.events.items():
            full, short = name if isinstance(name, tuple) else (name, "")
            body = field(1, number) + field(2, full) + (field(4, short) if short else b"")
            body += b"".join(field(5, self.stat(k, v)) for k, v in meta.items())
            out += field(4, field(1, number) + field(2, body))
        for name, number in self.stats.items():
            out += field(5, field(1, number) + field(2, field(1, number) + field(2, name)))
        return field(1, out)


def tpu():
    """Two cores, four steps of 1000 us: 600 us of matrix work in a loop, 200 us of exposed all-reduce."""
    out = b""
    for core in range(2):
        plane, ops, modules, steps = Plane(f"/device:TPU:{core}"), [], [], []
        for step in range(4):
            at = step * 1_000_000_000
            work = {"hlo_category": "convolution fusion", "flops": 10**12, "bytes_accessed": 10**9}
            ops += [(("%while.1 = (...) while(...)", "while.1"), at, 600_000_000, {}, {"hlo_category": "while"})]
            ops += [(("%fusion.7 = f32[] fusion(...)", "fusion.7"), at + 200_000_000 * i, 200_000_000, {}, work)
                    for i in range(3)]
            ops += [(("%all-reduce.3 = f32[] all-reduce(...)", "all-reduce.3"), at + 600_000_000, 200_000_000, {},
                     {"hlo_category": "all-reduce"})]
            modules += [("jit_train_step(17)", at, 800_000_000, {}, {})]
            steps += [(str(step + 5), at, 1_000_000_000, {}, {})]
        plane.line(1, "XLA Modules", 1_700_000_000_000_000_000, modules)
        plane.line(2, "XLA Ops", 1_700_000_000_000_000_000, ops)
        plane.line(3, "Steps", 1_700_000_000_000_000_000, steps)
        out += plane.bytes()
    host = Plane("/host:CPU")
    host.line(7, "python", 1_700_000_000_000_000_000,
              [("$train.py:12 step", i * 1_000_000_000, 100_000_000, {}, {}) for i in range(4)])
    return out + host.bytes() + field(4, "pod-3")


def offload():
    """Two cores, 24 steps of 1000 us on average: 200 us of compute, then the core waits for a copy from the host and for one to it. By
    turns the first copy takes 550 us on one core and 450 us on the other, so that both have run as long after every second step. Only of
    the first core the copies themselves are there."""
    array, host = "f32[5,1024]{1,0:T(8,128)}", "f32[5,1024]{1,0:T(8,128)S(5)}"

    def begin(number, to, source):
        return (f"%copy-start.{number} = ({to}, {source}, u32[]{{:S(2)}}) copy-start({source} %p)", f"copy-start.{number}")

    def done(number, to, source):
        return (f"%copy-done.{number} = {to} copy-done(({to}, {source}, u32[]{{:S(2)}}) %copy-start.{number})", f"copy-done.{number}")
    out = b""
    for core in range(2):
        plane, ops, copies, modules = Plane(f"/device:TPU:{core}"), [], [], []
        at = 0
        for step in range(24):
            begins = at
            ops += [(("%add.1 = f32[] fusion(...)", "add.1"), at, 200_000_000, {}, {"hlo_category": "loop fusion", "flops": 10})]
            at += 200_000_000
            first = 550_000_000 if step % 2 == core else 450_000_000
            for number, to, source, lasts in ((1, array, host, first), (2, host, array, 300_000_000)):
                bytes_ = {"bytes_accessed": 20480}
                ops += [(begin(number, to, source), at, 2_000, {}, {"hlo_category": "copy-start", **bytes_}),
                        (done(number, to, source), at + 2_000, lasts - 2_000, {}, {"hlo_category": "copy-done", **bytes_})]
                name = (begin(number, to, source)[0], f"async-copy.{number}")
                copies += [(name, at, lasts, {}, {"hlo_category": "copy-start", **bytes_})]
                at += lasts
            modules += [("jit_f(17)", begins, at - begins, {}, {})]
        plane.line(1, "XLA Modules", 1_700_000_000_000_000_000, modules)
        plane.line(2, "XLA Ops", 1_700_000_000_000_000_000, ops)
        if not core:
            plane.line(3, "Async XLA Ops", 1_700_000_000_000_000_000, copies)
        out += plane.bytes()
    caller = Plane("/host:CPU")
    caller.line(7, "python", 1_700_000_000_000_000_000,
                [("PjitFunction(f)", i * 1_000_000_000, 100_000_000, {}, {}) for i in range(24)])
    return out + caller.bytes() + field(4, "pod-3")


# ---- PyTorch --------------------------------------------------------------------------------------------------------------------


class Allocator:
    """A history whose segments are those of blocks that never fit what is free: it fragments."""

    def __init__(self):
        self.trace, self.at, self.time = [], 0x7f0000000000, 1_700_000_000_000_000

    def put(self, action, addr, size, name="step"):
        self.time += 10
        frames = [{"name": name, "filename": "/srv/me/train.py", "line": 30 + len(name)}]
        self.trace.append({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": self.time, "frames": frames})

    def alloc(self, size, name="step"):
        room = -(-size // (2 << 20)) * (2 << 20)
        self.at += 1 << 32
        self.put("segment_alloc", self.at, room, name)
        self.put("alloc", self.at, size, name)
        return self.at

    def free(self, addr, size):
        self.put("free_requested", addr, size)
        self.put("free_completed", addr, size)


def growing_sequence():
    """Longer batches each time: every one needs a new segment, and the freed ones are too small. The last request fails."""
    own = Allocator()
    for step in range(24):
        size = (20 + 2 * step) << 20
        own.free(own.alloc(size), size)
    own.put("oom", 0, 100 << 20)
    own.trace[-1]["device_free"] = 10 << 20
    segments = [{"device": 0, "address": e["addr"], "total_size": e["size"], "allocated_size": 0, "active_size": 0,
                 "requested_size": 0, "stream": 0, "segment_type": "large", "is_expandable": False,
                 "blocks": [{"address": e["addr"], "size": e["size"], "requested_size": 0, "state": "inactive", "frames": []}]}
                for e in own.trace if e["action"] == "segment_alloc"]
    return {"segments": segments, "device_traces": [[], own.trace][1:], "allocator_settings": {"max_split_size": -1},
            "external_annotations": []}


def leaking():
    """Every step keeps 2 MiB at train.py:cache, and gives back the rest."""
    own = Allocator()
    held = []
    for _ in range(40):
        held.append(own.alloc(2 << 20, "cache"))
        own.free(own.alloc(30 << 20, "forward"), 30 << 20)
    segments = [{"device": 0, "address": at, "total_size": 2 << 20, "allocated_size": 2 << 20, "active_size": 2 << 20,
                 "requested_size": 2 << 20, "stream": 0, "segment_type": "large",
                 "blocks": [{"size": 2 << 20, "requested_size": 2 << 20, "state": "active_allocated", "frames": []}]}
                for at in held]
    return {"segments": segments, "device_traces": [own.trace]}


def flight(rank, last, names=("all_reduce",)):
    entries = []
    for number in range(12):
        if number > last:
            break
        done = number < last or last == 11
        entries.append({"record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number,
                        "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:" + names[number % len(names)],
                        "time_created_ns": 1_700_000_000_000_000_000 + number * 1_000_000,
                        "time_discovered_started_ns": 1_700_000_000_000_000_100 + number * 1_000_000,
                        "time_discovered_completed_ns": 1_700_000_000_000_500_000 + number * 1_000_000 if done else None,
                        "input_sizes": [[4, 1024]], "input_dtypes": ["BFloat16"], "output_sizes": [[4, 1024]],
                        "output_dtypes": ["BFloat16"], "state": "completed" if done else "scheduled", "is_p2p": False,
                        "frames": [{"name": "train", "filename": "/srv/me/ddp.py", "line": 77}]})
    return {"version": "2.5", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
            "entries": entries}


class Runs:
    def __reduce__(self):
        return os.system, ("touch was-run",)


def hostile(folder):
    with open(f"{folder}/system.pickle", "wb") as f:
        pickle.dump({"segments": [Runs()]}, f)
    bomb = b"\x80\x04]\x94" + b"".join(b"]\x94(" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"e" for i in range(60)) + b"."
    open(f"{folder}/bomb.pickle", "wb").write(bomb)
    open(f"{folder}/long.pickle", "wb").write(b"\x80\x04}\x94\x8d" + struct.pack("<Q", 10 << 30) + b"abc")
    open(f"{folder}/deep.pickle", "wb").write(b"\x80\x04" + b"(" * 300000 + b".")
    open(f"{folder}/gap.pickle", "wb").write(b"\x80\x02}r\xff\xff\xff\xff.")
    open(f"{folder}/other.pickle", "wb").write(pickle.dumps({"weights": [1.5, 2, None, True, (1, 2, 3)]}))


# ---- AMD, Ascend ----------------------------------------------------------------------------------------------------------------


def rocpd(path, tracks):
    """A rocpd database of three kernels, a copy, a launch and a ROCTX range, in the older or the newer layout."""
    if os.path.exists(path):
        os.remove(path)
    db, suffix = sqlite3.connect(path), "_0001"
    when = "track_id, start_id, end_id" if tracks else 'agent_id, queue_id, start, "end"'
    db.executescript(f"""
        PRAGMA page_size=512;
        CREATE TABLE "rocpd_string{suffix}"(id INTEGER PRIMARY KEY, string TEXT);
        CREATE TABLE "rocpd_info_node{suffix}"(id INTEGER PRIMARY KEY, hostname TEXT);
        CREATE TABLE "rocpd_info_process{suffix}"(id INTEGER PRIMARY KEY, nid INTEGER, pid INTEGER);
        CREATE TABLE "rocpd_info_thread{suffix}"(id INTEGER PRIMARY KEY, tid INTEGER);
        CREATE TABLE "rocpd_info_agent{suffix}"(id INTEGER PRIMARY KEY, type TEXT, type_index INTEGER, product_name TEXT, name TEXT);
        CREATE TABLE "rocpd_info_kernel_symbol{suffix}"(id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT);
        CREATE TABLE "rocpd_event{suffix}"(id INTEGER PRIMARY KEY, category_id INTEGER, stack_id INTEGER, extdata TEXT);
        CREATE TABLE "rocpd_track{suffix}"(id INTEGER PRIMARY KEY, tid INTEGER, agent_id INTEGER, queue_id INTEGER);
        CREATE TABLE "rocpd_timestamp{suffix}"(id INTEGER PRIMARY KEY, value INTEGER);
        CREATE TABLE "rocpd_region{suffix}"(id INTEGER PRIMARY KEY, {"track_id, start_id, end_id" if tracks else 'tid, start, "end"'}, name_id, event_id);
        CREATE TABLE "rocpd_kernel_dispatch{suffix}"(id INTEGER PRIMARY KEY, {when}, kernel_id, event_id, group_segment_size,
            workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z);
        CREATE TABLE "rocpd_memory_copy{suffix}"(id INTEGER PRIMARY KEY, {"start_id, end_id" if tracks else 'start, "end"'},
            dst_agent_id, src_agent_id, name_id, event_id, size);
        INSERT INTO "rocpd_string{suffix}" VALUES (1, 'HIP_RUNTIME_API'), (2, 'hipLaunchKernel'), (3, 'MARKER_CORE_RANGE_API'),
            (4, 'roctxThreadRangeA'), (5, 'MEMORY_COPY_HOST_TO_DEVICE'), (6, 'KERNEL_DISPATCH');
        INSERT INTO "rocpd_info_node{suffix}" VALUES (1, 'node7');
        INSERT INTO "rocpd_info_process{suffix}" VALUES (1, 1, 4242);
        INSERT INTO "rocpd_info_thread{suffix}" VALUES (1, 4243);
        INSERT INTO "rocpd_info_agent{suffix}" VALUES (1, 'CPU', 0, 'EPYC', ''), (2, 'GPU', 3, 'AMD Instinct MI300X', 'gfx942');
        INSERT INTO "rocpd_info_kernel_symbol{suffix}" VALUES (9, '_Z4gemm.kd', 'gemm(float*)');
        INSERT INTO "rocpd_event{suffix}" VALUES (1, 1, 11, '{{}}'), (2, 3, 12, '{{"message": "step 5"}}'), (3, 6, 11, '{{}}'), (4, 6, 13, '{{}}');
    """)
    times = []

    def time(value):
        times.append(value)
        db.execute(f'INSERT INTO "rocpd_timestamp{suffix}" VALUES (?, ?)', (len(times), value))
        return len(times) if tracks else value

    if tracks:
        db.execute(f'INSERT INTO "rocpd_track{suffix}" VALUES (1, 1, NULL, NULL), (2, NULL, 2, 6)')
    for number, (name, event, start, end) in enumerate([(2, 1, 1000, 1500), (4, 2, 900, 9000)]):
        db.execute(f'INSERT INTO "rocpd_region{suffix}" VALUES (?, ?, ?, ?, ?, ?)', (number, 1, time(start), time(end), name, event))
    for number, (start, end) in enumerate([(2000, 3000), (3000, 3500), (6000, 8000)]):
        place = (2, time(start), time(end)) if tracks else (2, 6, start, end)
        db.execute(f'INSERT INTO "rocpd_kernel_dispatch{suffix}" VALUES (?{", ?" * (len(place) + 9)})',
                   (number, *place, 9, 3 if number == 0 else 4, 512, 256, 1, 1, 1024, 1, 1))
    db.execute(f'INSERT INTO "rocpd_memory_copy{suffix}" VALUES (1, ?, ?, 2, 1, 5, 4, 4096)', (time(3600), time(4000)))
    db.commit()
    db.close()


def ascend():
    """Two steps of an NPU: 300 us of kernels, 200 us of all-reduce of which 100 us are covered."""
    events = [{"ph": "M", "name": "process_name", "pid": p, "tid": 0, "args": {"name": n}}
              for p, n in ((10, "Python"), (1000, "CANN"), (3, "Ascend Hardware"), (4, "HCCL"), (5, "Overlap Analysis"))]
    events += [{"ph": "M", "name": "thread_name", "pid": 4, "tid": t, "args": {"name": n}}
               for t, n in ((1, "Group 0 Communication"), (2, "Plane 0"))]
    events += [{"ph": "M", "name": "process_labels", "pid": 3, "tid": 0, "args": {"labels": "NPU 5"}}]

    def put(name, pid, tid, ts, dur, **args):
        events.append({"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": f"{1704161511420000 + ts}.000", "dur": dur, "args": args})

    for step in range(2):
        at = 1000 * step
        put(f"ProfilerStep#{step}", 10, 10, at, 1000)
        events[-1]["cat"] = "cpu_op"
        put("AscendCL@aclnnMatmul", 1000, 10, at + 10, 20, connection_id=99)
        events.append({"ph": "s", "cat": "HostToDevice", "name": "HostToDevice", "id": str((7 + step) << 32 | 0xffffffff), "pid": 1000,
                       "tid": 10, "ts": f"{1704161511420000 + at + 15}.000"})
        put("aclnnMatmul_MatMulV2", 3, 2, at + 100, 300, **{"Task Type": "AI_CORE", "connection_id": 7 + step})
        put("EVENT_WAIT", 3, 2, at + 400, 50, **{"Task Type": "EVENT_WAIT"})
        put("hcom_allReduce__123_0_1", 4, 1, at + 300, 200)
        put("Notify_Wait", 4, 2, at + 300, 200)
        for name, tid, start, dur in (("Computing", 0, 100, 300), ("Communication", 1, 300, 200),
                                      ("Communication(Not Overlapped)", 2, 400, 100), ("Free", 3, 0, 100)):
            put(name, 5, tid, at + start, dur)
    return events


# ---- the files ------------------------------------------------------------------------------------------------------------------


def make(folder):
    os.makedirs(folder, exist_ok=True)

    def put(name, data):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        data = data if isinstance(data, (bytes, str)) else json.dumps(data)
        open(path, "wb").write(data.encode() if isinstance(data, str) else data)

    put("tpu.xplane.pb", tpu())
    put("offload.xplane.pb", offload())
    put("text.xplane.pb", tpu().decode("utf-8", "replace"))
    for protocol in (2, 3, 4, 5):
        put(f"oom{protocol}.pickle", pickle.dumps(growing_sequence(), protocol))
    put("leak.pickle", pickle.dumps(leaking()))
    for rank, last in enumerate((11, 11, 7, 11)):
        put(f"done/nccl_trace_rank_{rank}", pickle.dumps(flight(rank, 11)))
        put(f"hang/nccl_trace_rank_{rank}", pickle.dumps(flight(rank, 8 if rank != 2 else 7 - 0)))
        put(f"order/nccl_trace_rank_{rank}", pickle.dumps(flight(rank, 8, ("all_reduce", "broadcast") if rank != 1 else ("broadcast", "all_reduce"))))
    for rank in (0, 1, 3):
        put(f"absent/nccl_trace_rank_{rank}", pickle.dumps(flight(rank, 8), 2))
    timeless = flight(0, 11)
    del timeless["entries"][3]["time_created_ns"], timeless["entries"][3]["time_discovered_started_ns"]
    put("timeless/nccl_trace_rank_0", pickle.dumps(timeless))
    quoted = flight(0, 11)
    quoted["entries"][3].update(state='a"b\\\n', process_group=('c"d\u00e9', ""))
    put("quoted/nccl_trace_rank_0", pickle.dumps(quoted))
    hostile(folder)
    rocpd(f"{folder}/old_results.db", False)
    rocpd(f"{folder}/new_results.db", True)
    put("trace_view.json", ascend())
    put("async.json", {"traceEvents": [{"ph": p, "cat": "x", "id": 1, "name": "a", "pid": 1, "tid": 1, "ts": 5} for p in "be"]})
    put("empty.json", {"traceEvents": []})
    put("names.json", {"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]})
    put("nodes.json", {"schema": "1.1.1-chakra.0.0.4", "nodes": [{"id": 1, "name": "aten::add", "ctrl_deps": 0}]})
    put("speedscope.json", {"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": []})
    put("samples.json", '[{"args":{"line":8},"cat":"py-spy","name":"load","ph":"B","pid":4616,"tid":1,"ts":73754}]')
    put("flame.svg", '<?xml version="1.0"?><svg version="1.1"><!--Flame graph stack visualization. See https://github.com/brendangregg/FlameGraph--></svg>')
    put("stacks.txt", "<module> (t.py:8) 2\n<module> (t.py:8);compute (t.py:7) 244\n")
    put("perf.data", b"PERFILE2" + bytes(64))
    put("lfs.json.gz", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n")
    put("stats.csv", '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"k",1,5,5,100\n')
    put("a.zip", b"PK\3\4" + bytes(60))
    one = {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 5, "dur": 2}]}
    put("deep/run/rank0/trace.json", one)
    put("deep/run/rank1/trace.json", one)
    put("deep/run/readme.txt", "no trace")
    for time in ("2026_01_01_00_00_00", "2026_01_02_00_00_00"):
        put(f"logs/plugins/profile/{time}/pod.xplane.pb", tpu())
        put(f"logs/plugins/profile/{time}/pod.trace.json.gz", gzip.compress(b'{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[]}'))


# ---- comparisons ----------------------------------------------------------------------------------------------------------------


def xplane(path, run):
    """Events of the streams of GPUs, by name: number and time, read by the decoder above."""
    theirs = {}
    for number, plane in fields(opened(path).read()):
        if number != 1:
            continue
        parts = {}
        for key, value in fields(plane):
            parts.setdefault(key, []).append(value)
        names = {}
        for entry in parts.get(4, []):
            entry = dict(fields(entry))
            names[entry.get(1, 0)] = dict(fields(entry.get(2, b""))).get(2, b"").decode()
        if not parts[2][0].startswith(b"/device:GPU:"):
            continue
        for line in parts.get(3, []):
            for key, value in fields(line):
                if key == 4:
                    event = dict((k, v) for k, v in fields(value) if k < 4)
                    row = theirs.setdefault(names[event[1]], [0, 0])
                    row[0] += 1
                    row[1] += event.get(3, 0) // 1000
    own = {n: [c, d] for n, c, d in rows(run, """SELECT n.text, count(*), sum(dur) FROM slice s JOIN track t ON t.id = s.track
        JOIN string n ON n.id = s.name JOIN string c ON c.id = s.category WHERE t.kind = 'stream' AND c.text <> 'annotation' GROUP BY 1""")}
    same("kernels of the XPlane", own, theirs)
    print(len(own), "kernels,", sum(c for c, _ in own.values()), "events")


def rocprof(path, run):
    tool = json.load(opened(path))["rocprofiler-sdk-tool"][0]
    names = {k["kernel_id"]: k["formatted_kernel_name"] for k in tool["kernel_symbols"]}
    theirs = {}
    for one in tool["buffer_records"]["kernel_dispatch"]:
        name = names[one["dispatch_info"]["kernel_id"]]
        row = theirs.setdefault(name[:-3] if name.endswith(".kd") else name, [0, 0])
        row[0] += 1
        row[1] += one["end_timestamp"] - one["start_timestamp"]
    own = {n: [c, d] for n, c, d in rows(run, """SELECT n.text, count(*), sum(dur) FROM slice s JOIN track t ON t.id = s.track
        JOIN string n ON n.id = s.name WHERE t.kind = 'stream' GROUP BY 1""")}
    same("kernels of rocprofv3", own, theirs)
    print(len(own), "kernels,", sum(c for c, _ in own.values()), "dispatches")


def ascend_rows(report, run):
    """The file's own rows of the overlap analysis against the times of the report (each row is rounded to the ns)."""
    keys = dict(rows(run, "SELECT key, value FROM run WHERE key LIKE 'source.ascend.%'"))
    device = json.load(open(report))["devices"][0]
    own = {"computing_ns": device["compute_us"], "communication_ns": device["comm_us"],
           "communication_not_overlapped_ns": device["exposed_comm_us"]}
    for key, value in own.items():
        if abs(1000 * value - int(keys["source.ascend." + key])) > 300:
            sys.exit(f"{key}: {value} us is not {keys['source.ascend.' + key]} ns")
    print({k: int(v) for k, v in keys.items()})


class Data(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError("not data")


def blocks_of(segment):
    """The blocks with their addresses, which older snapshots leave out."""
    at = segment["address"]
    for block in segment["blocks"]:
        yield {"address": at, **block}
        at += block["size"]


def snapshot(path, report):
    data = Data(io.BytesIO(opened(path).read())).load()
    device = json.load(open(report))["allocator"][0]
    segments = data["segments"]
    same("reserved", device["reserved_bytes"], sum(s["total_size"] for s in segments))
    same("allocated", device["allocated_bytes"], sum(s["allocated_size"] for s in segments))
    same("segments", device["segments"], len(segments))
    now = peak = 0
    trace = next(t for t in data["device_traces"] if t)
    start = sum(b["requested_size"] for s in segments for b in s["blocks"] if b["state"] == "active_allocated")
    start -= sum({"alloc": 1, "free_requested": -1}.get(e["action"], 0) * e["size"] for e in trace)
    for event in trace:
        now += {"alloc": 1, "free_requested": -1}.get(event["action"], 0) * event["size"]
        peak = max(peak, now)
    same("peak", device["requested_peak_bytes"], start + peak)
    held, given = {}, 0
    rounded = lambda size: -(-size // 512) * 512
    for event in trace:  # what is given back and was not asked for in the history was there before it
        if event["action"] == "alloc":
            held[event["addr"]] = event["size"]
        elif event["action"] == "free_requested" and held.pop(event["addr"], None) is None:
            given += rounded(event["size"])
    given += sum(rounded(b["requested_size"]) for s in segments for b in blocks_of(s) if b["state"] == "active_allocated" and
                 b["address"] not in held)
    bound = now = given
    for event in trace:
        now += {"alloc": 1, "free_requested": -1}.get(event["action"], 0) * rounded(event["size"])
        bound = max(bound, now)
    same("bound of a pool", device["pool_bound_bytes"], bound)
    if not bound <= device["pool_bytes"] <= 1.15 * bound:
        sys.exit(f"a pool of {device['pool_bytes']} bytes, where {bound} live at once")
    if not device["exact"]:
        sys.exit(f"the replay is not exact: {device['matched']} of {device['replayed']} addresses")
    same("reserved, replayed", device["settings"][0]["reserved_peak_bytes"], device["reserved_peak_bytes"])
    print(device["matched"], "allocations at the recorded address")


if __name__ == "__main__":
    {"make": make, "xplane": xplane, "rocprof": rocprof, "ascend": ascend_rows, "snapshot": snapshot}[sys.argv[1]](*sys.argv[2:])
