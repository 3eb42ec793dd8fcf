#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Imports of Kineto traces against counts made here, from the JSON, with exact arithmetic.

    import_kineto.py exact TRACES REGEX TACHO WORK BENCH PLACES SEED  those of the shared traces: rows, ns, details, names, metadata;
                                                                   then salvage
    import_kineto.py salvage TRACES BENCH WORK PLACES SEED         every shared trace, plain and gz, cut off at random places
    import_kineto.py folder TRACES TACHO WORK                      two ranks as one run
    import_kineto.py hostile TACHO WORK                            names with anything in them
"""
import bisect
import collections
import glob
import gzip
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import zlib

CATEGORIES = {
    "cpu_op": "op", "Operator": "op", "user_annotation": "annotation", "python_function": "python", "cuda_runtime": "runtime",
    "Runtime": "runtime", "cuda_driver": "driver", "overhead": "overhead", "Kernel": "kernel", "kernel": "kernel",
    "gpu_memcpy": "memcpy", "Memcpy": "memcpy", "gpu_memset": "memset", "Memset": "memset", "cuda_sync": "sync",
    "gpu_user_annotation": "annotation", "Trace": "trace",
}
DEVICE = {"kernel", "memcpy", "memset", "sync"}
errors = 0


def check(ok, *what):
    global errors
    if not ok:
        errors += 1
        if errors < 40:
            print("FAIL:", *what)
    return ok


def decode(raw):
    """The document (numbers with a point stay text, so that none is rounded), and the bytes from the start of the file to the
    end of each event, found by Python's JSON decoder."""
    text = raw.decode("utf-8", "surrogateescape")
    assert len(text) == len(raw), "the shared traces are ASCII"
    decoder = json.JSONDecoder(strict=False, parse_float=str)
    at = first = text.index("[", text.index('"traceEvents"')) + 1
    events, ends = [], []
    while True:
        while text[at] in " \t\r\n,":
            at += 1
        if text[at] == "]":
            break
        event, at = decoder.raw_decode(text, at)
        events.append(event)
        ends.append(at)
    trace = decoder.decode(text[:first] + text[at:])
    trace["traceEvents"] = events
    return trace, ends


def load(path):
    with gzip.open(path) as f:
        raw = f.read()
    return raw, *decode(raw)


def run(tacho, inputs, out):
    if os.path.exists(out):
        os.unlink(out)
    done = subprocess.run([tacho, "import", *inputs, "-o", out], capture_output=True, text=True)
    if not check(done.returncode == 0, inputs, done.returncode, done.stderr):
        sys.exit(1)
    return sqlite3.connect(out)


def category(e):
    c = CATEGORIES.get(e.get("cat"))
    if e["ph"] == "i":
        return "instant"
    name = e["name"]
    legacy = ("ProfilerStep#", "enumerate(DataLoader)#", "enumerate(DataPipe)#", "Optimizer.")
    return "annotation" if c == "op" and name.startswith(legacy) else c


def ns(value):
    whole, _, part = str(value).partition(".")
    assert whole.isdigit() and not part[3:].strip("0"), value
    return int(whole + part[:3].ljust(3, "0"))


def expected_rows(trace):
    base = int(trace.get("baseTimeNanoseconds", 0))
    rows = collections.Counter()
    for e in trace["traceEvents"]:
        if e.get("ph") not in ("X", "i"):
            continue
        c, a = category(e), e.get("args") or {}
        corr = a.get("correlation") if c in DEVICE | {"runtime", "driver"} else a.get("Sequence number")
        if c in ("op", "annotation"):
            corr = None if corr is None or int(corr) < 0 or e.get("cat") == "gpu_user_annotation" else int(corr)
        elif c not in DEVICE | {"runtime", "driver"}:
            corr = a.get("correlation")
        tid = a.get("stream", e["tid"]) if c in DEVICE else e["tid"]
        if isinstance(tid, str):
            tid = int(tid.split()[-1]) if tid.split() and tid.split()[-1].isdigit() else None
        if c in DEVICE and tid in (-1, 4294967295):
            tid = None
        backward = c == "op" and int(a.get("Fwd thread id", 0)) != 0
        rows[(c, e["name"], base + ns(e["ts"]), ns(e.get("dur", 0)), corr, tid, backward)] += 1
    return rows


def stored_rows(db):
    return db.execute(
        "SELECT c.text, n.text, s.start, s.dur, s.correlation, t.tid, ifnull(d.pass = 'backward', 0) FROM slice s "
        "JOIN string n ON n.id = s.name JOIN string c ON c.id = s.category JOIN track t ON t.id = s.track "
        "LEFT JOIN detail d ON d.id = s.detail").fetchall()


