# SPDX-License-Identifier: Apache-2.0
# What each device did, when its steps were and where their time went, again, by brute force from the trace itself.
#
# Read and compared by device_exact.py. TRACE: Kineto JSON[.gz] or Nsight SQLite[.gz].
#
# Knows nothing of tacho but the report. Every number is a sum over elementary segments: all starts and ends cut time into pieces in
# which nothing begins or ends, each piece is given to what is open in it. Times are whole ns from the decimal digits of the trace.
import bisect
import collections
import functools
import fractions
import re

from exact import ns

COMM = re.compile(r"nccl|dpsk::ep|deep_ep|multimem_all_reduce|cross_device_reduce")  # the collectives of these traces
Op = collections.namedtuple("Op", "kind start end device stream correlation")
Row = collections.namedtuple("Row", "name start end thread call correlation")
KINDS = {"kernel": "kernel", "gpu_memcpy": "copy", "memcpy": "copy", "gpu_memset": "memset", "memset": "memset"}
NOT_HOST = set(KINDS) | {"gpu_user_annotation", "cuda_sync", "trace"}


@functools.cache
def communicates(name):
    return COMM.search(name) is not None


def kineto(events):
    ops, rows = [], []
    for e in events:
        if e.get("ph") != "X" or "dur" not in e:
            continue
        category, args = str(e.get("cat", "")).lower(), e.get("args", {})
        start = ns(e["ts"])
        end = start + ns(e["dur"])
        if category in KINDS:
            kind = KINDS[category]
            kind = "comm" if kind == "kernel" and communicates(e["name"]) else "compute" if kind == "kernel" else kind
            ops.append(Op(kind, start, end, int(args.get("device", e["pid"])), str(e["tid"]), args.get("correlation")))
        elif category not in NOT_HOST:
            call = category in ("cuda_runtime", "cuda_driver", "runtime", "driver")
            rows.append(Row(e["name"], start, end, (str(e["pid"]), str(e["tid"])), call, args.get("correlation")))
    return ops, rows


def nsight(db):
    text = dict(db.execute("SELECT id, value FROM StringIds"))
    pid = lambda g: (g >> 24) & 0xFFFFFF
    ops, rows = [], []
    a = "CUPTI_ACTIVITY_KIND_"
    for s, e, d, st, g, c, n in db.execute(
            f"SELECT start, end, deviceId, streamId, globalPid, correlationId, demangledName FROM {a}KERNEL"):
        ops.append(Op("comm" if communicates(text[n]) else "compute", s, e, d, (pid(g), st), (pid(g), c)))
    for table, kind in (("MEMCPY", "copy"), ("MEMSET", "memset")):
        for s, e, d, st, g, c in db.execute(
                f"SELECT start, end, deviceId, streamId, globalPid, correlationId FROM {a}{table}"):
            ops.append(Op(kind, s, e, d, (pid(g), st), (pid(g), c)))
    for s, e, g, c, n in db.execute(f"SELECT start, end, globalTid, correlationId, nameId FROM {a}RUNTIME"):
        rows.append(Row(text[n], s, e, g, True, (pid(g), c)))
    domains = {r[0]: r[1] for r in db.execute("SELECT domainId, coalesce(text, '') FROM NVTX_EVENTS WHERE eventType = 75")}
    for s, e, g, d, t in db.execute("SELECT start, end, globalTid, domainId, coalesce(text, '') FROM NVTX_EVENTS "
                                    "WHERE eventType = 59 AND end IS NOT NULL"):
        rows.append(Row("nccl:" + t if domains.get(d) == "NCCL" else t, s, e, g, False, None))
    return ops, rows


def launches(ops, rows):
    """op -> call: the last of its correlation that began before it, else the first."""
    by = collections.defaultdict(list)
    for r in rows:
        if r.call and r.correlation is not None:
            by[r.correlation].append(r)
    out = []
    for o in ops:
        near = sorted(by.get(o.correlation, []), key=lambda r: r.start) if o.correlation is not None else []
        before = [r for r in near if r.start <= o.start]
        out.append(before[-1] if before else near[0] if near else None)
    return out


