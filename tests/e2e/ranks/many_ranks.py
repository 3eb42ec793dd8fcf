#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a folder with one synthetic trace for each rank of a data-parallel job, of which the truth is known.

many_ranks.py FOLDER [--format kineto|tacho] [--ranks N] [--steps N] [--kernels N] [--slow R --factor X] [--slow-stage S]
              [--missing R] [--offset-ms X] [--drift-ppm X] [--jitter X] [--no-sequence] [--buckets N] [--seed N]

Every rank has a machine of its own. Its clock is off by a random amount up to --offset-ms and drifts up to --drift-ppm; rank 0's
is the truth. FOLDER/truth.json says by how much. A step: input, forward, backward with buckets of gradients behind each other,
the optimizer; a collective ends on all ranks when its last rank has come and the transfer is over, within some us. The host of a
Kineto trace runs ahead of its device: it launches a step's kernels at once, with the events that streams wait for, and waits for the
device at the end of the step.
"""
import argparse
import json
import os
import random
import sqlite3

US = 1000


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--format", default="kineto", choices=["kineto", "tacho"])
    p.add_argument("--ranks", type=int, default=64)
    p.add_argument("--steps", type=int, default=24)
    p.add_argument("--kernels", type=int, default=16, help="of forward, and of backward")
    p.add_argument("--slow", type=int, default=-1)
    p.add_argument("--factor", type=float, default=1.2)
    p.add_argument("--slow-stage", default="backward", choices=["input", "forward", "backward", "optimizer"])
    p.add_argument("--missing", type=int, default=-1)
    p.add_argument("--offset-ms", type=float, default=0)
    p.add_argument("--drift-ppm", type=float, default=0)
    p.add_argument("--jitter", type=float, default=0.01, help="standard deviation of a stage's time")
    p.add_argument("--buckets", type=int, default=2)
    p.add_argument("--no-sequence", action="store_true", help="collectives without a sequence number")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


STAGES = {"input": 1000 * US, "forward": 6000 * US, "backward": 12000 * US, "optimizer": 1500 * US}
TRANSFER = 800 * US


def plan(a):
    """times[rank] = list of steps: (start, {stage: (start, end)}, [(start, end) of each bucket], end), in true ns."""
    rng = random.Random(a.seed)
    ready = [0] * a.ranks
    times = [[] for _ in range(a.ranks)]
    for _ in range(a.steps):
        stage = []
        for r in range(a.ranks):
            t, at = ready[r], {}
            for name in ("input", "forward"):
                d = duration(a, rng, r, name)
                at[name] = (t, t + d)
                t += d
            d = duration(a, rng, r, "backward")
            at["backward"] = (t, t + d)
            stage.append(at)
        done = [at["backward"][0] for at in stage]
        bucket = [[] for _ in range(a.ranks)]
        for k in range(a.buckets):
            comes = [max(done[r], at["backward"][0] + (at["backward"][1] - at["backward"][0]) * (k + 1) // a.buckets)
                     for r, at in enumerate(stage)]
            end = max(comes) + TRANSFER // a.buckets
            for r in range(a.ranks):
                left = end + abs(int(rng.gauss(0, 3 * US)))
                bucket[r].append((comes[r], left))
                done[r] = left
        for r, at in enumerate(stage):
            t = max(done[r], at["backward"][1])
            d = duration(a, rng, r, "optimizer")
            at["optimizer"] = (t, t + d)
            times[r].append((ready[r], at, bucket[r], t + d))
            ready[r] = t + d + 50 * US
    return times


def duration(a, rng, r, stage):
    d = STAGES[stage] * max(0.5, rng.gauss(1, a.jitter))
    if r == a.slow and stage == a.slow_stage:
        d += (a.factor - 1) * sum(STAGES.values())
    return int(d)


class Clock:
    def __init__(self, offset, drift, middle):
        self.offset, self.drift, self.middle = offset, drift, middle

    def __call__(self, t):
        return t + self.offset + round(self.drift * (t - self.middle))


def kineto(path, a, rank, steps, clock):
    base = 1_700_000_000_000_000_000
    out, corr = [], [0]

    def us(t):
        return f"{t // 1000}.{t % 1000:03d}"

    def event(cat, name, pid, tid, t0, t1, args=""):
        s, e = clock(t0), clock(t1)
        out.append(f'{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{us(s)},"dur":{us(e - s)},"args":{{{args}}}}}')

    def call(name, tid, t, dur=3 * US):
        corr[0] += 1
        event("cuda_runtime", name, 100, tid, t, t + dur, f'"correlation":{corr[0]},"cbid":211')
        return t + dur + US

    def kernel(name, launch, t0, t1, stream, tid, args=""):
        after = call("cudaLaunchKernel", tid, launch, 2 * US)
        event("kernel", name, 0, stream, t0, t1, f'"device":0,"stream":{stream},"correlation":{corr[0]}{args}')
        return after

    def spread(name, t0, t1, n, launch, tid):
        for i in range(n):
            launch = kernel(name, launch, t0 + (t1 - t0) * i // n, t0 + (t1 - t0) * (i + 1) // n, 7, tid)
        return launch

    def wait(stream, other, tid, t):
        """`stream` waits for what was launched on the other one."""
        t = call("cudaEventRecord", tid, t)
        record = corr[0]
        after = call("cudaStreamWaitEvent", tid, t)
        event("cuda_sync", "Stream Wait Event", 0, stream, t, t + US, f'"cuda_sync_kind":"Stream Wait Event","stream":{stream},"device":0,'
              f'"wait_on_stream":{other},"wait_on_cuda_event_record_corr_id":{record},"wait_on_cuda_event_id":{record},"correlation":{corr[0]}')
        return after

    seq = 0
    for k, (start, at, buckets, end) in enumerate(steps):
        event("user_annotation", f"ProfilerStep#{k}", 100, 100, start, end + 20 * US)
        event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 100, 100, at["input"][0], at["input"][1] - 20 * US)
        f0, f1 = at["forward"]
        b0, b1 = at["backward"]
        o0, o1 = at["optimizer"]
        t = f0 - 5 * US
        t = spread("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_fwd>(Params)", f0, f1, a.kernels, t, 100)
        n, part = len(buckets), max(1, a.kernels // len(buckets))
        for i, (s, e) in enumerate(buckets):
            more = "" if a.no_sequence else f',"Seq":{seq}'
            t = spread("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bwd>(Params)", b0 + (b1 - b0) * i // n,
                       b0 + (b1 - b0) * (i + 1) // n, part, t, 200)
            t = wait(20, 7, 200, t)
            t = kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", t, s, e, 20, 200,
                   ',"Collective name":"allreduce","In msg nelems":1000000,"Out msg nelems":1000000,"Group size":%d,'
                   '"dtype":"BFloat16","Process Group Name":"0","Process Group Description":"default_pg"%s' % (a.ranks, more))
            seq += 1
        begin = t
        t = wait(7, 20, 100, t + US)
        t = kernel("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>(T1)", t, o0, o1, 7, 100)
        event("user_annotation", "Optimizer.step#AdamW.step", 100, 100, begin, t)
        call("cudaDeviceSynchronize", 100, t, o1 + 10 * US - t)
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "computeMajor": 9,
            "computeMinor": 0}], "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": a.ranks},
            "host_name": f"node-{rank}", "baseTimeNanoseconds": base}
    with open(path, "w") as f:
        f.write(json.dumps(head)[:-1] + ',"traceEvents":[\n' + ",\n".join(out) + "\n]}\n")


def tacho(path, a, rank, steps, clock):
    schema = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../store/schema.sql")
    db = sqlite3.connect(path)
    db.executescript("PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;PRAGMA application_id=1413695567;PRAGMA user_version=1;" + open(schema).read())
    first, last = clock(steps[0][0]), clock(steps[-1][3])
    boot = 10**13
    db.executemany("INSERT INTO run VALUES(?,?)", [(k, str(v)) for k, v in {
        "tacho.version": "synthetic", "host": f"node-{rank}", "boot_id": f"boot-{rank}", "clock": "monotonic", "job.id": "many",
        "job.ranks": a.ranks, "start.monotonic_ns": boot + first, "end.monotonic_ns": boot + last, "start.realtime_ns": 10**18 + steps[0][0],
        "ended": "complete"}.items()])
    names = {}

    def name(text):
        if text not in names:
            names[text] = len(names) + 1
            db.execute("INSERT INTO string VALUES(?,?)", (names[text], text))
        return names[text]

    details = {}

    def detail(**k):
        key = tuple(sorted(k.items()))
        if key not in details:
            details[key] = len(details) + 1
            db.execute(f"INSERT INTO detail(id,flags,{','.join(k)}) VALUES(?,0,{','.join('?' * len(k))})", (details[key], *k.values()))
        return details[key]

    db.execute("INSERT INTO process VALUES(1,?,?,100,1,'train',NULL,?,?,0,'exit')", (rank, f"node-{rank}", boot + first, boot + last))
    db.execute("INSERT INTO track VALUES(1,1,'thread','main',NULL,100,NULL)")
    db.execute("INSERT INTO clock_anchor VALUES(NULL,?,?)", (boot + first, 10**18 + steps[0][0] + rank * 1000 * US))
    rows, category = [], name("libtrain")

    def slice_(t0, t1, text, d, sequence=None):
        s, e = clock(t0), clock(t1)
        rows.append((1, boot + s, e - s, name(text), category, d, sequence))

    seq = 0
    for k, (start, at, buckets, end) in enumerate(steps):
        slice_(start, end, "step", detail(schema="tacho.step"))
        db.execute("INSERT INTO step VALUES(1,?,?,?,1024,8,0)", (k, boot + clock(start), boot + clock(end)))
        slice_(*at["input"], "input_wait", detail(schema="tacho.range", kind="input_wait"))
        for stage in ("forward", "backward", "optimizer"):
            t0, t1 = at[stage]
            slice_(t0, t1, stage, detail(schema="tacho.range", kind="host"))
            n = a.kernels if stage != "optimizer" else 1
            for i in range(n):
                slice_(t0 + (t1 - t0) * i // n, t0 + (t1 - t0) * (i + 1) // n, f"matmul.{stage}" if n > 1 else "adamw",
                       detail(schema="tacho.work", kind="matrix", dtype="bf16", **{"pass": stage}, flops=10**6))
            if stage == "backward":
                slice_(t1, at["optimizer"][0], "comm_wait", detail(schema="tacho.range", kind="comm_wait"))
        for s, e in buckets:
            t0 = max(s, at["backward"][1])
            d = detail(schema="tacho.comm", collective="all_reduce", bytes=2000000, communicator=1, ranks=a.ranks)
            s2, e2 = clock(s), clock(e)
            rows.append((2, boot + s2, e2 - s2, name("all_reduce"), category, d, seq))
            seq += 1
    db.execute("INSERT INTO track VALUES(2,1,'thread','comm-0',NULL,101,NULL)")
    db.executemany("INSERT INTO slice(track,start,dur,name,category,detail,correlation) VALUES(?,?,?,?,?,?,?)", rows)
    db.commit()
    db.close()


def main():
    a = arguments()
    os.makedirs(a.folder)
    times = plan(a)
    rng = random.Random(a.seed + 1)
    middle = times[0][-1][3] // 2
    truth = {"ranks": {}}
    for r in range(a.ranks):
        offset = 0 if r == 0 else round(rng.uniform(-1, 1) * a.offset_ms * 1e6)
        drift = 0 if r == 0 else rng.uniform(-1, 1) * a.drift_ppm * 1e-6
        truth["ranks"][r] = {"offset_ns": offset, "drift": drift, "middle_ns": middle}
        if r == a.missing:
            continue
        write = kineto if a.format == "kineto" else tacho
        suffix = "json" if a.format == "kineto" else "tacho"
        write(os.path.join(a.folder, f"rank{r}.{suffix}"), a, r, times[r], Clock(offset, drift, middle))
    json.dump(truth, open(os.path.join(a.folder, "truth.txt"), "w"))


main()
