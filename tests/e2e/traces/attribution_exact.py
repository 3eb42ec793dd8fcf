# SPDX-License-Identifier: Apache-2.0
# Device time by operator, module, line and annotation again, by brute force from the trace itself.
#
#   attribution_exact.py TRACE OP.json MODULE.json LINE.json ANNOTATION.json...     reports made with --by op ...; exact.py says more
#
# Knows nothing of tacho but the reports. Times are whole ns (decimal digits, never a float). For each launch the ranges of its
# thread are searched one by one. From a backward operator to its forward one the trace's own arrows (fwdbwd) lead; tacho goes by
# sequence numbers, so that the two ways check each other.
import bisect
import collections
import functools
import re

import exact

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
CALLS = {"cuda_runtime", "cuda_driver", "runtime", "driver"}
MARKS = re.compile(r"^(ProfilerStep#|enumerate\(Data(Loader|Pipe)\)#|Optimizer\.)")
LIBRARY = re.compile(r"(site|dist)-packages/|lib(64)?/python3|^(torch|torchvision|torchaudio|torchgen|functorch|triton|apex|multiprocessing"
                     r"|concurrent|asyncio|importlib)/|^(threading|contextlib|functools|runpy|abc|typing|selectors|queue)\.py")
FRAME = re.compile(r"^[^<].*\(\d+\): ")
KINDS = ("op", "module", "line", "annotation")


@functools.cache
def own_line(name):
    return FRAME.match(name) and not LIBRARY.search(name) and "torch/utils/checkpoint.py(" not in name


class Thread:
    """Ranges of a kind on a thread, by start; of equal starts the longer first."""

    def __init__(self):
        self.ranges = []

    def sort(self):
        self.ranges.sort(key=lambda r: (r[0], -r[1]))
        self.starts = [r[0] for r in self.ranges]

    def innermost(self, t):
        for i in range(bisect.bisect_right(self.starts, t) - 1, -1, -1):
            if self.ranges[i][1] > t:
                return self.ranges[i]
        return None


class Trace:
    def __init__(self, path):
        data = exact.kineto(path)
        self.kind = {k: collections.defaultdict(Thread) for k in KINDS + ("backward",)}
        self.device, self.call, self.back, self.fore, self.ways = [], {}, {}, {}, {}
        legacy = any(e.get("cat") == "Operator" for e in data["traceEvents"])
        for e in data["traceEvents"]:
            category, args, place = str(e.get("cat", "")).lower(), e.get("args", {}), (e.get("pid"), str(e.get("tid")))
            if category == "fwdbwd" and e.get("ph") in "sf":
                (self.fore if e["ph"] == "s" else self.back)[e["id"]] = (place, exact.ns(e["ts"]))
            if e.get("ph") != "X" or "dur" not in e:
                continue
            start = exact.ns(e["ts"])
            r = (start, start + exact.ns(e["dur"]), e["name"])
            if category in DEVICE:
                self.device.append((args.get("correlation"), r[1] - r[0]))
            elif category in CALLS:
                self.call[args.get("correlation")] = (place, start)
            elif category in ("cpu_op", "operator") and not (legacy and MARKS.match(e["name"])):
                self.kind["op"][place].ranges.append(r)
                if int(args.get("Fwd thread id", 0)) and "Sequence number" in args:
                    self.kind["backward"][place].ranges.append(r)
            elif category in ("user_annotation", "operator"):
                self.kind["annotation"][place].ranges.append(r)
            elif category == "python_function":
                if e["name"].startswith("nn.Module: "):
                    self.kind["module"][place].ranges.append(r)
                elif own_line(e["name"]):
                    self.kind["line"][place].ranges.append(r)
        for threads in self.kind.values():
            for t in threads.values():
                t.sort()
        self.arrow = {self.back[i]: self.fore[i] for i in self.back if i in self.fore}

    def at(self, kind, place, t):
        return self.kind[kind][place].innermost(t) if place in self.kind[kind] else None

    def forward(self, place, t):
        """Where the forward operator of the innermost backward operator began, and when that backward operator did."""
        b = self.at("backward", place, t)
        if (place, b) not in self.ways:
            self.ways[place, b] = self.way(place, b)
        return self.ways[place, b]

    def way(self, place, b):
        """The same of a backward operator."""
        if b:
            # the operator and the engine's row around it are one node: the arrow leads to either of them
            near = [r for r in self.kind["backward"][place].ranges if r[0] <= b[0] and r[1] >= b[1] and b[2] in r[2]
                    or r[0] >= b[0] and r[1] <= b[1] and r[2] in b[2]]
            for r in near:
                if (place, r[0]) in self.arrow:
                    return self.arrow[place, r[0]], b
        return None, None

    def row(self, kind, place, t):
        own = self.at(kind, place, t)
        if kind in ("module", "line"):
            to, b = self.forward(place, t)
            if to and (not own or b[0] > own[0]):
                there = self.at(kind, to[0], to[1])
                own = there or own
        elif kind == "annotation" and not own:
            to, _ = self.forward(place, t)
            if to:
                own = self.at(kind, to[0], t)
        return own and name_of(kind, own[2])


def name_of(kind, name):
    if kind == "module":
        return name[len("nn.Module: "):]
    return "ProfilerStep" if kind == "annotation" and name.startswith("ProfilerStep#") else name


def compare(trace, reports):
    wrong, checked = 0, 0
    total = sum(d for _, d in trace.device)
    for kind, report in zip(KINDS, reports):
        a = report["attribution"]
        if a["by"] != kind:
            print(f"{kind}: the table is by {a['by']}")
            wrong += 1
        if a["rows"] is None:
            if any(t.ranges for t in trace.kind[kind].values()) and not report["absent"]:
                print(f"{kind}: no table and no reason")
                wrong += 1
            continue
        got = {r["name"]: (exact.ns(r["device_us"]), r["kernels"]) for r in a["rows"]}
        rest = exact.ns(a["unattributed_us"])
        if a["omitted"] or sum(v[0] for v in got.values()) + rest != total:
            print(f"{kind}: rows and rest are {sum(v[0] for v in got.values()) + rest}, all device time is {total}")
            wrong += 1
        # annotations of threads that backward was called from: only where an arrow leads there
        if kind == "annotation" and trace.kind["backward"]:
            continue
        if kind in ("module", "line") and trace.kind["backward"] and not trace.arrow:
            continue
        want = collections.defaultdict(lambda: [0, 0])
        for correlation, dur in trace.device:
            call = trace.call.get(correlation)
            name = trace.row(kind, *call) if call else None
            if name is not None:
                want[name][0] += dur
                want[name][1] += 1
        for name in sorted(set(got) | set(want)):
            checked += 1
            if got.get(name) != (tuple(want[name]) if name in want else None):
                print(f"{kind} {name}: tacho {got.get(name)}, brute force {tuple(want[name]) if name in want else None}")
                wrong += 1
        if rest != total - sum(v[0] for v in want.values()):
            print(f"{kind}: unattributed {rest}, brute force {total - sum(v[0] for v in want.values())}")
            wrong += 1
    return checked, wrong, ""


exact.run(Trace, compare, reports=len(KINDS))