def comm_copies(ops, calls, rows):
    """Copies that a communicator's call launched, or that run on a stream where all kernels communicate, are communication."""
    kernels = collections.defaultdict(set)
    for o in ops:
        if o.kind in ("comm", "compute"):
            kernels[(o.device, o.stream)].add(o.kind)
    ranges = collections.defaultdict(list)
    for r in rows:
        if r.name == "record_param_comms" or r.name.startswith(("nccl:", "c10d::")):
            ranges[r.thread].append(r)
    out = []
    for o, call in zip(ops, calls):
        mine = kernels[(o.device, o.stream)] == {"comm"}
        inside = call and any(r.start <= call.start < r.end for r in ranges[call.thread])
        out.append(o._replace(kind="comm") if o.kind == "copy" and (mine or inside) else o)
    return out


def segments(items):
    """(start, end, set of kinds that are open): items are (start, end, kind)."""
    edges = sorted([(s, 1, k) for s, e, k in items if e > s] + [(e, -1, k) for s, e, k in items if e > s], key=lambda x: x[0])
    open_now, at = collections.Counter(), None
    for time, step, kind in edges:
        if at is not None and time > at:
            yield at, time, {k for k, n in open_now.items() if n}
        at = time
        open_now[kind] += step


def classify(kinds):
    if "compute" in kinds or "memset" in kinds:
        return "compute"
    return "exposed_comm" if "comm" in kinds else "exposed_copy" if "copy" in kinds else None


class Check:
    def __init__(self):
        self.done, self.wrong = 0, 0

    def equal(self, what, got, want, relative=0):
        self.done += 1
        same = got is want if got is None or want is None else abs(got - want) <= relative * abs(want)
        if not same:
            self.wrong += 1
            print(f"{what}: tacho {got if got is None else float(got)}, brute force {want if want is None else float(want)}")


def us(x):
    return None if x is None else fractions.Fraction(x) * 1000


def devices(check, ops, report):
    for d in report["devices"]:
        mine = [o for o in ops if o.device == d["device"]]
        what = f"device {d['device']}"
        check.equal(f"{what} ops", d["ops"], len(mine))
        if not mine:
            continue
        first, last = min(o.start for o in mine), max(o.end for o in mine)
        sums, busy, total = collections.Counter(), 0, collections.Counter()
        for s, e, kinds in segments([(o.start, o.end, o.kind) for o in mine]):
            busy += (e - s) * bool(kinds)
            sums[classify(kinds)] += e - s
            total["comm"] += (e - s) * ("comm" in kinds)
            total["copy"] += (e - s) * ("copy" in kinds)
            total["both"] += (e - s) * ("comm" in kinds and classify(kinds) == "compute")
        check.equal(f"{what} span", us(d["span_us"]), last - first)
        check.equal(f"{what} busy", us(d["busy_us"]), busy)
        check.equal(f"{what} idle", us(d["idle_us"]), last - first - busy)
        check.equal(f"{what} compute", us(d["compute_us"]), sums["compute"])
        check.equal(f"{what} exposed_comm", us(d["exposed_comm_us"]), sums["exposed_comm"])
        check.equal(f"{what} exposed_copy", us(d["exposed_copy_us"]), sums["exposed_copy"])
        check.equal(f"{what} opaque", us(d["opaque_us"]), 0)
        check.equal(f"{what} comm", us(d["comm_us"]), total["comm"])
        check.equal(f"{what} copy", us(d["copy_us"]), total["copy"])
        for key, kinds in (("compute", ("compute", "memset")), ("comm", ("comm",)), ("copy", ("copy",))):
            check.equal(f"{what} {key}_sum", us(d[key + "_sum_us"]), sum(o.end - o.start for o in mine if o.kind in kinds))
        overlap = fractions.Fraction(100 * total["both"], total["comm"]) if total["comm"] else None
        check.equal(f"{what} overlap", d["overlap_pct"] if d["overlap_pct"] is None else fractions.Fraction(d["overlap_pct"]), overlap,
                    fractions.Fraction(1, 10**13))
    check.equal("devices", len(report["devices"]), len({o.device for o in ops}))


def host_steps(rows):
    steps = sorted((r for r in rows if r.name.startswith("ProfilerStep#")), key=lambda r: r.start)
    return [(int(r.name[13:]), r) for r in steps]


