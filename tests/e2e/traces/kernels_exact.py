# SPDX-License-Identifier: Apache-2.0
# Every number of the tables of kernels, launches, copies and synchronise calls again, by brute force from the trace itself.
#
# TRACE: Kineto JSON[.gz] or Nsight SQLite[.gz]; exact.py says how it is called.
#
# Knows nothing of tacho but the report: reads the trace with Python's own parsers, times as whole ns (decimal digits, never a
# float), sums as integers, spreads as fractions. Of the report it only believes which class a kernel's name has.
import bisect
import collections
import decimal
import fractions
import re

import exact

Op = collections.namedtuple("Op", "name category start end stream device pid correlation bytes kind memory")
Call = collections.namedtuple("Call", "name start end tid pid correlation bytes")

DEVICE = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset", "memcpy": "memcpy", "memset": "memset"}
CALLS = {"cuda_runtime", "cuda_driver", "runtime", "driver"}
LAUNCH = re.compile(r"^(cuda|cu|hip)(Launch(?!HostFunc)|Memcpy|Memset|GraphLaunch|ExtLaunch|(Ext)?ModuleLaunch)")
MEMORY = ("pageable", "pinned", "managed")


def memory_of(name, kind):
    sides = [s.strip().lower() for s in re.search(r"\((.*)\)", name).group(1).split("->")] if "(" in name else []
    host = [m for m in MEMORY if m in sides]
    return host[0] if host else "device" if sides and set(sides) == {"device"} else ""


def kineto(trace):
    base = int(trace.get("baseTimeNanoseconds", 0))
    ops, calls = [], []
    for e in trace["traceEvents"]:
        category = str(e.get("cat", "")).lower()
        if e.get("ph") != "X" or "dur" not in e:
            continue
        args = e.get("args", {})
        start = base + exact.ns(e["ts"])
        end = start + exact.ns(e["dur"])
        if category in DEVICE:
            category = DEVICE[category]
            kind = re.search(r"[HDP]to[HDP]", e["name"])
            size = args.get("bytes", args.get("size"))
            ops.append(Op(e["name"], category, start, end, (e["pid"], e["tid"]), e["pid"], 0, args.get("correlation"),
                          None if size is None else int(size), kind.group(0) if kind else "unknown",
                          memory_of(e["name"], category) if category == "memcpy" else ""))
        elif category in CALLS:
            size = args.get("bytes", args.get("size"))
            calls.append(Call(e["name"], start, end, (e["pid"], e["tid"]), 0, args.get("correlation"), None if size is None else int(size)))
    return ops, calls


