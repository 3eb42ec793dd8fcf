#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs of the reference engine against `tacho plan`: memory by its closed forms, step time scaled by one run.

    planner/fit/engine.py BUILD [CONFIGURATIONS [SEED]]

Draws configurations (layers, width, heads, sequence, batch, type, recomputation; 1, 2 and 4 ranks), records one run of each, and one anchor for each
number of ranks and type. Each is predicted from its anchor. Prints a row a configuration and the two shares that count: memory within 2 %, step
time inside the interval of 90 %. Times want a quiet machine."""
import json
import os
import random
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1])
count = int(sys.argv[2]) if len(sys.argv) > 2 else 40
draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
TACHO, TRAIN = os.path.join(build, "tacho"), os.path.join(build, "train")
ANCHOR = {"layers": 4, "width": 192, "heads": 6, "seq": 128, "batch": 4, "recompute": "none"}


def configuration():
    head = draw.choice([32, 64])
    heads = draw.choice([2, 4, 6])
    return {"layers": draw.choice([2, 3, 4, 6]), "width": head * heads, "heads": heads, "seq": draw.choice([64, 128, 256]),
            "batch": draw.choice([2, 4, 8]), "recompute": draw.choice(["none", "none", "block"])}


def record(shape, ranks, dtype, path):
    command = [TRAIN, "gpt2-tiny", "--steps", "25", "--layers", shape["layers"], "--channels", shape["width"], "--heads", shape["heads"],
               "--seq", shape["seq"], "--batch", shape["batch"], "--dtype", dtype, "--recompute", shape["recompute"]]
    if ranks > 1:
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", ranks] + command
    subprocess.run([TACHO, "run", "-o", path, "--"] + [str(word) for word in command], capture_output=True, check=True)
    report = json.loads(subprocess.run([TACHO, "report", path, "--json"], capture_output=True, check=True, text=True).stdout)
    return report["steps"]["median_ms"] / 1e3, report["memory"]["rank_peak_bytes"]


def model(shape):
    return f"layers={shape['layers']},width={shape['width']},heads={shape['heads']},vocab=256,gated=0,tied=1"


def predict(shape, ranks, dtype, anchor):
    recompute = "full" if shape["recompute"] == "block" else "none"
    out = subprocess.run(
        [TACHO, "plan", model(shape), "--gpu", "cpu", "--gpus", str(ranks), "--dtype", dtype, "--batch", str(shape["batch"] * ranks), "--seq",
         str(shape["seq"]), "--layout", f"mbs={shape['batch']},tp=1,pp=1,cp=1,zero=0,recompute={recompute}", "--from", anchor, "--run-model",
         model(ANCHOR), "--run", f"gpus={ranks},batch={ANCHOR['batch'] * ranks},seq={ANCHOR['seq']},mbs={ANCHOR['batch']},tp=1,pp=1,cp=1,zero=0,"
         "recompute=none", "--json"], capture_output=True, text=True, check=False)
    if out.returncode > 1:
        sys.exit(out.stderr)
    return json.loads(out.stdout)


def main():
    held = fit = 0
    with tempfile.TemporaryDirectory() as folder:
        anchors = {}
        for number in range(count):
            ranks, dtype, shape = draw.choice([1, 2, 4]), draw.choice(["fp32", "bf16"]), configuration()
            if (ranks, dtype) not in anchors:
                anchors[ranks, dtype] = os.path.join(folder, f"anchor-{ranks}-{dtype}.tacho")
                record(ANCHOR, ranks, dtype, anchors[ranks, dtype])
            seconds, size = record(shape, ranks, dtype, os.path.join(folder, f"{number}.tacho"))
            plan = predict(shape, ranks, dtype, anchors[ranks, dtype])
            time, memory = plan["time"], plan["memory"]["device_bytes"]
            inside, close = time["low_s"] <= seconds <= time["high_s"], abs(memory / size - 1) <= 0.02
            held, fit = held + inside, fit + close
            print(f"{ranks} {dtype} {shape}: {time['step_s'] * 1e3:.1f} ms [{time['low_s'] * 1e3:.1f}, {time['high_s'] * 1e3:.1f}],"
                  f" measured {seconds * 1e3:.1f}{'' if inside else ' OUTSIDE'}; memory {memory / size - 1:+.2%}{'' if close else ' OFF'}", flush=True)
    print(f"step time inside the interval: {held} of {count}; memory within 2 %: {fit} of {count}")


main()
