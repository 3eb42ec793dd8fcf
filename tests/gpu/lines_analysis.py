# SPDX-License-Identifier: Apache-2.0
"""Lines about what the report says of a recording: verdicts, energy, roofline, hardware counters."""
import json
import os
import sqlite3

from board import TACHO, WORK, ask, books, near, size
from lines_recorder import MILLISECOND, PLAIN, own_job


SHORT_OF_CORES_PCT = 10


def short_of_cores(report, mode, own):
    """Why a verdict is not judged, or "". A thread that waits for a core launches nothing, whatever binds the job: on a machine that others
    keep busy another verdict may be right. The report says how much of the steps' time that was, if the run was long enough to sample it;
    the job's own books say what its launches were of a step."""
    waited = ((report.get("advice") or {}).get("cores") or {}).get("short_pct") or 0
    if waited > SHORT_OF_CORES_PCT:
        return f" Not judged: {waited:.0f} % of the steps' time their thread waited for a core"
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        return f" Not judged: {os.getloadavg()[0]:.0f} programs want the {os.cpu_count()} cores"
    share = 100 * own["launch_ns"] * own["kernels"] / own["steps"] / (1e6 * own["step_ms"])
    if mode == "launch" and share < 80:
        return f" Not judged: launches were {share:.0f} % of a step by the job's own books"
    return ""


def report_of(board, path, *options):
    done = board.run([TACHO, "report", "--json", path, *options], log_output=False)
    return json.loads(done[1]) if done[0] == 0 else {}


def verdicts(board):
    for mode, steps, count, wanted in (("gpu", 30, 20, "DEVICE-BUSY"), ("launch", 30, 2000, "LAUNCH-BOUND"),
                                       ("loader", 20, 5, "INPUT-BOUND"), ("copy", 30, 2, "COPY-BOUND")):
        cycles = MILLISECOND if mode == "gpu" else "200000"
        path, own = own_job(board, "4", "verdict-" + mode, mode, size(steps, 12), size(count, 5), cycles)
        if not path:
            continue
        report = report_of(board, path)
        good, why = report.get("verdict_class") == wanted, short_of_cores(report, mode, own)
        board.row("4", f"a job bound by {mode}", (report.get("verdict") or "no report") + ("" if good else why),
                  "ok" if good else ("open" if why else "FAIL"))


def energy(board):
    """Joules a step in the report against what the job itself read from NVML, around the same kind of steps."""
    path, own = own_job(board, "7", "energy", "gpu", size(300, 150), 20, MILLISECOND)
    if not path:
        return
    found = report_of(board, path).get("energy") or {}
    step = found.get("per_step_j")
    if own.get("joule", -1) <= 0 or step is None:
        board.row("7", "energy a step", f"NVML tells the job {own.get('joule')} J, the report {step}",
                  "open" if own.get("joule", -1) <= 0 else "FAIL")
        return
    theirs = own["joule"] / own["joule_steps"]
    board.row("7", "energy a step, beside NVML's own counter", f"{step:.3f} J / {theirs:.3f} J ({found['power_w']:.0f} W)",
              "ok" if near(step, theirs, 0.02) else "FAIL")


def roofline(board):
    """Ceilings measured by a program of its own are put into the file; no product may stand above them."""
    roof = books(board.run([WORK, "roof", str(size(20))])[1])
    if "bf16_flops" not in roof:
        board.row("3", "ceilings", f"not measured: no {roof.get('missing', 'answer')}", "open")
        return
    path, own, status, _ = board.record("roofline", [WORK, "gemm", str(size(20, 5)), str(size(40, 8))], (*PLAIN, "--gemm-shapes"))
    if status or "missing" in own:
        board.row("3", "a run of products", f"status {status} {own}", "FAIL")
        return
    with sqlite3.connect(path) as db:
        db.executemany("INSERT INTO ceiling VALUES (?, ?, ?, ?, 'measured: tests/gpu/work.cu')",
                       [("", "flops", "bf16", roof["bf16_flops"]), ("", "bandwidth", "", roof["bytes_per_s"])])
    points = [x for x in (report_of(board, path).get("roofline") or {}).get("points") or [] if x["dtype"] == "bf16"]
    over = [x for x in points if x["flops"] / x["time_us"] * 1e6 > 1.02 * roof["bf16_flops"]]
    best = max((x["flops"] / x["time_us"] * 1e6 for x in points), default=0)
    board.row("3", "ceilings and roofline", f"bf16 {roof['bf16_flops'] / 1e12:.0f} TFLOP/s, memory {roof['bytes_per_s'] / 1e12:.2f} TB/s; "
              f"{len(points)} shapes of 4, best {best / 1e12:.0f} TFLOP/s, {len(over)} above",
              "ok" if len(points) >= 4 and not over else "FAIL")


def counters(board):
    """Hardware counters: what the permission allows. 3b: over time, and over steps; 3c: over the ranges inside them."""
    count = size(400, 8)
    for mode, key in (("sampled", "counters.sampled"), ("roofline", "counters.roofline")):
        path, own, status, _ = board.record("counters-" + mode, [WORK, "gemm", "40", str(count)], (*PLAIN, "--counters", mode))
        said = ask(path, f"SELECT value FROM run WHERE key = '{key}'") if status == 0 else []
        text = said[0]["value"] if said else f"status {status}"
        verdict = "ok" if "metrics" in text else "FAIL"
        if "not permitted" in text or "missing" in own:
            verdict = "open"
        gpus = report_of(board, path).get("hardware") or [{}]
        step = gpus[0].get("step") or {}
        if mode == "sampled":
            text += f"; matrix units {gpus[0].get('pm_tensor_active_pct')} %"
        else:
            flops = count // 4 * 2 * (4096**3 + 4096 * 768 * (2304 + 3072) + 4096 * 16 * 4096)
            text += f"; matrix operations {step.get('matrix_ops')}, of the shapes {flops}"
            if verdict == "ok" and not near(step.get("matrix_ops"), flops, 0.05):
                verdict = "FAIL"
        board.row("3b", f"hardware counters, {mode}", text, verdict)
    ranges(board, path, step, count // 4, verdict == "open")


def ranges(board, path, step, count, closed):
    """The ranges of a step of `gemm`, counted one by one: each has the operations of its own shape, all of them the step's."""
    found = {x["name"]: x for x in report_of(board, path).get("ranges_counted") or []}
    said = ask(path, "SELECT value FROM run WHERE key = 'counters.ranges'")
    wanted = {"square": count * 2 * 4096**3, "qkv": count * 2 * 4096 * 2304 * 768, "down": count * 2 * 4096 * 768 * 3072}
    ops = {name: (found.get(name) or {}).get("matrix_ops") for name in wanted}
    total = sum(x.get("matrix_ops") or 0 for x in found.values())
    good = all(near(ops[name], wanted[name], 0.05) for name in wanted) and near(total, step.get("matrix_ops"), 0.02)
    text = "; ".join(f"{name} {ops[name]} of {wanted[name]}" for name in wanted) + f"; all {total:.6g} of {step.get('matrix_ops')}"
    board.row("3c", "hardware counters of ranges", f"{said[0]['value'] if said else 'none'}; {text}",
              "open" if closed else ("ok" if good else "FAIL"))
