# SPDX-License-Identifier: Apache-2.0
"""Timelines of workers: one whose even step is known, damage to it, and comparison with published results.

workers.py write TIMELINE TRUTH | damage TIMELINE OUT | check REPORT TRUTH | public REPORT FOLDER JOB
"""
import gzip
import json
import sys

STAGES, DATA, BATCHES, STEPS = 3, 2, 4, 8
FORWARD, BACKWARD = [10, 10, 16], [20, 20, 32]  # ms of a stage
TRANSFER, GATHER, SCATTER, CLIP, OPTIMIZER = 0.5, 3, 4, 1, 2
SLOW = 1  # data-parallel rank whose work is 3 % longer


def order(stage):
    """All forward, then all backward; transfers block both sides."""
    ops = []
    for way, first, last in (("forward", 0, STAGES - 1), ("backward", STAGES - 1, 0)):
        for k in range(BATCHES):
            if stage != first:
                ops.append((way + "-recv", k))
            ops.append((way + "-compute", k))
            if stage != last:
                ops.append((way + "-send", k))
    return ops


def partner(name, stage):
    return stage + (1 if name in ("forward-send", "backward-recv") else -1)


def compute_ms(name, stage, data, even):
    kinds = FORWARD if name == "forward-compute" else BACKWARD
    if even:
        return sum(kinds) / STAGES * (1 + 1.03) / 2
    return kinds[stage] * (1.03 if data == SLOW else 1)


def run_step(even, emit):
    """Every operation in the order of its worker. Returns when each worker is done."""
    ready = {(s, d): GATHER for s in range(STAGES) for d in range(DATA)}
    for worker in ready:
        emit("params-all-gather", worker, 0, GATHER, 0)
    todo = {worker: order(worker[0]) for worker in ready}
    while any(todo.values()):
        for worker, ops in todo.items():
            if not ops:
                continue
            (name, batch), (stage, data) = ops[0], worker
            if name.endswith("compute"):
                length = compute_ms(name, stage, data, even)
                emit(name, worker, ready[worker], length, batch)
                ready[worker] += length
                ops.pop(0)
                continue
            other = partner(name, stage), data
            back = name.replace("send", "recv") if "send" in name else name.replace("recv", "send")
            if todo[other] and todo[other][0] == (back, batch):
                start = max(ready[worker], ready[other])
                emit(name, worker, start, TRANSFER, batch)
                emit(back, other, start, TRANSFER, batch)
                ready[worker] = ready[other] = start + TRANSFER
                ops.pop(0)
                todo[other].pop(0)
    return ready


def finish(ready, emit):
    for stage in range(STAGES):
        start = max(ready[stage, d] for d in range(DATA))
        for data in range(DATA):
            emit("grads-reduce-scatter", (stage, data), start, SCATTER, 0)
            ready[stage, data] = start + SCATTER
    start = max(ready.values())
    for worker in ready:
        emit("optimizer-clip-main-grad", worker, start, CLIP, 0)
        emit("optimizer", worker, start + CLIP, OPTIMIZER, 0)
    return start + CLIP + OPTIMIZER


def write(path, truth):
    events, base = [], 1000.0
    for stage in range(STAGES):
        for data in range(DATA):
            for place, stream in enumerate(("compute", "pp-comm", "dp-comm")):
                events.append({"ph": "M", "name": "thread_name", "pid": data, "tid": stage * 100 + data * 10 + place,
                               "args": {"name": "PP rank %d, TP rank 0, %s" % (stage, stream)}})
    step = 0

    def emit(name, worker, start, length, sequence):
        stage, data = worker
        place = 0 if name.endswith("compute") or name == "optimizer" else 1 if "recv" in name or "send" in name else 2
        events.append({"name": name, "cat": name, "pid": data, "tid": stage * 100 + data * 10 + place, "ph": "X",
                       "ts": base + start * 1e3, "dur": length * 1e3,
                       "args": {"step": step, "model_chunk": 0, "mb_id": sequence, "seq_id": sequence}})

    for k in range(STEPS):
        step = 7 + 3 * k
        length = finish(run_step(False, emit), emit)
        base += (length + 5) * 1e3
    even = finish(run_step(True, lambda *a: None), lambda *a: None)
    json.dump(events, open(path, "w"))
    json.dump({"step_ms": length, "ideal_ms": even}, open(truth, "w"))


