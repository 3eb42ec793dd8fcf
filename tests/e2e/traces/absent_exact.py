# SPDX-License-Identifier: Apache-2.0
# Why each device did not compute, and which communication blocked, again, by brute force from the trace itself.
#
# Read and compared by device_exact.py. TRACE: Kineto JSON[.gz] or Nsight SQLite[.gz].
#
# Knows of tacho the definitions of docs/device-time.md and the report, nothing else. All times are whole ns.
import bisect
import collections
import functools
import itertools

import gpu_exact as base

SLACK, RELEASE, LONG_COPY, DISPATCH = 2000, 20000, 20000, 100000
PARTS = ("launch_starved", "blocked", "dispatch", "dependency")
Wait = collections.namedtuple("Wait", "name stream device correlation of record")  # a row of synchronisation on a stream


# ---- what gpu_exact does not read -----------------------------------------------------------------------------------------------


def kineto_waits(events):
    out, memory = [], {}
    for e in events:
        args = e.get("args", {})
        if e.get("ph") != "X" or "dur" not in e:
            continue
        if str(e.get("cat", "")).lower() == "cuda_sync":
            number = lambda k: args[k] if isinstance(args.get(k), int) and args[k] >= 0 else None
            stream = str(e["tid"])
            out.append(Wait(e["name"], None if stream in ("-1", "4294967295") else stream, None, args.get("correlation"),
                            number("wait_on_stream"), number("wait_on_cuda_event_record_corr_id")))
        elif str(e.get("cat", "")).lower() in ("gpu_memcpy", "memcpy"):
            inside = e["name"].partition("(")[2].partition(")")[0].lower()
            kinds = [k.strip() for k in inside.split("->")]
            way = e["name"].split("(")[0].split()[-1]
            memory[args.get("correlation")] = kinds[0 if way.startswith("Hto") else 1] if len(kinds) == 2 else ""
    return out, memory


def nsight_waits(db):
    names = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
    hosts = {0: "pageable", 1: "pinned", 2: "device", 3: "array", 4: "managed"}
    a = "CUPTI_ACTIVITY_KIND_"
    pid = lambda g: (g >> 24) & 0xFFFFFF
    device = {(pid(g), c): d for g, c, d in db.execute(f"SELECT globalPid, contextId, deviceId FROM {a}KERNEL")}
    record = {(pid(g), i): (c, s) for g, i, c, s in
              db.execute(f"SELECT globalPid, eventSyncId, correlationId, streamId FROM {a}CUDA_EVENT")}
    out = []
    for kind, stream, c, g, i, ctx in db.execute(f"SELECT syncType, streamId, correlationId, globalPid, eventSyncId, contextId "
                                                 f"FROM {a}SYNCHRONIZATION"):
        r = record.get((pid(g), i), (None, None))
        known = stream is not None and stream != 4294967295
        out.append(Wait(names.get(kind, ""), (pid(g), stream) if known else None, device.get((pid(g), ctx)), (pid(g), c),
                        None if r[1] is None else (pid(g), r[1]), None if r[0] is None else (pid(g), r[0])))
    memory = {}
    for g, c, k, s, d in db.execute(f"SELECT globalPid, correlationId, copyKind, srcKind, dstKind FROM {a}MEMCPY"):
        memory[(pid(g), c)] = hosts.get(s if k == 1 else d, "") if k in (1, 2) else "device"
    return out, memory


@functools.cache
def kind_of(name):
    if any(w in name for w in ("GraphAdd", "GraphExec", "NodeGet", "NodeSet", "LaunchHostFunc", "LaunchConfig")):
        return None
    for words, kind in ((("Synchronize",), "sync"), (("GraphLaunch",), "graph"), (("Memcpy",), "copy"), (("Memset",), "memset"),
                        (("Launch",), "kernel"), (("EventRecord",), "record"), (("StreamWaitEvent",), "wait"),
                        (("EventQuery", "StreamQuery"), "query"),
                        (("Malloc", "HostAlloc", "MemAlloc", "MemHostAlloc", "HostRegister", "MemCreate"), "allocate"),
                        (("Free", "HostUnregister", "MemRelease"), "free")):
        if any(w in name for w in words):
            return kind
    return None


# ---- edges ----------------------------------------------------------------------------------------------------------------------


