#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs drawn by seed, each with one planted cause among fourteen: does tacho name it first, and does its gain hold?

usage: tests/frameworks/draws.py BUILD [--seed N] [--count N] [--pairs N] [--out FILE] [--cause NAME,...] [--only NAME] [--seconds N] [--report]

Each draw is a program (draw.py) that is recorded once with its cause. The truth are pairs of runs without tacho, with the cause and
without it, in turn; two runs with the cause in a row are the A/A comparison. Results are lines of JSON in FILE (default:
BUILD/draws-SEED.jsonl); draws that are there are not run again, so the series can be interrupted. --report prints the summary only.
--pairs 0 looks at the first finding only. --cause: of the draws those of these causes; --only: all draws are of it, for instance
`--only healthy --count 30 --pairs 0`: mapped data, caches, changing shapes and workers in turn, none of which is a leak.
--seconds: no draw begins later. A machine that does other things meanwhile makes the pairs noisy: the summary says how many draws had OTHER_PROGRAMS in front.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 300

# cause -> ids of findings that name it. None: no finding that promises a gain.
CAUSES = {
    "slow_loader": ("INPUT_STALL",),
    "host_python": ("PYTHON_HOST",),
    "host_sleep": ("PYTHON_HOST",),
    "garbage": ("GARBAGE",),
    "checkpoint": ("CHECKPOINT",),
    "evaluation": ("EVALUATION",),
    "leak": ("LEAK",),
    "recompile": ("RECOMPILE",),
    "ddp_microstep": ("DDP_SYNC_EACH_MICROSTEP",),
    "ddp_buffers": ("DDP_BUFFERS",),
    "straggler": ("STRAGGLER", "SLOW_STAGE", "PYTHON_HOST"),
    "uneven": ("UNEVEN_DATA", "STRAGGLER", "SLOW_STAGE"),
    "threads": ("IDLE_CORES", "THREADS"),
    "healthy": None,
}
RANKS = ("ddp_microstep", "ddp_buffers", "straggler", "uneven")
WITHOUT_GAIN = ("leak", "healthy")
# what a healthy program reads and keeps
DATA = ("made", "mapped", "cached", "lengths", "workers", "losses")


def make_draw(seed, number, cause):
    """The parameters of one program."""
    r = random.Random("%d %d" % (seed, number))
    draw = {"seed": number, "cause": cause, "ranks": 2 if cause in RANKS else 1, "steps": r.choice((80, 120))}
    draw["model"] = r.choice(("mlp", "attention", "convolution"))
    if cause in ("recompile", "ddp_buffers", "ddp_microstep"):
        draw["model"] = "mlp"
    draw["inputs"] = r.choice((64, 144, 256))
    draw["width"] = {"mlp": r.choice((256, 512)), "attention": r.choice((64, 128)), "convolution": r.choice((64, 128))}[draw["model"]]
    draw["layers"] = r.randint(1, 3)
    draw["rows"] = {"mlp": r.choice((128, 256)), "attention": r.choice((16, 32)), "convolution": r.choice((16, 32))}[draw["model"]]
    if cause == "threads":
        draw.update(model="mlp", width=1024, rows=256, steps=60)
    draw["milliseconds"] = r.choice((5, 10, 20, 40))
    draw["heap"] = r.choice((50000, 100000, 200000))
    draw["leak"] = r.choice((60000, 120000))  # elements kept a step
    if cause in WITHOUT_GAIN:
        draw["steps"] = 600  # growth is judged over 3 s at least
    draw["every"] = r.choice((4, 8, 10))
    draw["evaluations"] = r.choice((20, 40))
    draw["data"] = "made"
    if cause == "healthy":
        draw["data"] = DATA[number % len(DATA)]
    return draw