def check_ops(name, trace, db):
    """Shapes, types, strides, concrete inputs and stacks of every operator, by name and start."""
    base = int(trace.get("baseTimeNanoseconds", 0))
    keys = {"Input Dims": "shapes", "Input dims": "shapes", "Input type": "types", "Input Strides": "strides",
            "Concrete Inputs": "concrete"}
    want, got = collections.Counter(), collections.Counter()
    for e in trace["traceEvents"]:
        a = e.get("args") or {}
        if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "Operator") and "Collective name" not in a:
            d = {keys[k]: v for k, v in a.items() if k in keys}
            if a.get("Call stack"):
                d["stack"] = a["Call stack"]
            if d:
                want[(e["name"], base + ns(e["ts"]), json.dumps(d, sort_keys=True, default=str))] += 1
    for n, start, payload in db.execute(
            "SELECT n.text, s.start, d.payload FROM slice s JOIN string n ON n.id = s.name JOIN detail d ON d.id = s.detail "
            "JOIN track t ON t.id = s.track WHERE d.schema = 'torch.op' AND t.kind = 'thread' AND s.category IN "
            "(SELECT id FROM string WHERE text IN ('op', 'annotation')) AND d.payload IS NOT NULL"):
        d = {k: v for k, v in json.loads(payload).items() if k in ("shapes", "types", "strides", "concrete", "stack")}
        if d:
            got[(n, start, json.dumps(d, sort_keys=True, default=str))] += 1
    user = {e["name"] for e in trace["traceEvents"] if e.get("cat") == "user_annotation"}
    got = collections.Counter({k: v for k, v in got.items() if k[0] not in user or k in want})
    check(want == got, name, "operators differ", len(want), len(got), list((want - got).items())[:1], list((got - want).items())[:1])
    return sum(want.values())


def check_device(name, trace, db):
    """Grid, block, registers of kernels; bytes and kinds of copies."""
    base = int(trace.get("baseTimeNanoseconds", 0))
    want, got = collections.Counter(), collections.Counter()
    for e in trace["traceEvents"]:
        c, a = CATEGORIES.get(e.get("cat")), e.get("args") or {}
        if e.get("ph") != "X" or c not in ("kernel", "memcpy", "memset"):
            continue
        dims = tuple(",".join(map(str, a[k])) if k in a else None for k in ("grid", "block")) if c == "kernel" else (None, None)
        memory = kind = None
        if c == "memcpy":
            kind = e["name"].split()[1] if e["name"].startswith("Memcpy ") else "unknown"
            inside = e["name"][e["name"].find("(") + 1:-1].lower().split(" -> ")
            memory = next((m for m in ("pageable", "pinned", "managed") if m in inside), None)
            memory = memory or ("device" if inside == ["device", "device"] else None)
        size = None if c == "kernel" else a.get("bytes")
        want[(e["name"], base + ns(e["ts"]), *dims, size, kind, memory,
              a.get("registers per thread") if c == "kernel" else None)] += 1
    for n, start, grid, block, size, kind, memory, payload, coll in db.execute(
            "SELECT n.text, s.start, d.grid, d.block, d.bytes, d.copy_kind, d.kind, d.payload, d.collective FROM slice s "
            "JOIN string n ON n.id = s.name LEFT JOIN detail d ON d.id = s.detail WHERE s.category IN "
            "(SELECT id FROM string WHERE text IN ('kernel', 'memcpy', 'memset'))"):
        p = json.loads(payload) if payload else {}
        got[(n, start, grid, block, None if coll else size, kind, memory, p.get("registers"))] += 1
    check(want == got, name, "device rows differ", list((want - got).items())[:2], list((got - want).items())[:2])


def check_meta(name, trace, db):
    keys = dict(db.execute("SELECT key, value FROM run"))
    decimals = max((len(str(e["ts"]).partition(".")[2]) for e in trace["traceEvents"] if e.get("ph") in ("X", "i")), default=0)
    check(int(keys["source.base_ns"]) == int(trace.get("baseTimeNanoseconds", 0)), name, "base", keys["source.base_ns"])
    check(keys["source"] == "kineto" and int(keys["source.decimals"]) == decimals, name, "decimals", keys["source.decimals"], decimals)
    process = db.execute("SELECT id FROM process").fetchone()[0]
    for d in trace.get("deviceProperties", []):
        prefix = f"device.{process}.gpu:{d['id']}."
        check(keys.get(prefix + "name") == d["name"], name, prefix, keys.get(prefix + "name"))
        check(keys.get(prefix + "compute_capability") == f"{d['computeMajor']}.{d['computeMinor']}", name, prefix, "capability")
        check(int(keys.get(prefix + "memory_bytes", -1)) == d["totalGlobalMem"], name, prefix, "memory")
    info = trace.get("distributedInfo", {})
    for k in ("world_size", "backend"):
        if k in info:
            check(keys.get(k) == str(info[k]), name, k, keys.get(k))
    rank = db.execute("SELECT rank FROM process WHERE id = ?", (process,)).fetchone()[0]
    check(rank == info.get("rank", 0), name, "rank", rank)
    threads = {(str(e["pid"]), str(e["tid"])): e["args"]["name"].strip() for e in trace["traceEvents"]
               if e.get("ph") == "M" and e.get("name") == "thread_name"}
    names = set(threads.values())
    for kind, tid, text in db.execute("SELECT kind, tid, name FROM track WHERE kind = 'thread' AND tid > 0"):
        known = [v for (p, t), v in threads.items() if t == str(tid)]
        check(not known or text in names, name, "thread name", tid, text)