class Edges:
    """What ops and calls waited for. Ops and calls by their place in lists; processes are told by the correlation of Nsight."""

    def __init__(self, ops, calls, rows, waits, memory):
        order = sorted(range(len(ops)), key=lambda i: (ops[i].device, ops[i].start, ops[i].end))
        self.ops = [ops[i] for i in order]
        self.call = [calls[i] for i in order]
        self.process = [self.process_of(o.correlation) for o in self.ops]
        self.into = collections.defaultdict(dict)  # op -> {op it waited for: inferred}
        self.unresolved = set()
        self.streams = collections.defaultdict(list)
        for i in sorted((i for i in range(len(self.ops)) if self.call[i]), key=lambda i: self.call[i].start):
            self.streams[(self.ops[i].device, self.ops[i].stream)].append(i)
        self.starts = {k: [self.call[i].start for i in v] for k, v in self.streams.items()}
        self.before, last = {}, {}
        for i, o in enumerate(self.ops):
            self.before[i] = last.get((o.device, o.stream))
            last[(o.device, o.stream)] = i
        self.threads = collections.defaultdict(list)
        for r in rows:
            if r.call:
                self.threads[r.thread].append(r)
        self.outer = {}
        for k in self.threads:
            self.threads[k].sort(key=lambda r: (r.start, -r.end))
            top = None
            for r in self.threads[k]:
                top = top if top and r.start < top.end and r.end <= top.end else r
                self.outer[id(r)] = top
        self.by_correlation = collections.defaultdict(list)
        for k in self.threads:
            for r in self.threads[k]:
                if kind_of(r.name) in ("sync", "record", "wait", "free"):
                    self.by_correlation[r.correlation].append(r)
        self.waits = waits
        self.find_waits(waits)
        self.find_syncs(waits, memory)

    def process_of(self, correlation):
        return correlation[0] if isinstance(correlation, tuple) else 0

    def call_with(self, correlation):
        return self.by_correlation[correlation][0] if correlation is not None and correlation in self.by_correlation else None

    def stream_of(self, like, name):
        device = [k[0] for k in self.streams if k[1] == like]
        return next((k for k in self.streams if str(k[1]) == str(name) and k[0] in device), None)

    def launched(self, stream, time):
        return bisect.bisect_left(self.starts[stream], time)

    def resolve(self, on, of, called, recorded, inferred):
        at = self.launched(on, called)
        if at == len(self.streams[on]):
            return
        q = self.streams[on][at]
        if of is not None:
            last = self.launched(of, recorded)
            if of == on or not last:
                return
            p = self.streams[of][last - 1]
            if self.ops[p].end <= self.ops[q].start + SLACK:
                self.add(p, q, inferred)
            else:
                self.unresolved.add(q)
            return
        best, late = None, False
        for s in self.streams:
            if s == on or self.process[self.streams[s][0]] != self.process[q]:
                continue
            last = self.launched(s, recorded)
            if not last:
                continue
            p = self.streams[s][last - 1]
            if self.ops[p].end > self.ops[q].start + SLACK:
                late = True
            elif best is None or self.ops[p].end > self.ops[best].end:
                best = p
        if best is not None and (self.before[q] is None or self.ops[best].end > self.ops[self.before[q]].end):
            self.add(best, q, True)
        elif best is None and late:
            self.unresolved.add(q)

    def add(self, p, q, inferred):
        self.into[q][p] = self.into[q].get(p, True) and inferred

    def find_waits(self, waits):
        rows = {self.process_of(w.correlation) for w in waits if w.name == "Stream Wait Event"}
        for w in waits:
            on = next((k for k in self.streams if k[1] == w.stream and w.device in (None, k[0])), None)
            if w.name != "Stream Wait Event" or on is None:
                continue
            call, record = self.call_with(w.correlation), self.call_with(w.record)
            inferred = record is None
            if record is None and call is not None:
                kept = [r for r in self.threads[call.thread] if kind_of(r.name) in ("sync", "record", "wait", "free")]
                at = next(i for i, r in enumerate(kept) if r is call)
                record = next((r for r in reversed(kept[max(0, at - 63):at]) if kind_of(r.name) == "record"), None)
            of = None
            if w.of is not None:
                of = self.stream_of(w.stream, w.of)
                if of is None:
                    continue
            self.resolve(on, of, call.start, record.start if record else call.start, inferred)
        any_wait = set(rows)
        by_call = collections.defaultdict(list)
        for i in range(len(self.ops)):
            if self.call[i]:
                by_call[id(self.call[i])].append(i)
        for thread, calls in self.threads.items():
            process = self.process_of(calls[0].correlation)
            if process not in rows:
                any_wait |= {process} if self.waits_of_thread(calls, by_call) else set()
        for device in {o.device for o in self.ops}:
            mine = [i for i, o in enumerate(self.ops) if o.device == device]
            if self.process[mine[0]] not in any_wait and len({self.ops[i].stream for i in mine}) > 1:
                self.by_times(mine)

    def waits_of_thread(self, calls, by_call):
        """Groups of waits without a launch between them; the last is for the stream of the next launch, the one before it for that
        of the next launch on another stream."""
        groups, group, record, found = [], [], None, False
        for k, r in enumerate(calls):
            if kind_of(r.name) == "record":
                record = r
            if id(r) in by_call and group:
                groups.append(group)
                group = []
            if kind_of(r.name) == "wait":
                found = True
                if self.outer[id(r)] is r:
                    group.append((k, r, record or r))
        groups.append(group)
        for group in groups:
            taken = None
            for k, wait, rec in list(reversed(group))[:2]:
                after = list(itertools.islice((by_call[id(r)][0] for r in calls[group[-1][0]:] if id(r) in by_call), 256))
                streams = [(self.ops[i].device, self.ops[i].stream) for i in after]
                on = next((s for s in streams if s != taken), None)
                if on is None:
                    break
                taken = on
                self.resolve(on, None, wait.start, rec.start, True)
        return found

    def by_times(self, mine):
        ends = sorted(mine, key=lambda i: (self.ops[i].end, i))
        times = [self.ops[i].end for i in ends]
        for q in mine:
            o = self.ops[q]
            if not self.call[q]:
                continue
            free = self.ops[self.before[q]].end if self.before[q] is not None else -1
            for at in range(bisect.bisect_right(times, o.start) - 1, -1, -1):
                p = ends[at]
                if times[at] < o.start - RELEASE:
                    break
                if self.ops[p].stream != o.stream and self.ops[p].start < o.start:
                    if times[at] > free and times[at] > self.call[q].end:
                        self.add(p, q, True)
                    break

    # ---- to the host ----

    def last_ended(self, s, before, end):
        for at in range(self.launched(s, before) - 1, -1, -1):
            if self.ops[self.streams[s][at]].end <= end:
                return self.streams[s][at]
        return None

    def sync_by_time(self, call, process):
        found = [self.last_ended(s, call.start, call.end + SLACK) for s in self.streams
                 if self.process[self.streams[s][0]] == process]
        found = [p for p in found if p is not None and self.ops[p].end > call.start]
        return [(max(found, key=lambda p: self.ops[p].end), True)] if found else []

    def sync_device(self, call, process):
        out = []
        for s in self.streams:
            at = self.launched(s, call.start)
            if self.process[self.streams[s][0]] == process and at and self.ops[self.streams[s][at - 1]].end <= call.end + SLACK:
                out.append((self.streams[s][at - 1], False))
        return out

    def only_stream(self, process):
        found = {(o.device, o.stream) for o, p in zip(self.ops, self.process) if p == process}
        return found.pop() if len(found) == 1 and found <= set(self.streams) else None

    def sync_by_name(self, call, process):
        """Without a row. Where a process has one stream, a call that waits can mean no other."""
        stream, end = self.only_stream(process), call.end + SLACK
        if "DeviceSynchronize" in call.name or "CtxSynchronize" in call.name:
            return self.sync_device(call, process)
        last = lambda time: self.streams[stream][self.launched(stream, time) - 1] if self.launched(stream, time) else None
        if stream and "StreamSynchronize" in call.name:
            op = last(call.start)
            if op is not None and self.ops[op].end <= end:
                return [(op, False)]
        elif stream and "EventSynchronize" in call.name:
            records = sorted((r.start for calls in self.threads.values() for r in calls if kind_of(r.name) == "record" and
                              r.start < call.start and self.process_of(r.correlation) == process), reverse=True)[:1024]
            reached = [op for op in map(last, records) if op is not None and self.ops[op].end <= end]
            inside = {op for op in reached if self.ops[op].end > call.start}
            if reached:
                return [(reached[0], len(inside) != 1 or call.end - call.start < LONG_COPY)]
        return self.sync_by_time(call, process)

    def sync_by_row(self, call, process, w):
        stream = next((k for k in self.streams if k[1] == w.stream and w.device in (None, k[0])), None)
        before, inferred = call.start, False
        if w.name in ("Context Sync", "Device Sync"):
            return self.sync_device(call, process)
        if w.name == "Event Sync":
            record = self.call_with(w.record)
            stream = self.stream_of(w.stream, w.of) if w.of is not None else None
            inferred = record is None
            before = before if inferred else record.start
        if stream is None:
            return self.sync_by_time(call, process)
        if inferred:
            p = self.last_ended(stream, before, call.end + SLACK)
        else:
            at = self.launched(stream, before)
            p = self.streams[stream][at - 1] if at else None
        return [] if p is None or self.ops[p].end > call.end + SLACK else [(p, inferred)]

    def find_syncs(self, waits, memory):
        self.syncs = []  # (call, op, inferred)
        rows = {}
        for w in waits:
            call = self.call_with(w.correlation)
            if call is not None and kind_of(call.name) == "sync":
                rows.setdefault(id(call), w)
        for thread, calls in self.threads.items():
            for r in calls:
                kind, process = kind_of(r.name), self.process_of(r.correlation)
                if kind == "free" and "Async" not in r.name and "Host" not in r.name:
                    found = self.sync_by_time(r, process)
                elif kind == "sync" and id(r) in rows:
                    found = self.sync_by_row(r, process, rows[id(r)])
                elif kind == "sync" and self.outer[id(r)] is r:
                    found = self.sync_by_name(r, process)
                else:
                    continue
                self.syncs += [(self.outer[id(r)], p, inferred) for p, inferred in found]
        for i, o in enumerate(self.ops):
            if o.what == "copy" and self.call[i]:
                call = self.outer[id(self.call[i])]
                if kind_of(call.name) != "copy" or o.start < call.start or o.end > call.end + SLACK:
                    continue
                where = memory.get(o.correlation, "")
                if "Async" not in call.name or where == "pageable" or (not where and call.end - call.start >= LONG_COPY):
                    self.syncs.append((call, i, False))
        self.sync_threads = collections.defaultdict(list)
        for s in self.syncs:
            self.sync_threads[s[0].thread].append(s)
        for v in self.sync_threads.values():
            v.sort(key=lambda s: s[0].start)


