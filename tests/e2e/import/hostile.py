#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes files that say once what is long, and name it again and again; and files that were cut off.
usage: hostile.py make FOLDER"""
import os, pickle, shutil, sqlite3, sys, zlib

from formats import Plane, field
from profiles import packet


def put(folder, name, data):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
    return path


# ---- long things that are named often ----------------------------------------------------------------------------------------------


def statistics():
    """An XPlane whose one name has 200,000 statistics, and 200,000 events."""
    stat = field(5, field(1, 7) + field(4, 1)) * 200_000
    events = (field(4, field(1, 1) + field(2, 5) + field(3, 7))) * 200_000
    plane = field(2, "/device:GPU:0") + field(3, field(1, 1) + field(2, "Stream #1(Compute)") + field(3, 1_700_000_000_000_000_000) + events)
    return field(1, plane + field(4, field(1, 1) + field(2, field(1, 1) + field(2, "gemm") + stat)))


def names():
    """Calls of 5,000 functions with names of 2,000 bytes, 300,000 of them."""
    events = b"".join(field(4, field(1, 1 + i % 5000) + field(2, 1000 * i) + field(3, 500)) for i in range(300_000))
    plane = field(2, "/host:CPU") + field(3, field(1, 1) + field(2, "python") + field(3, 1_700_000_000_000_000_000) + events)
    plane += b"".join(field(4, field(1, 1 + i) + field(2, field(1, 1 + i) + field(2, f"PjitFunction({i:05}" + "x" * 2000 + ")"))) for i in range(5000))
    return field(1, plane)


def long_name(bytes, events):
    """A Perfetto trace in which all slices have the same interned name."""
    out = packet(field(10, 1) + field(12, field(2, field(1, 1) + field(2, b"n" * bytes))) + field(13, 1))
    out += packet(field(60, field(1, 9) + field(4, field(1, 7) + field(2, 8) + field(5, "main"))) + field(10, 1))
    for i in range(events):
        out += packet(field(8, 1000 + 10 * i) + field(10, 1) + field(11, field(9, 1) + field(10, 1) + field(11, 9)))
        out += packet(field(8, 1005 + 10 * i) + field(10, 1) + field(11, field(9, 2) + field(11, 9)))
    return out


def bomb():
    """Sixty packets that hold 64 MiB of nothing each."""
    packed = packet(field(50, zlib.compress(b"\x08\x00" * ((64 << 20) // 2 - 1), 9)))
    return long_name(4, 10) + packed * 60


def location():
    """A profile of pprof: a location of a megabyte, and 40,000 samples in it."""
    text = ["", "cpu", "nanoseconds", "f", "f.go", "samples", "count"]
    out = field(1, field(1, 5) + field(2, 6)) + field(1, field(1, 1) + field(2, 2))
    out += field(2, field(1, 1) + field(2, 1) + field(2, 10_000_000)) * 40_000
    out += field(4, field(1, 1) + field(9, 1) * 500_000) + field(5, field(1, 1) + field(2, 3) + field(4, 4))
    return out + b"".join(field(6, t) for t in text) + field(9, 1_700_000_000_000_000_000) + field(10, 10**9)


def operation(bytes, records):
    """A capture of rocprofv3 in which all calls have the same long name."""
    call = '{"kind":1,"operation":0,"thread_id":5,"start_timestamp":%d,"end_timestamp":%d,"correlation_id":{"internal":3}}'
    return ('{"rocprofiler-sdk-tool":[{"metadata":{"pid":5},"agents":[],"strings":{"buffer_records":[{"kind":"NONE","operations":[]},'
            '{"kind":"HIP_RUNTIME_API","operations":["hip%s"]}]},"buffer_records":{"hip_api":[%s]}}]}'
            % ("x" * bytes, ",".join(call % (10 * i + 1, 10 * i + 6) for i in range(records))))


def processes(count):
    one = '{"metadata":{"pid":5},"buffer_records":{"hip_api":[]}},'
    return '{"rocprofiler-sdk-tool":[' + one * count + operation(5, 1)[len('{"rocprofiler-sdk-tool":['):]


def arrows(bytes, count):
    """An operator with long arguments, and arrows to it."""
    shapes = "[" + "1," * (bytes // 2) + "1]"
    events = ['{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":5,"dur":2,"args":{"Input Dims":%s}}' % shapes]
    events += ['{"ph":"f","cat":"fwdbwd","name":"fwdbwd","id":1,"pid":1,"tid":1,"ts":5,"bp":"e"}'] * count
    return '{"traceEvents":[' + ",".join(events) + "]}"


def counters(bytes):
    args = ",".join(f'"v{i}":{i}' for i in range(120))
    return '{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":5,"dur":2},{"ph":"C","name":"%s","pid":1,"ts":6,"args":{%s}}]}' % (
        "n" * bytes, args)


def flight(path):
    """A dump of a flight recorder: a collective with 20 million sizes of tensors, and one with one."""
    entry = (b'{"collective_seq_id":%d,"profiling_name":"nccl:all_reduce","state":"completed","time_created_ns":17000000000000000%02d,'
             b'"time_discovered_started_ns":17000000000000000%02d,"time_discovered_completed_ns":17000000000000000%02d,'
             b'"input_dtypes":["Float"],"input_sizes":[')
    with open(path, "wb") as file:
        file.write(b'{"entries":[' + entry % (1, 10, 20, 30) + b"[8],")
        for i in range(20):
            file.write(b"1," * 1_000_000)
        file.write(b"[8]]}," + entry % (2, 40, 50, 60) + b"[8]]}]}")


def nsight(path, bytes, rows, threads):
    db = sqlite3.connect(path)
    db.executescript("""
        CREATE TABLE StringIds(id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE ThreadNames(nameId INTEGER, priority INTEGER, globalTid INTEGER);
        CREATE TABLE NVTX_EVENTS(start INTEGER, "end" INTEGER, eventType INTEGER, rangeId INTEGER, category INTEGER, color INTEGER, text TEXT,
            globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);""")
    db.execute("INSERT INTO StringIds VALUES (1, ?), (2, 'worker')", ("n" * bytes,))
    db.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, NULL, NULL, NULL, ?, NULL, 1, 0)",
                   ((10 * i + 1, 10 * i + 5, 5 << 24 | i % threads) for i in range(rows)))
    db.executemany("INSERT INTO ThreadNames VALUES (2, 0, ?)", ((5 << 24 | i,) for i in range(threads)))
    db.commit()


def computed(path):
    db = sqlite3.connect(path)
    db.executescript("""
        CREATE TABLE rocpd_string(id INTEGER PRIMARY KEY, string TEXT GENERATED ALWAYS AS (printf('%.*c', 30000000, 'x')));
        CREATE TABLE rocpd_api(id INTEGER PRIMARY KEY, pid, tid, start, "end", apiName_id, args_id);
        CREATE TABLE rocpd_op(id INTEGER PRIMARY KEY, gpuId, queueId, sequenceId, start, "end", description_id, opType_id);
        CREATE TABLE rocpd_api_ops(id INTEGER PRIMARY KEY, api_id, op_id);
        INSERT INTO rocpd_string(id) VALUES (1);""")
    db.executemany("INSERT INTO rocpd_api(pid, tid, start, \"end\", apiName_id, args_id) VALUES (1, 1, ?, ?, 1, 1)",
                   ((10 * i + 1, 10 * i + 5) for i in range(1000)))
    db.commit()


def misnamed(path):
    """The same, whose schema says another name of the table than its text, which SQLite overlooks where the end of the file is missing."""
    computed(path)
    db = sqlite3.connect(path)
    db.executescript("""
        CREATE TABLE filler(data);
        INSERT INTO filler VALUES (zeroblob(200000));
        PRAGMA writable_schema=ON;
        UPDATE sqlite_master SET name='other', tbl_name='other' WHERE name='rocpd_string';""")
    db.commit()
    db.close()
    os.truncate(path, os.path.getsize(path) - 4 * 4096)


def far():
    """A memory snapshot: a part of an expandable segment at 2^62, and a segment of a private pool at -2^62, 2^63 before it."""
    at, time = 1 << 62, 1_700_000_000_000_000
    part = {"action": "segment_map", "addr": at + (1 << 20), "size": 2 << 20, "stream": 0, "time_us": time, "frames": []}
    block = {"action": "alloc", "addr": at + (1 << 20), "size": 1 << 20, "stream": 0, "time_us": time + 10, "frames": []}
    segment = {"device": 0, "address": -at, "total_size": 8 << 20, "allocated_size": 0, "active_size": 0, "requested_size": 0, "stream": 0,
               "is_expandable": True, "segment_type": "large", "segment_pool_id": (1, 0), "frames": [], "blocks": []}
    return pickle.dumps({"segments": [segment], "device_traces": [[part, block]], "external_annotations": [], "allocator_settings": {}})


def computed_run(path):
    """Makes the strings of a run those that are computed when they are read."""
    db = sqlite3.connect(path)
    db.executescript("""
        ALTER TABLE string RENAME TO string_before;
        CREATE TABLE string(id INTEGER PRIMARY KEY, text TEXT GENERATED ALWAYS AS (printf('%.*c', 300000000, 'x')));
        INSERT INTO string(id) SELECT id FROM string_before;
        DROP TABLE string_before;""")
    db.commit()


# ---- cut off -----------------------------------------------------------------------------------------------------------------------


def two_planes():
    """A plane of a device with 3 kernels and a copy, and one of the host with 4 calls; where the second one begins, and where its names do."""
    device, host = Plane("/device:GPU:0"), Plane("/host:CPU")
    device.line(1, "Stream #1(Compute,MemcpyH2D)", 1_700_000_000_000_000_000,
                [("gemm", 1_000_000 * i, 500_000, {"hlo_op": "dot.1"}, {}) for i in range(3)] +
                [("MemcpyH2D", 9_000_000, 500_000, {"memcpy_details": "kind_src:pageable size:512"}, {})])
    host.line(7, "python", 1_700_000_000_000_000_000, [(f"call{i}", 1_000_000 * i, 500_000, {}, {}) for i in range(4)])
    first, second = device.bytes(), host.bytes()
    return first, second, second.index(b"call0")


def cut_xplanes(folder):
    first, second, names_at = two_planes()
    put(folder, "whole.xplane.pb", first + second)
    put(folder, "second.xplane.pb", first + second[:names_at - 20])  # in the events of the host
    put(folder, "named.xplane.pb", first + second[:second.index(b"call2") + 3])  # two of its names are there
    put(folder, "between.xplane.pb", first + second[:1])
    copy = first.index(b"MemcpyH2D", first.index(b"gemm"))
    put(folder, "device.xplane.pb", first[:copy + len(b"MemcpyH2D")])  # all names of the device, no name of a statistic
    put(folder, "only.xplane.pb", first[:first.index(b"gemm") - 20])  # one message, cut in its events


def cut_rocpd(folder):
    """A database of 20,000 calls and 20,000 kernels, whole and cut to parts of its pages; a page and a half; without its first names."""
    path = os.path.join(folder, "whole.db")
    suffix = "_00000000_1111"
    db = sqlite3.connect(path)
    db.executescript(f"""
        CREATE TABLE "rocpd_string{suffix}"(id INTEGER PRIMARY KEY, string TEXT);
        CREATE TABLE "rocpd_info_node{suffix}"(id INTEGER PRIMARY KEY, hostname TEXT);
        CREATE TABLE "rocpd_info_process{suffix}"(id INTEGER PRIMARY KEY, nid INTEGER, pid INTEGER);
        CREATE TABLE "rocpd_info_agent{suffix}"(id INTEGER PRIMARY KEY, type TEXT, type_index INTEGER, product_name TEXT, name TEXT);
        CREATE TABLE "rocpd_info_thread{suffix}"(id INTEGER PRIMARY KEY, tid INTEGER);
        CREATE TABLE "rocpd_info_kernel_symbol{suffix}"(id INTEGER PRIMARY KEY, display_name TEXT, kernel_name TEXT);
        CREATE TABLE "rocpd_event{suffix}"(id INTEGER PRIMARY KEY, category_id INTEGER, stack_id INTEGER, extdata TEXT);
        CREATE TABLE "rocpd_region{suffix}"(id INTEGER PRIMARY KEY, tid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER, event_id INTEGER);
        CREATE TABLE "rocpd_kernel_dispatch{suffix}"(id INTEGER PRIMARY KEY, agent_id INTEGER, queue_id INTEGER, kernel_id INTEGER, start BIGINT,
            "end" BIGINT, group_segment_size INTEGER, workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER,
            grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, event_id INTEGER);
        CREATE TABLE "rocpd_memory_copy{suffix}"(id INTEGER PRIMARY KEY, dst_agent_id INTEGER, src_agent_id INTEGER, name_id INTEGER, start BIGINT,
            "end" BIGINT, size INTEGER, event_id INTEGER);
        INSERT INTO "rocpd_string{suffix}" VALUES (1, 'HIP_RUNTIME_API_EXT'), (2, 'hipLaunchKernel');
        INSERT INTO "rocpd_info_node{suffix}" VALUES (1, 'node');
        INSERT INTO "rocpd_info_process{suffix}" VALUES (1, 1, 77);
        INSERT INTO "rocpd_info_agent{suffix}" VALUES (1, 'CPU', 0, 'cpu', 'cpu'), (2, 'GPU', 0, 'MI', 'gfx');
        INSERT INTO "rocpd_info_thread{suffix}" VALUES (1, 5);
        INSERT INTO "rocpd_info_kernel_symbol{suffix}" VALUES (1, 'gemm', 'gemm.kd');""")
    for i in range(20_000):
        db.execute(f'INSERT INTO "rocpd_event{suffix}" VALUES (?, 1, ?, NULL)', (2 * i + 1, i + 1))
        db.execute(f'INSERT INTO "rocpd_event{suffix}" VALUES (?, 1, ?, NULL)', (2 * i + 2, i + 1))
        db.execute(f'INSERT INTO "rocpd_region{suffix}" VALUES (?, 1, ?, ?, 2, ?)', (i + 1, 100 * i + 10, 100 * i + 20, 2 * i + 1))
        db.execute(f'INSERT INTO "rocpd_kernel_dispatch{suffix}" VALUES (?, 2, 1, 1, ?, ?, 0, 64, 1, 1, 256, 1, 1, ?)',
                   (i + 1, 100 * i + 30, 100 * i + 90, 2 * i + 2))
    db.commit()
    db.close()
    with open(path, "rb") as file:
        data = file.read()
    page = int.from_bytes(data[16:18], "big")
    pages = len(data) // page
    for name, bytes in (("half.db", pages // 2 * page), ("ragged.db", pages // 2 * page + page // 3), ("tenth.db", pages // 10 * page),
                        ("two.db", 2 * page)):
        put(folder, name, data[:bytes])
    put(folder, "pages", f"{pages} {pages - pages // 2}")


def long_rocpd(folder):
    """The whole database with a kernel and a call of very long names in the middle, and an index that SQLite would read in place of the
    table of calls, in the order of their ends backwards."""
    path, suffix, name = os.path.join(folder, "long.db"), "_00000000_1111", "x" * (300 << 10)
    shutil.copy(os.path.join(folder, "whole.db"), path)
    db = sqlite3.connect(path)
    db.executescript(f"""
        ALTER TABLE "rocpd_region{suffix}" ADD COLUMN line_info VARCHAR(1000);
        CREATE INDEX backwards ON "rocpd_region{suffix}"("end" DESC, start, tid, name_id, event_id);""")
    db.execute(f'INSERT INTO "rocpd_string{suffix}" VALUES (3, ?)', (name,))
    db.execute(f'INSERT INTO "rocpd_info_kernel_symbol{suffix}" VALUES (2, ?, NULL)', (name,))
    db.execute(f'INSERT INTO "rocpd_info_kernel_symbol{suffix}" VALUES (3, \'softmax\', NULL)')
    db.execute(f'UPDATE "rocpd_region{suffix}" SET name_id = 3 WHERE id = 5000')
    db.execute(f'UPDATE "rocpd_kernel_dispatch{suffix}" SET kernel_id = 1 + id % 3')
    db.commit()


def leading_pages(path):
    """A table whose inner pages lead to each other, each a hundred times: a few pages with more rows than anybody can count."""
    db = sqlite3.connect(path)
    db.executescript("""
        PRAGMA page_size=1024;
        CREATE TABLE rocpd_string(id INTEGER PRIMARY KEY, string TEXT);
        CREATE TABLE rocpd_op(id INTEGER PRIMARY KEY, gpuId, queueId, sequenceId, start, "end", description_id, opType_id);
        CREATE TABLE rocpd_api_ops(id INTEGER PRIMARY KEY, api_id, op_id);
        CREATE TABLE rocpd_api(id INTEGER PRIMARY KEY, pid, tid, start, "end", apiName_id, args_id);
        INSERT INTO rocpd_string VALUES (1, 'hipFree');""")
    db.executemany("INSERT INTO rocpd_api VALUES (?, 1, 1, ?, ?, 1, 1)", ((i, 10 * i + 1, 10 * i + 5) for i in range(4000)))
    db.commit()
    (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rocpd_api'").fetchone()
    db.close()
    with open(path, "rb") as file:
        data = bytearray(file.read())
    head, cells = (root - 1) * 1024, int.from_bytes(data[(root - 1) * 1024 + 3:(root - 1) * 1024 + 5], "big")
    children = [int.from_bytes(data[head + at:head + at + 4], "big") for at in
                (int.from_bytes(data[head + 12 + 2 * i:head + 14 + 2 * i], "big") for i in range(cells))]
    inner = bytes(data[head:head + 1024])
    for page, to in zip([root, *children[:5]], children[:6]):
        copy = bytearray(inner)
        copy[8:12] = to.to_bytes(4, "big")
        for i in range(cells):
            at = int.from_bytes(inner[12 + 2 * i:14 + 2 * i], "big")
            copy[at:at + 4] = to.to_bytes(4, "big")
        data[(page - 1) * 1024:page * 1024] = copy
    with open(path, "wb") as file:
        file.write(data)


def left_in_log(path):
    """A database of rocmProfileData whose program was killed: 100 rows are in the file, the others in the log beside it."""
    made = path + ".made"
    db = sqlite3.connect(made, isolation_level=None)
    db.executescript("""
        CREATE TABLE rocpd_string(id INTEGER PRIMARY KEY, string TEXT);
        CREATE TABLE rocpd_op(id INTEGER PRIMARY KEY, gpuId, queueId, sequenceId, start, "end", description_id, opType_id);
        CREATE TABLE rocpd_api_ops(id INTEGER PRIMARY KEY, api_id, op_id);
        CREATE TABLE rocpd_api(id INTEGER PRIMARY KEY, pid, tid, start, "end", apiName_id, args_id);
        INSERT INTO rocpd_string VALUES (1, 'hipFree');
        INSERT INTO rocpd_api WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 100)
            SELECT n, 1, 1, 10 * n + 1, 10 * n + 5, 1, 1 FROM i;
        PRAGMA journal_mode=WAL;
        PRAGMA wal_autocheckpoint=0;
        BEGIN;
        INSERT INTO rocpd_api WITH RECURSIVE i(n) AS (SELECT 101 UNION ALL SELECT n + 1 FROM i WHERE n < 1000)
            SELECT n, 1, 1, 10 * n + 1, 10 * n + 5, 1, 1 FROM i;
        COMMIT;""")
    for end in ("", "-wal"):
        shutil.copy(made + end, path + end)
    db.close()


def cut_nsight(folder):
    """An export of Nsight Systems without the last pages of its names of threads, which are the end of the file."""
    path = os.path.join(folder, "threads.sqlite")
    nsight(path, 10, 6000, 6000)
    os.truncate(path, os.path.getsize(path) - 8 * 4096)


def make(folder):
    put(folder, "statistics.xplane.pb", statistics())
    put(folder, "names.xplane.pb", names())
    put(folder, "long.pftrace", long_name(8 << 20, 4000))
    put(folder, "bomb.pftrace", bomb())
    put(folder, "location.pb", location())
    put(folder, "operation.json", operation(4 << 20, 60_000))
    for i in range(2):
        put(folder, f"many/{i}.json", processes(30_000))
    put(folder, "arrows.json", arrows(8 << 20, 8000))
    put(folder, "counters.json", counters(12 << 20))
    flight(os.path.join(folder, "flight.json"))
    nsight(os.path.join(folder, "long.sqlite"), 8 << 20, 20_000, 1)
    nsight(os.path.join(folder, "threads.sqlite"), 10, 60_000, 60_000)
    computed(os.path.join(folder, "computed.db"))
    misnamed(os.path.join(folder, "misnamed.db"))
    put(folder, "far.pickle", far())
    cut_xplanes(os.path.join(folder, "cut"))
    cut_rocpd(os.path.join(folder, "cut"))
    long_rocpd(os.path.join(folder, "cut"))
    leading_pages(os.path.join(folder, "cut", "leading.rpd"))
    left_in_log(os.path.join(folder, "cut", "log.rpd"))
    cut_nsight(os.path.join(folder, "cut"))


if __name__ == "__main__":
    if sys.argv[1] == "run":
        computed_run(sys.argv[2])
    else:
        make(sys.argv[2])