def exact(traces, regex, tacho, work, bench, places, seed):
    total = 0
    paths = [path for path in sorted(glob.glob(os.path.join(traces, "*.json.gz"))) if re.search(regex, os.path.basename(path))]
    check(len(paths) >= 5, "only", paths)
    for path in paths:
        name = os.path.basename(path)
        raw, trace, ends = load(path)
        db = run(tacho, [path], os.path.join(work, "gz.tacho"))
        want, rows = expected_rows(trace), stored_rows(db)
        got = collections.Counter(rows)
        check(want == got, name, "rows differ:", list((want - got).items())[:2], list((got - want).items())[:2])
        ops = check_ops(name, trace, db)
        check_device(name, trace, db)
        check_meta(name, trace, db)
        check(not db.execute("SELECT * FROM loss").fetchall(), name, "losses", db.execute("SELECT * FROM loss").fetchall())
        plain = os.path.join(work, name[:-3])
        with open(plain, "wb") as f:
            f.write(raw)
        same = run(tacho, [plain], os.path.join(work, "plain.tacho"))
        again = stored_rows(same)
        check(again == rows or collections.Counter(again) == got, name, "plain and gz differ")
        check(same.execute("SELECT value FROM run WHERE key = 'source.base_ns'").fetchall() ==
              db.execute("SELECT value FROM run WHERE key = 'source.base_ns'").fetchall(), name, "base of plain and gz")
        print(f"{name}: {sum(want.values())} rows, {sum(k[3] * v for k, v in want.items())} ns, {ops} operators with shapes or stacks")
        total += salvage_one(path, plain, ends, bench, places, seed)
        os.unlink(plain)
    print(f"{total} files cut off: salvaged events are the whole events before the cut")


def salvage_one(path, plain, ends, bench, places, seed):
    """A trace, packed and plain, cut off at random places; `ends`: bytes of the plain one to the end of each event."""
    name, total = os.path.basename(path), 0
    with open(path, "rb") as f:
        packed = f.read()
    for file, unpack in ((plain, None), (path, packed)):
        done = subprocess.run([bench, "salvage", file, seed, places], capture_output=True, text=True,
                              env={**os.environ, "TMPDIR": os.path.dirname(plain)})
        check(done.returncode == 0, name, "salvage died", done.returncode, done.stderr[-400:])
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        check(len(lines) == int(places), name, len(lines), "of", places)
        for _, cut, events, truncated, rc in lines:
            kept = int(cut) if unpack is None else len(zlib.decompressobj(31).decompress(unpack[:int(cut)]))
            whole = bisect.bisect_right(ends, kept)
            check(int(events) == whole, name, "gz" if unpack else "plain", "cut at", cut, "events", events, "of", whole)
            check(int(truncated) == 1 or int(rc) != 0, name, "cut at", cut, "was not noticed")
            check(int(rc) == 0 or whole == 0, name, "cut at", cut, "result", rc)
            total += 1
    return total


def salvage(traces, bench, work, places, seed):
    total = 0
    for path in sorted(glob.glob(os.path.join(traces, "*.json.gz"))):
        raw, _, ends = load(path)
        plain = os.path.join(work, os.path.basename(path)[:-3])
        with open(plain, "wb") as f:
            f.write(raw)
        total += salvage_one(path, plain, ends, bench, places, seed)
        os.unlink(plain)
    print(f"{total} files cut off: salvaged events are the whole events before the cut")