# ---- the split ------------------------------------------------------------------------------------------------------------------


def union(spans):
    out = []
    for s, e in sorted(x for x in spans if x[1] > x[0]):
        if out and s <= out[-1][1]:
            out[-1][1] = max(out[-1][1], e)
        else:
            out.append([s, e])
    return out


def both(a, b):
    out, i, k = [], 0, 0
    if len(b) < len(a):
        a, b = b, a
    if a:
        k = max(0, bisect.bisect_left(b, [a[0][0], a[0][0]]) - 1)
    while i < len(a) and k < len(b):
        s, e = max(a[i][0], b[k][0]), min(a[i][1], b[k][1])
        if s < e:
            out.append([s, e])
        if a[i][1] < b[k][1]:
            i += 1
        else:
            k += 1
    return out


def without(a, b):
    out = []
    for s, e in a:
        for u, v in b[max(0, bisect.bisect_left(b, [s, s]) - 1):]:
            if u >= e:
                break
            if v > s:
                if u > s:
                    out.append([s, u])
                s = max(s, v)
        if e > s:
            out.append([s, e])
    return out


def measure(a):
    return sum(e - s for s, e in a)


def way(g, q, a, inferred):
    """Ops that ended behind a and that op q depends on, step by step back."""
    seen, todo = {q}, [q]
    while todo:
        x = todo.pop()
        found = [self for self in ([g.before[x]] if g.before[x] is not None else [])]
        found += [p for p, guess in g.into[x].items() if inferred or not guess]
        call = g.call[x]
        for thread, syncs in (g.sync_threads.items() if call else ()):
            if thread != call.thread and (not inferred or g.process_of(syncs[0][0].correlation) != g.process[x]):
                continue
            for c, p, guess in syncs:
                if c.start < call.start and a < c.end <= call.start and (inferred or not guess) and g.ops[p].end <= c.end + SLACK:
                    found.append(p)
        for p in found:
            if p not in seen and g.ops[p].end > a:
                seen.add(p)
                todo.append(p)
    return seen