def damage(path, out):
    events = json.load(open(path))
    ops = [e for e in events if e["ph"] == "X"]
    ops[5]["dur"] = -1
    ops[9]["ts"] = "NaN"
    del ops[12]["args"]["step"]
    ops[15]["args"]["seq_id"] = 1 << 40
    ops[18]["pid"] = -3
    ops[21]["name"] = "alien-op"
    ops[24]["tid"] = 99999
    json.dump(events, open(out, "w"))


def near(what, said, known, within):
    assert abs(said / known - 1) <= within, "%s: %s, known %s" % (what, said, known)


def finding(report):
    return [f for f in report["findings"] if f["id"] == "PIPELINE_IMBALANCE"][0]


def check(report, truth):
    even = report["ranks"]["even"]
    near("recorded", even["recorded_ms"], truth["step_ms"], 1e-5)
    near("ideal", even["ideal_ms"], truth["ideal_ms"], 1e-5)
    near("steps", even["steps"], STEPS, 0)
    near("stage", even["slow_stage"] + 1, STAGES, 0)
    work = [BATCHES * (f + b) * (1 + 1.03) / 2 + OPTIMIZER for f, b in zip(FORWARD, BACKWARD)]
    near("excess", even["slow_stage_excess_pct"], 100 * (max(work) * STAGES / sum(work) - 1), 1e-5)
    assert even["rank"] == 2 * (STAGES - 1) + SLOW, even["rank"]
    gain = finding(report)["gain_pct"]
    assert gain["low"] <= gain["expected"] <= gain["high"] and gain["low"] >= 2, gain
    print(even, truth)


def public(report, folder, job):
    result = json.load(gzip.open("%s/straggler_result-%s.json.gz" % (folder, job)))
    stage = json.load(open("%s/straggler_ms-%s.json" % (folder, job)))
    even = report["ranks"]["even"]
    near("ideal step", even["ideal_ms"] / 1e3, stage["tideal"], 0.02)
    near("step", even["recorded_ms"] / 1e3, stage["tori"], 0.02)
    near("part of the last stage", even["slow_stage_share_pct"] / 100, stage["Ms"], 0.05)
    slow = max(result["blocking_decompose_by_stage"], key=lambda k: result["blocking_decompose_by_stage"][k])
    assert even["slow_stage"] == int(slow), (even["slow_stage"], slow)
    replicas = result["blocking_decompose_by_dp_rank"]
    worst = max(replicas, key=replicas.get)
    assert even["rank"] == int(slow) * len(replicas) + int(worst), (even["rank"], slow, worst)
    near("that replica", 1 + even["rank_pct"] / 100, replicas[worst], 0.02)
    assert finding(report) and report["ranks"]["straggler"]["count"] == 0
    print("%s: ideal %.1f ms, theirs %.1f; stage %s brings %.1f %%, theirs %.1f; worker %d"
          % (job, even["ideal_ms"], 1e3 * stage["tideal"], slow, even["slow_stage_share_pct"], 100 * stage["Ms"],
             even["rank"]))


mode = sys.argv[1]
if mode == "write":
    write(sys.argv[2], sys.argv[3])
elif mode == "damage":
    damage(sys.argv[2], sys.argv[3])
elif mode == "check":
    check(json.load(open(sys.argv[2])), json.load(open(sys.argv[3])))
else:
    public(json.load(open(sys.argv[2])), sys.argv[3], sys.argv[4])