def folder(traces, tacho, work):
    place = os.path.join(work, "ranks")
    os.makedirs(place)
    names = [f"hta_trace_filter_2ranks_rank{i}.json.gz" for i in (0, 1)]
    for n in names:
        shutil.copy(os.path.join(traces, n), place)
    with open(os.path.join(place, "README.txt"), "w") as f:
        f.write("two ranks\n")
    with open(os.path.join(place, "config.json"), "w") as f:
        f.write('{"learning_rate": 0.1}\n')
    open(os.path.join(place, "rank7.json.gz"), "w").close() # a copy that failed: a rank that is missing
    os.symlink("nowhere", os.path.join(place, "rank8.json"))
    db = run(tacho, [place], os.path.join(work, "folder.tacho"))
    got = collections.Counter(stored_rows(db))
    want = sum((expected_rows(load(os.path.join(place, n))[1]) for n in names), collections.Counter())
    check(want == got, "folder: rows differ", list((want - got).items())[:2], list((got - want).items())[:2])
    rank = dict(db.execute("SELECT rank, count(*) FROM process GROUP BY rank"))
    check(rank == {0: 1, 1: 1}, "folder: ranks", rank)
    for i in (0, 1):
        one = expected_rows(load(os.path.join(place, names[i]))[1])
        rows = db.execute("SELECT count(*) FROM slice JOIN track t ON t.id = slice.track JOIN process p ON p.id = t.process "
                          "WHERE p.rank = ?", (i,)).fetchone()[0]
        check(rows == sum(one.values()), "folder: rows of rank", i, rows)
    loss = db.execute("SELECT source, reason, count FROM loss").fetchall()
    want = [("config.json", "not a trace: nothing was read from it", 1), ("rank7.json.gz", "the file is empty", 1),
            ("rank8.json", "cannot be read", 1)]
    check(sorted(loss) == want, "folder: losses", loss)
    # the same rank twice: two processes, and a notice
    os.unlink(os.path.join(place, "config.json"))
    shutil.copy(os.path.join(traces, names[0]), os.path.join(place, "again_rank0.json.gz"))
    db = run(tacho, [place], os.path.join(work, "twice.tacho"))
    ranks = sorted(r[0] for r in db.execute("SELECT rank FROM process"))
    check(ranks == [0, 0, 1], "twice: ranks", ranks)
    check(db.execute("SELECT count(*) FROM loss WHERE reason LIKE '%rank%'").fetchone()[0] == 1, "twice: no notice")
    print("folder: two ranks are one run")


def hostile_names():
    return ['plain', 'quote " inside', "back\\slash", "line\nfeed", "tab\there", "\x1b[31mred\x1b[0m", "nul\x00byte", "x" * 10000,
            "\U0001f600 emoji", "</script><script>alert(1)</script>", "'; DROP TABLE slice; --", "%s%n%d", "", " ", "},{\"ph\":\"X\"",
            "]]}}", "\u202eright to left", "a\r\nb", "\\u0041", "é" * 500]


def hostile(tacho, work):
    names = hostile_names()
    events = [{"ph": "X", "cat": "cpu_op", "name": n, "pid": 7, "tid": 8, "ts": 1000 + i, "dur": 1,
               "args": {"Input Dims": [[i]], "Call stack": n, "Input type": [n]}} for i, n in enumerate(names)]
    events += [{"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": names[5]}},
               {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": names[9]}},
               {"ph": "X", "cat": names[10], "name": "odd category", "pid": 7, "tid": 8, "ts": 2000, "dur": 1},
               {"ph": "X", "cat": "cpu_op", "name": "text thread", "pid": 7, "tid": names[2], "ts": 2001, "dur": 1}]
    text = json.dumps({"traceEvents": events})
    raw = text.replace("line\\nfeed", "line\nfeed").replace("tab\\there", "tab\there").encode() # control characters as they are
    broken = raw.replace(b"plain", b"pl\xffain")  # not UTF-8
    for data, first in ((raw, "plain"), (broken, "pl\ufffdain")):
        path = os.path.join(work, "hostile.json")
        with open(path, "wb") as f:
            f.write(data)
        db = run(tacho, [path], os.path.join(work, "hostile.tacho"))
        want = [first] + [n.replace("\x00", "\ufffd") for n in names[1:]]
        got = [r[0] for r in db.execute("SELECT n.text FROM slice s JOIN string n ON n.id = s.name ORDER BY s.start")]
        check(got[:len(want)] == want, "hostile: names", [(g, w) for g, w in zip(got, want) if g != w][:2])
        for i, (payload,) in enumerate(db.execute("SELECT d.payload FROM slice s JOIN detail d ON d.id = s.detail ORDER BY s.start")):
            p = json.loads(payload)
            check(p["shapes"] == [[i]], "hostile: shapes", i, p)
            stack = want[i] if i < len(names) else None
            check(not stack or p["stack"].replace("\x00", "\ufffd") == stack, "hostile: stack", i, p.get("stack", "")[:60])
        check(db.execute("SELECT name FROM track WHERE tid = 8").fetchone()[0] == names[5], "hostile: thread name")
        check(db.execute("SELECT program FROM process").fetchone()[0] == names[9], "hostile: process name")
        check(not db.execute("SELECT * FROM loss").fetchall(), "hostile: losses", db.execute("SELECT * FROM loss").fetchall())
    print(f"hostile: {len(names)} names came through")


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    {"exact": exact, "salvage": salvage, "folder": folder, "hostile": hostile}[command](*rest)
    sys.exit(1 if errors else 0)