def split(g, device):
    mine = [i for i, o in enumerate(g.ops) if o.device == device]
    kinds = {k: union([(g.ops[i].start, g.ops[i].end) for i in mine if g.ops[i].kind in v])
             for k, v in (("compute", ("compute", "memset")), ("comm", ("comm",)), ("copy", ("copy",)))}
    comm = without(kinds["comm"], kinds["compute"])
    copy = without(without(kinds["copy"], kinds["compute"]), kinds["comm"])
    first, last = min(g.ops[i].start for i in mine), max(g.ops[i].end for i in mine)
    part = {k: [] for k in PARTS + ("unlinked", "after_wait", "proven", "inferred", "unknown")}
    at_start = collections.defaultdict(list)
    for i in mine:
        if g.ops[i].kind in ("compute", "memset") and g.ops[i].end > g.ops[i].start:
            at_start[g.ops[i].start].append(i)
    for a, b in without([[first, last]], kinds["compute"]):
        issued = lambda i: min(g.call[i].end, g.ops[i].start) if g.call[i] else float("inf")
        q = min(at_start[b], key=issued) if at_start[b] else None
        exposed = measure(both(comm, [[a, b]])) > 0
        if q is None or not g.call[q]:
            part["dependency"].append([a, b])
            part["unlinked"].append([a, b])
            part["unknown"].append([a, b])
        else:
            begun = max(a, issued(q))
            producers = [g.ops[p].end for p in list(g.into[q]) + ([g.before[q]] if g.before[q] is not None else [])]
            released = max([begun] + [min(e, b) for e in producers])
            part["launch_starved"].append([a, begun])
            part["blocked"].append([begun, released])
            part["dispatch" if q not in g.unresolved and b - released <= DISPATCH else "dependency"].append([released, b])
            call = g.outer[id(g.call[q])]
            back = [c.end for c, p, guess in g.sync_threads.get(call.thread, []) if (c.start, -c.end) < (call.start, -call.end)]
            if begun > a and back and back[-1] > a:
                part["after_wait"].append([a, begun])
            if q in g.unresolved:
                part["unknown"].append([a, b])
        if q is not None and exposed:
            for inferred in (False, True):
                part["inferred" if inferred else "proven"] += [[max(a, g.ops[p].start), min(b, g.ops[p].end)]
                                                               for p in way(g, q, a, inferred) if g.ops[p].kind == "comm"]
    sets = {k: union(v) for k, v in part.items()}
    sets["proven"] = both(sets["proven"], comm)
    sets["inferred"] = without(both(sets["inferred"], comm), sets["proven"])
    sets["unknown"] = without(both(sets["unknown"], comm), union(sets["proven"] + sets["inferred"]))
    return sets, kinds["compute"], {"communication": comm, "copy": copy}, [[first, last]]


