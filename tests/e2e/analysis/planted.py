#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces and snapshots drawn by seed, each with one planted cause: does the report name it, with its place or period, and nothing of
the kind where nothing was planted? usage: planted.py TACHO FOLDER DRAWS SEED"""
import json, os, pickle, random, subprocess, sys

STARTS = 1_700_000_000_000_000

# ---- a memory snapshot -------------------------------------------------------------------------------------------------------------


class Allocator:
    """The history of one device: every block in a segment of its own."""

    def __init__(self):
        self.trace, self.at, self.time, self.held = [], 0x7f0000000000, STARTS, {}

    def put(self, action, addr, size, frames=()):
        self.time += 10
        self.trace.append({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": self.time, "frames": list(frames)})

    def alloc(self, size, *frames):
        self.at += 1 << 32
        frames = [{"filename": file, "line": line, "name": name} for file, line, name in frames]
        self.put("segment_alloc", self.at, -(-size // (2 << 20)) * (2 << 20), frames)
        self.put("alloc", self.at, size, frames)
        self.held[self.at] = size
        return self.at

    def free(self, addr):
        size = self.held.pop(addr)
        self.put("free_requested", addr, size)
        self.put("free_completed", addr, size)

    def snapshot(self):
        segments = [{"device": 0, "address": at, "total_size": -(-size // (2 << 20)) * (2 << 20), "allocated_size": size, "active_size": size,
                     "requested_size": size, "stream": 0, "segment_type": "large",
                     "blocks": [{"size": size, "requested_size": size, "state": "active_allocated", "frames": []}]}
                    for at, size in self.held.items()]
        return {"segments": segments, "device_traces": [self.trace]}


def history(r, leak=None, in_place=None):
    """Layers whose activations live until the backward pass; some are made anew and replaced."""
    own, held = Allocator(), []
    layers, steps, size = r.randint(3, 6), r.randint(16, 30), r.randint(2, 12) << 20
    weights = [own.alloc(size * 2, ("/srv/m/model.py", 9, "__init__")) for _ in range(layers)]
    for _ in range(steps):
        live = []
        for layer in range(layers):
            first = own.alloc(size, ("torch/nn/functional.py", 1500, "linear"), ("/srv/m/model.py", 40 + layer, "forward"))
            if in_place == layer:
                second = own.alloc(size, ("/srv/m/model.py", 80 + layer, "forward"))
                own.free(first)
                first = second
            live.append(first)
            if leak == layer:
                held.append(own.alloc((1 << 20) + 512 * layer, ("/srv/m/train.py", 100 + layer, "log")))
        while live:
            own.free(live.pop())
    return own.snapshot(), weights


# ---- a trace of torch.profiler -----------------------------------------------------------------------------------------------------


def trace(r, collect=None, stall=None, breaks=None):
    """Steps of launches and kernels. collect: every so many steps a pause of so many steps' length; stall: a call of the allocator
    that takes so large a part of the step, its name; breaks: the place of a graph break, as the hook for PyTorch marks it, or
    the frame behind it, as torch.profiler does."""
    events, at, number = [], 1000.0, 1
    kernels, step_us = r.randint(4, 7), r.uniform(5000, 20000)
    each = step_us / kernels
    begin = r.randrange(collect[0]) if collect else 0

    def put(category, name, ts, dur, pid=1, tid=1, **args):
        events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": round(ts, 3), "dur": round(dur, 3), "args": args})

    for step in range(collect[0] * 4 if collect else 60):
        start = free = at
        for k in range(kernels):
            if stall and k == kernels // 2:
                put("cuda_runtime", stall[1], at, stall[0] * step_us, correlation=number)
                number, at = number + 1, at + stall[0] * step_us
            if collect and k == kernels // 2 and (step + begin) % collect[0] == 0:
                put("user_annotation", "gc", at, collect[1] * step_us)
                at += collect[1] * step_us
            if breaks and breaks.startswith("frame") and k < 2:
                put("user_annotation", f"Torch-Compiled Region: {k * int(breaks.split()[1])}/0", at, 24)
            elif breaks and k == 1 and step == 0:
                put("user_annotation", "graph break " + breaks + ": call of print", at, 1)
            put("cpu_op", "aten::mm", at, 20)
            put("cuda_runtime", "cudaLaunchKernel", at + 5, 8, correlation=number)
            free, dur = max(free, at + 20), each * r.uniform(0.95, 1.05)
            put("kernel", "sgemm_128x64", free, dur, 0, 7, device=0, stream=7, correlation=number, grid=[64, 1, 1], block=[256, 1, 1])
            number, free, at = number + 1, free + dur, at + each * (0.98 if stall else 0.5)
        at = max(at, free)
        put("user_annotation", f"ProfilerStep#{step}", start, at - start)
        at += 20
    return {"traceEvents": events}


# ---- the causes --------------------------------------------------------------------------------------------------------------------


def report(tacho, path):
    ran = subprocess.run([tacho, "report", path, "--json", "--fields", "findings,allocator"], capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{path}: {ran.stderr}")
    return json.loads(ran.stdout)


def finding(result, name):
    return next((f for f in result["findings"] if f["id"] == name), None)


def named(result, cause, want):
    """What the report says of the cause; "" if it says nothing, None if something else."""
    if cause in ("leak", "in_place"):
        rows = result["allocator"][0]["leaks" if cause == "leak" else "in_place"]
        return rows[0]["name"] if rows else ""
    row = finding(result, {"collector": "GARBAGE", "stall": "HOST_BOUND", "graph_break": "GRAPH_BREAK"}[cause])
    return json.dumps(row) if row else ""


def draw(r, cause, path):
    """Writes a file; returns its path, and the words that the report must have."""
    want, data = "", None
    if cause == "leak":
        place = r.randrange(3)
        data, want = history(r, leak=place)[0], f"/srv/m/train.py({100 + place}): log"
    elif cause == "in_place":
        place = r.randrange(3)
        data, want = history(r, in_place=place)[0], f"/srv/m/model.py({80 + place}): forward"
    elif cause == "collector":
        every = 50
        data, want = trace(r, collect=(every, r.uniform(1.5, 4))), f"every {every} steps"
    elif cause == "stall":
        call = r.choice(("cudaMalloc", "cudaFree", "hipMalloc"))
        data, want = trace(r, stall=(r.uniform(0.1, 0.6), call)), call
    elif cause == "graph_break":
        place = r.choice((f"model.py:{r.randint(10, 99)}", f"frame {r.randint(1, 9)}"))
        data, want = trace(r, breaks=place), place
    elif cause == "healthy":
        data = trace(r)
    else:
        data = history(r)[0]
    path += ".pickle" if isinstance(data, dict) and "segments" in data else ".json"
    with open(path, "wb") as f:
        f.write(pickle.dumps(data) if path.endswith("pickle") else json.dumps(data).encode())
    return path, want


def main(tacho, folder, draws, seed):
    os.makedirs(folder, exist_ok=True)
    failed = 0
    for cause in ("leak", "in_place", "collector", "stall", "graph_break"):
        right = 0
        for i in range(draws):
            r = random.Random(f"{seed} {cause} {i}")
            path, want = draw(r, cause, f"{folder}/{cause}{i}")
            own = named(report(tacho, path), cause, want)
            right += want in own and own != ""
            if want not in own or not own:
                print(f"{path}: '{want}' is not in '{own[:300]}'")
        print(f"{cause}: {right} of {draws}")
        failed += right < draws
    for control, causes in (("healthy", ("collector", "stall", "graph_break")), ("clean", ("leak", "in_place"))):
        for i in range(max(draws // 4, 2)):
            path, _ = draw(random.Random(f"{seed} {control} {i}"), control, f"{folder}/{control}{i}")
            result = report(tacho, path)
            for cause in causes:
                own = named(result, cause, "")
                if own:
                    print(f"{path}: nothing was planted, and {cause} is named: {own[:300]}")
                    failed += 1
    sys.exit(failed > 0)


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