COPY_KIND = {1: "HtoD", 2: "DtoH", 3: "HtoD", 4: "DtoH", 5: "DtoD", 6: "DtoD", 7: "DtoD", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
MEM_KIND = {0: "pageable", 1: "pinned", 2: "device", 3: "device", 4: "managed", 5: "device", 6: "managed"}


def nsight(db):
    tables = {r[0] for r in db.execute("SELECT name FROM sqlite_master")}
    text = dict(db.execute("SELECT id, value FROM StringIds"))
    pid = lambda g: (g >> 24) & 0xFFFFFF
    ops, calls = [], []
    a = "CUPTI_ACTIVITY_KIND_"
    if a + "KERNEL" in tables:
        for s, e, d, st, g, c, n in db.execute(
                f"SELECT start, end, deviceId, streamId, globalPid, correlationId, demangledName FROM {a}KERNEL"):
            ops.append(Op(text[n], "kernel", s, e, (pid(g), d, st), (pid(g), d), pid(g), c, None, "", ""))
    if a + "MEMCPY" in tables:
        for s, e, d, st, g, c, b, k, src, dst in db.execute(
                f"SELECT start, end, deviceId, streamId, globalPid, correlationId, bytes, copyKind, srcKind, dstKind FROM {a}MEMCPY"):
            kind = COPY_KIND.get(k, "unknown")
            side = dst if kind == "DtoH" else src
            ops.append(Op(f"Memcpy {kind}", "memcpy", s, e, (pid(g), d, st), (pid(g), d), pid(g), c, b, kind, MEM_KIND.get(side, "")))
    if a + "MEMSET" in tables:
        for s, e, d, st, g, c, b, m in db.execute(
                f"SELECT start, end, deviceId, streamId, globalPid, correlationId, bytes, memKind FROM {a}MEMSET"):
            ops.append(Op("Memset", "memset", s, e, (pid(g), d, st), (pid(g), d), pid(g), c, b, "", MEM_KIND.get(m, "")))
    if a + "RUNTIME" in tables:
        for s, e, g, c, n in db.execute(f"SELECT start, end, globalTid, correlationId, nameId FROM {a}RUNTIME"):
            calls.append(Call(re.sub(r"_v\d+$", "", text[n]), s, e, g, pid(g), c, None))
    return ops, calls


def union(spans):
    out = []
    for s, e in sorted(spans):
        if e <= s:
            continue
        if out and s <= out[-1][1]:
            out[-1][1] = max(out[-1][1], e)
        else:
            out.append([s, e])
    return out


def covered(spans, s, e):
    at, total = max(0, bisect.bisect([x[0] for x in spans], s) - 1) if spans else 0, 0
    for a, b in spans[at:]:
        if a >= e:
            break
        total += max(0, min(b, e) - max(a, s))
    return total


class Check:
    def __init__(self):
        self.done, self.wrong = collections.Counter(), 0

    def equal(self, what, got, want, relative=0):
        self.done[what.split(" ")[0]] += 1
        if got is None or want is None:
            same = got is want
        else:
            same = abs(fractions.Fraction(got) - fractions.Fraction(want)) <= relative * abs(fractions.Fraction(want))
        if not same:
            self.wrong += 1
            print(f"{what}: tacho {got}, brute force {want if want is None else float(want)}")


def us(x):
    return None if x is None else fractions.Fraction(x) * 1000


def kernels(check, ops, report):
    """Count, sum, mean, extremes and sample standard deviation of each name."""
    mine, theirs = collections.defaultdict(list), collections.defaultdict(list)
    short = lambda n, c: n if c == "kernel" else c
    for o in ops:
        mine[(short(o.name, o.category), o.category)].append(o.end - o.start)
    for k in report["kernels"]:
        theirs[(short(k["name"], k["category"]), k["category"])].append(k)
    check.equal("names all", report["kernels_omitted"], 0)
    total = sum(sum(v) for v in mine.values())
    for key in sorted(set(mine) | set(theirs)):
        x, rows = mine.get(key, []), theirs.get(key, [])
        what = f"{key[1]} {key[0][:70]}"
        check.equal(f"count of {what}", sum(k["count"] for k in rows), len(x))
        check.equal(f"total of {what}", sum(us(k["total_us"]) for k in rows), sum(x))
        if not x or len(rows) != 1:  # copies of several kinds: their rows are summed
            continue
        k, n = rows[0], len(x)
        check.equal(f"min of {what}", us(k["min_us"]), min(x))
        check.equal(f"max of {what}", us(k["max_us"]), max(x))
        check.equal(f"mean of {what}", us(k["mean_us"]), fractions.Fraction(sum(x), n), fractions.Fraction(1, 10**14))
        check.equal(f"share of {what}", fractions.Fraction(k["share_pct"]), fractions.Fraction(100 * sum(x), total), fractions.Fraction(1, 10**13))
        spread = None
        if n > 1:
            variance = fractions.Fraction(n * sum(v * v for v in x) - sum(x) ** 2, n * (n - 1))
            with decimal.localcontext() as c:
                c.prec = 60
                spread = fractions.Fraction((decimal.Decimal(variance.numerator) / variance.denominator).sqrt())
        check.equal(f"sd of {what}", us(k["sd_us"]), spread, fractions.Fraction(1, 10**14))


def link(ops, calls):
    """op -> call, by process and correlation; of several calls the last that began before the op."""
    by = collections.defaultdict(list)
    for i, c in enumerate(calls):
        if c.correlation is not None:
            by[(c.pid, c.correlation)].append((c.start, i))
    out = [None] * len(ops)
    for k, o in enumerate(ops):
        near = sorted(by.get((o.pid, o.correlation), [])) if o.correlation is not None else []
        if near:
            before = [i for s, i in near if s <= o.start]
            out[k] = before[-1] if before else near[0][1]
    return out


def nested(calls):
    """Indexes of calls inside another call of their thread."""
    out, threads = set(), collections.defaultdict(list)
    for i, c in enumerate(calls):
        threads[c.tid].append((c.start, -c.end, i))
    for rows in threads.values():
        open_ends = []
        for start, end, i in sorted(rows):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if open_ends:
                out.add(i)
            open_ends.append(-end)
    return out


def quantile(x, q):
    at = fractions.Fraction(q) * (len(x) - 1)
    low = int(at)
    return x[-1] if low + 1 >= len(x) else x[low] + (at - low) * (x[low + 1] - x[low])


def launches(check, ops, calls, of, inside, report):
    got = report["launches"]
    first, kernels_of = {}, collections.defaultdict(list)
    for k, call in enumerate(of):
        if call is None:
            continue
        if call not in first or ops[k].start < ops[first[call]].start:
            first[call] = k
        if ops[k].category == "kernel":
            kernels_of[call].append(ops[k].end - ops[k].start)
    launching = {i for i, c in enumerate(calls) if i in first or (LAUNCH.match(c.name) and i not in inside)}
    if not launching:
        check.equal("launches none", None, got)
        return
    check.equal("calls all", got["calls"], len(launching))
    check.equal("calls matched", got["matched"], len(first))
    check.equal("calls lost", report["trust"]["capture"]["launches_without_op"], len(launching) - len(first))
    check.equal("calls orphans", report["trust"]["capture"]["ops_without_launch"], sum(c is None for c in of))
    check.equal("calls graphs", got["graphs"], sum("GraphLaunch" in calls[i].name for i in launching))
    names = collections.Counter(calls[i].name for i in launching)
    for row in got["by_call"]:
        check.equal(f"calls of {row['name']}", row["count"], names.pop(row["name"], 0))
        check.equal(f"calls time of {row['name']}", us(row["host_us"]),
                    sum(calls[i].end - calls[i].start for i in launching if calls[i].name == row["name"]))
    check.equal("calls names", 0, len(names))
    near = fractions.Fraction(1, 10**13)
    delay = sorted(max(0, ops[k].start - calls[i].end) for i, k in first.items())
    if delay:
        check.equal("delay mean", us(got["delay_mean_us"]), fractions.Fraction(sum(delay), len(delay)), near)
        check.equal("delay median", us(got["delay_median_us"]), quantile(delay, "0.5"), near)
        check.equal("delay p95", us(got["delay_p95_us"]), quantile(delay, "0.95"), near)
        check.equal("delay max", us(got["delay_max_us"]), delay[-1], near)
    host = [calls[i].end - calls[i].start for i in launching]
    check.equal("delay host", us(got["host_mean_us"]), fractions.Fraction(sum(host), len(host)), near)
    pairs = [(d, calls[i].end - calls[i].start) for i, x in kernels_of.items() if "GraphLaunch" not in calls[i].name for d in x]
    check.equal("short count", got["short_kernels"], sum(d < h for d, h in pairs) if pairs else None)
    # the queue of each stream, instant by instant
    streams = collections.defaultdict(list)
    for i, k in first.items():
        streams[ops[k].stream].append((calls[i].start, max(calls[i].start, ops[k].start)))
    area, time, longest = 0, 0, 0
    for rows in streams.values():
        change = sorted([(b, -1) for a, b in rows if b > a] + [(a, 1) for a, b in rows if b > a])
        length = 0
        for _, by in change:
            length += by
            longest = max(longest, length)
            assert length >= 0
        area += sum(b - a for a, b in rows)
        time += max(b for a, b in rows) - min(a for a, b in rows)
    if streams:
        check.equal("queue max", got["queue_max"], longest)
        if time:
            check.equal("queue mean", fractions.Fraction(got["queue_mean"]), fractions.Fraction(area, time), near)


def copies(check, ops, calls, of, report):
    mine = collections.defaultdict(list)
    for k, o in enumerate(ops):
        if o.category != "kernel":
            mine[("memset" if o.category == "memset" else o.kind, o.memory)].append(k)
    theirs = {(r["kind"], r["memory"] or ""): r for r in report["copies"] or []}
    check.equal("copies rows", len(theirs), len(mine))
    kind_of = {k["name"]: k["kind"] for k in report["kernels"] if k["category"] == "kernel"}
    communicator = any(k["category"] == "memcpy" and k["kind"] == "comm" for k in report["kernels"])
    hide = collections.defaultdict(list)

    def size(k):  # AMD: on the call
        call = calls[of[k]] if of[k] is not None else None
        return ops[k].bytes if ops[k].bytes is not None or not call or "Mem" not in call.name else call.bytes

    for o in ops:
        if o.category == "memset" or (o.category == "kernel" and kind_of[o.name] != "opaque"):
            hide[(o.device, o.category)].append((o.start, o.end))
    for key, rows in mine.items():
        r, what = theirs.get(key), f"{key[0]} {key[1]}"
        if r is None:
            check.equal(f"copies {what}", None, 1)
            continue
        check.equal(f"copies count {what}", r["count"], len(rows))
        check.equal(f"copies total {what}", us(r["total_us"]), sum(ops[k].end - ops[k].start for k in rows))
        sizes = [(size(k), ops[k].end - ops[k].start) for k in rows if size(k) is not None]
        check.equal(f"copies bytes {what}", r["bytes"], sum(b for b, _ in sizes) if sizes else None)
        time = sum(t for _, t in sizes)
        rate = fractions.Fraction(sum(b for b, _ in sizes) * 10**9, time) if time else None
        check.equal(f"copies rate {what}", r["bytes_per_s"], rate, fractions.Fraction(1, 10**12))
        if not communicator:
            exposed = 0
            for d in {ops[k].device for k in rows}:
                over = union(hide[(d, "kernel")] + ([] if key[0] == "memset" else hide[(d, "memset")]))
                for a, b in union((ops[k].start, ops[k].end) for k in rows if ops[k].device == d):
                    exposed += b - a - covered(over, a, b)
            check.equal(f"copies exposed {what}", us(r["exposed_us"]), exposed)
        if key[0] in ("HtoD", "DtoH") and all(of[k] is not None for k in rows) and key[1]:
            waits = sum(key[1] == "pageable" or "Async" not in calls[of[k]].name for k in rows)
            check.equal(f"copies waits {what}", r["synchronous"], waits)


def syncs(check, ops, calls, inside, report):
    busy = {p: union((o.start, o.end) for o in ops if o.pid == p) for p in {o.pid for o in ops}}
    mine = collections.defaultdict(list)
    for i, c in enumerate(calls):
        if "Synchronize" in c.name and i not in inside:
            mine[c.name].append(c)
    theirs = {r["name"]: r for r in report["syncs"] or []}
    check.equal("syncs names", len(theirs), len(mine))
    for name, rows in mine.items():
        r = theirs.get(name) or {}
        check.equal(f"syncs count {name}", r.get("count"), len(rows))
        check.equal(f"syncs time {name}", us(r.get("host_us")), sum(c.end - c.start for c in rows))
        check.equal(f"syncs max {name}", us(r.get("max_us")), max(c.end - c.start for c in rows))
        if all(c.pid in busy for c in rows):
            idle = sum(c.end - c.start - covered(busy[c.pid], c.start, c.end) for c in rows)
            check.equal(f"syncs idle {name}", us(r.get("idle_us")), idle)


Trace = collections.namedtuple("Trace", "ops calls of inside")


def read(path):
    if ".sqlite" in path:
        with exact.nsight(path) as db:
            ops, calls = nsight(db)
    else:
        ops, calls = kineto(exact.kineto(path))
    assert ops, f"{path}: no device ops"
    return Trace(ops, calls, link(ops, calls), nested(calls))


def compare(trace, reports):
    check, [report] = Check(), reports
    ops, calls, of, inside = trace
    kernels(check, ops, report)
    launches(check, ops, calls, of, inside, report)
    copies(check, ops, calls, of, report)
    syncs(check, ops, calls, inside, report)
    return sum(check.done.values()), check.wrong, f"; {len(ops)} device ops, {len(calls)} calls"


exact.run(read, compare)