def run_program(python, draw, how, recorder=()):
    """Runs it in a folder of its own. Returns what the last line of its output says."""
    with tempfile.TemporaryDirectory() as folder:
        launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(draw["ranks"])] if draw["ranks"] > 1 else []
        command = list(recorder) + [python] + launch + [os.path.join(HERE, "draw.py"), json.dumps(draw), how, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"steps"')]
        if done.returncode or not lines:
            raise RuntimeError("%s %s: exit %d: %s" % (draw["cause"], how, done.returncode, done.stderr[-800:]))
        return json.loads(lines[-1])["seconds"]


def record(build, python, draw):
    """The findings of one recording, first to last, its verdict, and whether memory grows (None: not known)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.tacho")
        tacho = os.path.join(build, "tacho")
        run_program(python, draw, "planted", (tacho, "run", "-o", path, "--"))
        done = subprocess.run([tacho, "report", path, "--json"], capture_output=True, text=True, timeout=LIMIT, check=True)
        report = json.loads(done.stdout)
        keep = ("id", "claim", "gain_pct", "listed")
        leak = report["leak"]["found"] if report["leak"] else None
        return [{key: f[key] for key in keep} for f in report["findings"]], report["verdict"], leak


def measure(build, python, draw, pairs):
    findings, verdict, leak = record(build, python, draw)
    gains, noise = [], []
    if draw["cause"] not in WITHOUT_GAIN:
        for _ in range(pairs):
            first = run_program(python, draw, "planted")
            fixed = run_program(python, draw, "fixed")
            second = run_program(python, draw, "planted")
            gains += [100 * (first / fixed - 1), 100 * (second / fixed - 1)]
            noise.append(100 * (first / second - 1))
    return {"draw": draw, "findings": findings, "verdict": verdict, "leak": leak, "gains": gains, "noise": noise}


def interval_of(values):
    """90 % interval of the mean (Student's t for up to eight values)."""
    t = {2: 6.31, 3: 2.92, 4: 2.35, 5: 2.13, 6: 2.02, 7: 1.94, 8: 1.89}.get(len(values), 1.86)
    mean = statistics.mean(values)
    half = t * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("inf")
    return mean - half, mean, mean + half


def judge(result):
    """What the summary counts of one draw."""
    cause, wanted = result["draw"]["cause"], CAUSES[result["draw"]["cause"]]
    found = [f for f in result["findings"] if f["id"] != "OTHER_PROGRAMS"]
    row = {"cause": cause, "loaded": len(found) < len(result["findings"]), "first": found[0]["id"] if found else "-"}
    ranked = [f for f in found if f["listed"] == "ranked"]
    row["named"] = any(f["id"] in (wanted or ()) for f in found)
    if wanted is None:
        row["right"] = not ranked
    else:
        row["right"] = row["first"] in wanted
    mine = next((f for f in found if f["id"] in (wanted or ())), None)
    gain = mine["gain_pct"] if mine else {"low": None, "high": None}
    row["low"], row["high"] = gain["low"], gain["high"]
    if result["gains"]:
        row["measured"] = interval_of(result["gains"])
        row["noise"] = max(abs(value) for value in result["noise"])
    return row


def summary(results):
    rows = [judge(result) for result in results]
    print("%-15s %-24s %-6s %-22s %s" % ("cause", "first finding", "right", "promised, %", "measured, % (90 %)"))
    for row in rows:
        promised = "-"
        if row["high"] is not None:
            promised = "[%.1f, %.1f]" % (row["low"], row["high"]) if row["low"] is not None else "<= %.1f" % row["high"]
        measured = "%.1f [%.1f, %.1f]" % tuple(row["measured"][i] for i in (1, 0, 2)) if "measured" in row else "-"
        print("%-15s %-24s %-6s %-22s %s" % (row["cause"], row["first"], "yes" if row["right"] else "NO", promised, measured))
    gained = [row for row in rows if "measured" in row]
    given = [row for row in gained if row["low"] is not None]
    ceilings = [row for row in gained if row["low"] is None and row["high"] is not None]
    holds = [row for row in given if row["low"] <= row["measured"][1] <= row["high"]]
    touches = [row for row in given if row["low"] <= row["measured"][2] and row["measured"][0] <= row["high"]]
    under = [row for row in ceilings if row["measured"][0] <= row["high"]]
    slower = [row for row in gained if row["measured"][2] < -row["noise"]]
    print("%d draws, %d of them beside other programs" % (len(rows), sum(row["loaded"] for row in rows)))
    print("cause first: %d of %d (%.0f %%); named anywhere: %d" % (
        sum(row["right"] for row in rows), len(rows), 100 * sum(row["right"] for row in rows) / max(1, len(rows)), sum(row["named"] for row in rows)))
    for leaks, words in ((True, "that leak"), (False, "that do not")):
        looked = [result for result in results if (result["draw"]["cause"] == "leak") == leaks and result["leak"] is not None]
        print("programs %s: growth judged in %d, LEAK in %d" % (words, len(looked), sum(result["leak"] for result in looked)))
    if not gained:
        return
    print("intervals: given in %d of %d; %d hold the mean, %d meet its 90 %% interval; median width %s points" % (
        len(given), len(gained), len(holds), len(touches),
        "%.1f" % statistics.median(row["high"] - row["low"] for row in given) if given else "-"))
    print("ceilings: %d, %d of them not below what was measured; slower than the A/A noise after the change: %d" % (
        len(ceilings), len(under), len(slower)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seed", type=int, default=20261124)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--out")
    parser.add_argument("--cause", type=lambda text: text.split(","), default=list(CAUSES))
    parser.add_argument("--only", choices=CAUSES)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    unknown = set(options.cause) - set(CAUSES)
    if unknown:
        parser.error("--cause: %s: not one of %s" % (", ".join(sorted(unknown)), ", ".join(CAUSES)))
    build = os.path.abspath(options.build)
    python = os.environ.get("TORCH_PYTHON") or os.path.join(build, "frameworks", "bin", "python")
    path = options.out or os.path.join(build, "draws-%s%d.jsonl" % (options.only + "-" if options.only else "", options.seed))
    begun = time.monotonic()
    if not os.access(python, os.X_OK):
        print("no PyTorch in %s: make frameworks" % python)
        sys.exit(77)
    results = []
    if os.path.exists(path):
        with open(path) as file:
            results = [json.loads(line) for line in file if line.endswith("}\n")]
    done = {result["draw"]["seed"] for result in results}
    order = random.Random(options.seed)
    causes = [options.only or list(CAUSES)[i % len(CAUSES)] for i in range(options.count)]
    order.shuffle(causes)
    for number, cause in enumerate(causes):
        if options.report or number in done or cause not in options.cause or time.monotonic() - begun > options.seconds:
            continue
        try:
            result = measure(build, python, make_draw(options.seed, number, cause), options.pairs)
        except (RuntimeError, subprocess.SubprocessError) as error:  # tried again by the next call
            print("%3d %-15s not measured: %.300s" % (number, cause, error), flush=True)
            continue
        results.append(result)
        with open(path, "a") as file:
            file.write(json.dumps(result) + "\n")
        row = judge(result)
        print("%3d %-15s %-24s %s" % (number, cause, row["first"], "right" if row["right"] else "WRONG"), flush=True)
    summary(sorted(results, key=lambda result: result["draw"]["seed"]))


if __name__ == "__main__":
    main()