def device_steps(ops, calls, steps):
    """[(index, start, end)]: first compute kernel launched in step k to that of the next; the last one to the end of its ops."""
    mine = sorted(((c.start, o) for o, c in zip(ops, calls) if c), key=lambda x: x[0])
    starts = []
    for index, r in steps:
        inside = [o for t, o in mine if r.start <= t < r.end]
        kernels = [o for o in inside if o.kind == "compute"]
        if kernels:
            starts.append((index, kernels[0].start, max(o.end for o in inside)))
    return [(i, s, starts[k + 1][1] if k + 1 < len(starts) else e) for k, (i, s, e) in enumerate(starts)]


HELD = 100000 # ns: an op that is issued starts within this time


def held_spans(ops, calls, span, loader, waiting):
    """Idle time from when the next op was issued, while the host is in a call that waits for the device."""
    busy = sorted((o.start, o.end) for o in ops) + sorted((s, e) for s, e, k in loader)
    order = sorted(range(len(ops)), key=lambda i: ops[i].start)
    starts = [ops[i].start for i in order]
    out, at = [], span[0]
    for s, e in sorted(busy) + [(span[1], span[1])]:
        s, e = max(s, span[0]), min(e, span[1])
        next_op = bisect.bisect_left(starts, s)
        if s - at >= HELD and next_op < len(order) and calls[order[next_op]]:
            begin = max(at, calls[order[next_op]].end)
            if s - begin >= HELD:
                out += [(max(begin, a), min(s, b), "held") for a, b in waiting if a < s and b > begin]
        at = max(at, e)
    return out


def budget(check, ops, calls, rows, report, waiting):
    steps = host_steps(rows)
    if not steps:
        check.equal("steps", report["steps"]["source"], None)
        return
    found = device_steps(ops, calls, steps)
    counted = found[1:-1] if len(found) > 3 else found
    check.equal("steps counted", report["steps"]["counted"], len(counted))
    check.equal("steps count", report["steps"]["count"], len(found))
    lengths = sorted(e - s for i, s, e in counted)
    n = len(lengths)
    median = fractions.Fraction(lengths[(n - 1) // 2] + lengths[n // 2], 2)
    for key, want in (("median_ms", median), ("mean_ms", fractions.Fraction(sum(lengths), n)), ("min_ms", lengths[0]),
                      ("max_ms", lengths[-1])):
        check.equal(f"steps {key}", fractions.Fraction(report["steps"][key]) * 10**6, want, fractions.Fraction(1, 10**13))
    indexes = {i for i, s, e in counted}
    hosts = sorted(r.end - r.start for i, r in steps if i in indexes)
    median = fractions.Fraction(hosts[(n - 1) // 2] + hosts[n // 2], 2)
    check.equal("host_median_ms", fractions.Fraction(report["steps"]["host_median_ms"]) * 10**6, median, fractions.Fraction(1, 10**13))
    thread = steps[0][1].thread
    drive = {thread} | {c.thread for c in calls if c}
    items = [(o.start, o.end, o.kind) for o in ops]
    items += [(r.start, r.end, "host") for r in rows if r.thread in drive and not r.name.startswith("ProfilerStep#")]
    loader = [(r.start, r.end, "input") for r in rows if r.thread == thread and r.name.startswith("enumerate(DataLoader)#")]
    items += held_spans(ops, calls, (found[0][1], found[-1][2]), loader, waiting)
    items += loader + [(s, e, "step") for i, s, e in counted]
    sums, total = collections.Counter(), 0
    for s, e, kinds in segments(items):
        if "step" not in kinds:
            continue
        total += e - s
        at = classify(kinds) or ("input" if "input" in kinds else "unattributed" if "held" in kinds else "host" if "host" in kinds else "unattributed")
        sums[at] += e - s
    [b] = report["budget_by_device"]
    for key in ("compute", "exposed_comm", "exposed_copy", "input", "host", "unattributed"):
        want = fractions.Fraction(100 * sums[key], total)
        got = b[key + "_pct"]
        if key == "input" and not loader:
            want = None
        check.equal(f"budget {key}", got if got is None else fractions.Fraction(got), want, fractions.Fraction(1, 10**12))