def compare(check, g, rows, report):
    us = base.us
    check.equal("devices with a split", len(report["compute_absent"]), len(report["devices"]))
    for d, x in zip(report["devices"], report["compute_absent"]):
        sets, compute, occupied, span = split(g, d["device"])
        what = f"device {d['device']}"
        linked = any(g.call[i] for i, o in enumerate(g.ops) if o.device == d["device"])
        for k in PARTS:
            check.equal(f"{what} {k}", us(d[f"absent_{k}_us"]), measure(sets[k]) if linked else None)
        check.equal(f"{what} sum", sum(us(d[f"absent_{k}_us"]) for k in PARTS), us(d["span_us"]) - us(d["compute_us"]))
        for k in ("proven", "inferred", "unknown"):
            if d["blocking_comm_us"][k] is not None:
                check.equal(f"{what} blocking {k}", us(d["blocking_comm_us"][k]), measure(sets[k]))
        check.equal(f"{what} blocking known", d["blocking_comm_us"]["proven"] is not None,
                    d["blocking_comm_us"]["unknown"] is not None)
        window = span
        if x["steps"]:
            found = base.device_steps([o for o in g.ops], g.call, base.host_steps(rows))
            counted = found[1:-1] if len(found) > 3 else found
            window = union([(s, e) for i, s, e in counted])
            check.equal(f"{what} steps", x["steps"], len(counted))
        check.equal(f"{what} window", us(x["window_us"]), measure(window))
        check.equal(f"{what} absent", us(x["absent_us"]), measure(without(window, compute)))
        for k in PARTS:
            check.equal(f"{what} window {k}", us(x[f"{k}_us"]), measure(both(sets[k], window)))
            rest = measure(both(sets[k], window))
            for o in ("communication", "copy"):
                want = measure(both(both(sets[k], window), occupied[o]))
                check.equal(f"{what} window {k} {o}", us(x["occupied"][k][f"{o}_us"]), want)
                rest -= want
            check.equal(f"{what} window {k} nothing", us(x["occupied"][k]["nothing_us"]), rest)
        for k, key in (("unlinked", "unlinked_us"), ("after_wait", "after_wait_us")):
            check.equal(f"{what} window {k}", us(x[key]), measure(both(sets[k], window)))
        for k in ("proven", "inferred", "unknown"):
            if x["blocking_comm_us"][k] is not None:
                check.equal(f"{what} window blocking {k}", us(x["blocking_comm_us"][k]), measure(both(sets[k], window)))
        check.equal(f"{what} causes", sum(us(c["us"]) for c in x["causes"]) + us(x["other_causes_us"]), us(x["launch_starved_us"]))
