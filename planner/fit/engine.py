#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs of the reference engine against `tacho plan`: memory by its closed forms, step time scaled by one run.

    planner/fit/engine.py BUILD [CONFIGURATIONS [SEED [memory]]]

Draws configurations (layers, width, heads, sequence, batch, type, recomputation; 1, 2 and 4 ranks that are replicas with every stage of ZeRO, divide
layers, sequences, or are stages of a pipeline in every order), records one run of each, and one anchor for each division of the ranks and type. Each is
predicted from its anchor. Prints a row a configuration and the two shares that count: memory within 2 %, step time inside the interval of 90 %. Times
want a quiet machine; with the word `memory` runs have three steps and times are not judged."""
import json
import os
import random
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1])
count = int(sys.argv[2]) if len(sys.argv) > 2 else 40
draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
only_memory = "memory" in sys.argv[4:]
TACHO, TRAIN = os.path.join(build, "tacho"), os.path.join(build, "train")
WHOLE = {"dp": 1, "tp": 1, "pp": 1, "cp": 1, "zero": 0, "sp": 0, "schedule": "1f1b", "vpp": 1, "micro": 1}
ANCHOR = {"layers": 4, "width": 192, "heads": 6, "seq": 128, "batch": 4, "recompute": "none"}


def strategies():
    """Every way in which 1, 2 and 4 ranks share the work, by the number of ranks."""
    out = {1: [{}, {"micro": 2}]}
    for ranks in (2, 4):
        out[ranks] = [{"dp": ranks, "zero": zero} for zero in range(4)]
        for parts in (2, 4)[:ranks // 2]:
            rest = {"dp": ranks // parts}
            out[ranks] += [{"tp": parts, **rest}, {"tp": parts, "sp": 1, **rest}, {"cp": parts, **rest}, {"cp": parts, "zero": 2, **rest}]
            out[ranks] += [{"pp": parts, "schedule": schedule, "micro": 2 * parts, **rest} for schedule in ("gpipe", "1f1b", "zb-h1")]
            out[ranks] += [{"pp": parts, "vpp": 2, "micro": micro, **rest} for micro in (parts, 2 * parts)]
    out[4] += [{"tp": 2, "pp": 2, "micro": 4}, {"tp": 2, "pp": 2, "sp": 1, "micro": 4}, {"dp": 2, "pp": 2, "zero": 2, "micro": 2},
               {"dp": 2, "pp": 2, "zero": 3, "micro": 2}, {"tp": 2, "pp": 2, "schedule": "zb-h1", "micro": 4}]
    return {ranks: [{**WHOLE, **members} for members in rows] for ranks, rows in out.items()}


def configuration(share):
    """A shape that these ranks can divide."""
    parts, stages = share["tp"] * share["cp"], share["pp"] * share["vpp"]
    head = draw.choice([32, 64])
    heads = draw.choice([heads for heads in (2, 4, 6) if heads % parts == 0])
    layers = draw.choice([layers for layers in (2, 3, 4, 6) if layers >= stages and (share["vpp"] == 1 or layers % stages == 0)] or [stages])
    recompute = "none" if share["schedule"] == "zb-h1" else draw.choice(["none", "none", "block"])
    return {"layers": layers, "width": head * heads, "heads": heads, "seq": draw.choice([64, 128, 256]), "batch": draw.choice([2, 4, 8]), "recompute": recompute}


def anchor_of(share):
    """The shape of the run that predictions begin with: with heads and layers that the ranks divide."""
    heads = 4 if share["tp"] * share["cp"] == 4 else ANCHOR["heads"]
    return {**ANCHOR, "heads": heads, "width": 32 * heads, "layers": max(ANCHOR["layers"], share["pp"] * share["vpp"])}


def record(shape, share, ranks, dtype, path):
    """One run: seconds of a step, bytes of the largest rank."""
    command = [TRAIN, "gpt2-tiny", "--steps", 3 if only_memory else 25, "--layers", shape["layers"], "--channels", shape["width"], "--heads", shape["heads"],
               "--seq", shape["seq"], "--batch", shape["batch"], "--dtype", dtype, "--recompute", shape["recompute"], "--accumulate", share["micro"]]
    if share["tp"] * share["pp"] * share["cp"] > 1:
        command += ["--layout", ".".join(f"{name}{share[name]}" for name in ("dp", "tp", "pp", "cp") if share[name] > 1)]
    command += ["--zero", share["zero"]] if share["zero"] else []
    command += ["--sequence-parallel"] if share["sp"] else []
    if share["pp"] > 1:
        command += ["--pipeline", "interleaved", "--chunks", share["vpp"]] if share["vpp"] > 1 else ["--pipeline", share["schedule"]]
    if ranks > 1:
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", ranks] + command
    words = [str(word) for word in command]
    done = subprocess.run([TACHO, "run", "-o", path, "--"] + words, capture_output=True, check=False, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr or done.stdout}")
    report = json.loads(subprocess.run([TACHO, "report", path, "--json"], capture_output=True, check=True, text=True).stdout)
    return report["steps"]["median_ms"] / 1e3, report["memory"]["rank_peak_bytes"]


def model(shape):
    return f"layers={shape['layers']},width={shape['width']},heads={shape['heads']},vocab=256,gated=0,tied=1"


def layout(shape, share):
    recompute = "full" if shape["recompute"] == "block" else "none"
    return f"mbs={shape['batch']},recompute={recompute}," + ",".join(f"{name}={share[name]}" for name in WHOLE if name != "micro")


def predict(shape, share, ranks, dtype, anchor):
    batch, like = share["micro"] * share["dp"], anchor_of(share)
    out = subprocess.run(
        [TACHO, "plan", model(shape), "--gpu", "cpu", "--gpus", str(ranks), "--dtype", dtype, "--batch", str(shape["batch"] * batch), "--seq",
         str(shape["seq"]), "--layout", layout(shape, share), "--from", anchor, "--run-model", model(like), "--run",
         f"gpus={ranks},batch={like['batch'] * batch},seq={like['seq']}," + layout(like, share), "--json"], capture_output=True, text=True, check=False)
    if out.returncode > 1:
        sys.exit(out.stderr)
    return json.loads(out.stdout)


def words_of(share):
    """What is not as on one rank."""
    return " ".join(f"{name}={value}" for name, value in share.items() if value != WHOLE[name]) or "whole"


def main():
    held = fit = 0
    kinds = strategies()
    drawn = {}
    with tempfile.TemporaryDirectory() as folder:
        anchors = {}
        for number in range(count):
            ranks, dtype = draw.choice([1, 2, 4]), draw.choice(["fp32", "bf16"])
            share = draw.choice(kinds[ranks])
            shape, key = configuration(share), f"{ranks}-{dtype}-{words_of(share)}".replace(" ", "-")
            drawn[words_of(share)] = drawn.get(words_of(share), 0) + 1
            if key not in anchors:
                anchors[key] = os.path.join(folder, f"anchor-{key}.tacho")
                record(anchor_of(share), share, ranks, dtype, anchors[key])
            seconds, size = record(shape, share, ranks, dtype, os.path.join(folder, f"{number}.tacho"))
            plan = predict(shape, share, ranks, dtype, anchors[key])
            time, memory = plan["time"], plan["memory"]["device_bytes"]
            inside, close = time["low_s"] <= seconds <= time["high_s"], abs(memory / size - 1) <= 0.02
            held, fit = held + inside, fit + close
            print(f"{ranks} {dtype} {words_of(share)} {shape}: {time['step_s'] * 1e3:.1f} ms [{time['low_s'] * 1e3:.1f}, {time['high_s'] * 1e3:.1f}],"
                  f" measured {seconds * 1e3:.1f}{'' if inside else ' OUTSIDE'}; memory {memory / size - 1:+.2%}{'' if close else ' OFF'}", flush=True)
    print(f"drawn: {len(drawn)} of {len({words_of(share) for rows in kinds.values() for share in rows})} ways to share the work")
    print(f"step time inside the interval: {'not judged' if only_memory else held} of {count}; memory within 2 %: {fit} of {count}")


main()
