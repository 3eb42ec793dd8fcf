#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Probability of running out of memory, by `tacho plan`, against runs of the engine whose address space is limited.

    tests/bench/plan_memory.py BUILD [POINTS [SEED [clear]]]

Draws configurations (layers, width, heads, sequence, batch, accumulation, type, recomputation; one rank, or two replicas) and a limit around what each
is predicted to need, runs each for a step under `ulimit -v`, and counts how many ran out, by predicted probability. What a process needs beside the
memory that the engine counts (code that is generated for its GEMMs, stacks, libraries, MPI) is measured first, on one shape for each type, number of
ranks and of micro-batches, by halving the interval of limits in which it runs. Exit code 1: the counts contradict the probabilities (fewer than 1 in 1000 tables would be as far off, by simulation), or a
run that failed fails without a limit too. With `clear` the limits are far from what is needed, so that few points say enough. No quiet machine is needed."""
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile

MIB = 1024 * 1024
BINS = [(0, 0.02), (0.02, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 0.98), (0.98, 1.01)]
NAMES = ["below 2 %", "2 to 10 %", "10 to 50 %", "50 to 90 %", "90 to 98 %", "above 98 %"]
AROUND, CLEAR = 0.10, (0.4, 0.6)  # of ln(needed / limit): drawn up to; drawn from, to
TABLES = 20000
PATIENCE = 90  # seconds; a step takes one to ten, also beside other programs
SHAPE = {"layers": 4, "width": 192, "heads": 6, "seq": 128, "batch": 8, "accumulate": 1, "recompute": "none"}


def draw_shape(draw):
    head, heads = draw.choice([32, 64]), draw.choice([4, 6, 8])
    return {"layers": draw.choice([4, 6, 8]), "width": head * heads, "heads": heads, "seq": draw.choice([128, 256]), "batch": draw.choice([4, 8, 16]),
            "accumulate": draw.choice([1, 2]), "recompute": draw.choice(["none", "block"])}


def command(build, shape, dtype, ranks, limit):
    words = [os.path.join(build, "train"), "gpt2-tiny", "--steps", shape.get("steps", 1), "--log-every", "0", "--layers", shape["layers"], "--channels", shape["width"],
             "--heads", shape["heads"], "--seq", shape["seq"], "--batch", shape["batch"], "--accumulate", shape["accumulate"], "--dtype", dtype,
             "--recompute", shape["recompute"]]
    if limit:
        words = ["bash", "-c", f'ulimit -v {limit // 1024}; exec "$@"', "limited"] + words
    if ranks > 1:
        words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", ranks] + words
    return [str(word) for word in words]


def runs(words):
    """Does it end well? A matrix library that gets no memory may crash, or wait for ever for a thread that left."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                               # the C library reserves 64 MiB of addresses for each thread that allocates, if it can: one arena is enough
                               env={**os.environ, "MALLOC_ARENA_MAX": "1"})
    try:
        return process.wait(timeout=PATIENCE) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False


def model(shape):
    return f"layers={shape['layers']},width={shape['width']},heads={shape['heads']},vocab=256,gated=0,tied=1"


def plan(build, shape, dtype, ranks, anchor, memory):
    """needed bytes and the probability that `memory` is not enough."""
    batch = shape["batch"] * shape["accumulate"] * ranks
    recompute = "full" if shape["recompute"] == "block" else "none"
    kept = f"tp=1,pp=1,cp=1,zero=0,recompute={recompute}"
    out = subprocess.run(
        [os.path.join(build, "tacho"), "plan", model(shape), "--gpu", "cpu", "--gpus", str(ranks), "--dtype", dtype, "--batch", str(batch), "--seq",
         str(shape["seq"]), "--layout", f"mbs={shape['batch']},{kept}", "--from", anchor, "--run-model", model(SHAPE), "--run",
         f"gpus=1,batch={SHAPE['batch']},seq={SHAPE['seq']},mbs={SHAPE['batch']},tp=1,pp=1,cp=1,zero=0,recompute=none", "--memory", str(int(memory)),
         "--json"], capture_output=True, text=True, check=False)
    if out.returncode > 1:
        sys.exit(out.stderr)
    found = json.loads(out.stdout)["memory"]
    return found["needed_bytes"], found["oom_probability"], found["fit"]


def measure_beside(build, shape, dtype, ranks, needed, precision):
    """Bytes that a process needs beside what the engine counts, to `precision`."""
    low, high = int(needed), int(needed) + 512 * MIB
    if not runs(command(build, shape, dtype, ranks, high)):
        sys.exit(f"{dtype}, {ranks} ranks: does not run with {high / MIB:.0f} MiB of address space")
    while high - low > precision:
        middle = (low + high) // 2
        if runs(command(build, shape, dtype, ranks, middle)):
            high = middle
        else:
            low = middle
    return high - needed


def unlikely(points, draw):
    """Share of tables, drawn from the probabilities, whose bins are as far off as what happened (sum of squares over variances)."""
    def distance(happened):
        far = 0.0
        for low, high in BINS:
            chosen = [(chance, out) for (chance, _), out in zip(points, happened) if low <= chance < high]
            variance = sum(chance * (1 - chance) for chance, _ in chosen)
            far += (sum(out for _, out in chosen) - sum(chance for chance, _ in chosen)) ** 2 / max(variance, 0.05)
        return far
    found = distance([out for _, out in points])
    return sum(distance([draw.random() < chance for chance, _ in points]) >= found for _ in range(TABLES)) / TABLES


def print_table(points):
    print("| probability | runs | expected to run out | ran out |\n|---|--:|--:|--:|")
    for (low, high), name in zip(BINS, NAMES):
        chosen = [(chance, out) for chance, out in points if low <= chance < high]
        print(f"| {name} | {len(chosen)} | {sum(chance for chance, _ in chosen):.1f} | {sum(out for _, out in chosen)} |")
    score = sum((chance - out) ** 2 for chance, out in points) / len(points)
    print(f"\nBrier score {score:.3f}")


def word_of(share):
    """What a plan says of this share of the capacity."""
    return "may not fit" if 0.95 < share <= 1.05 else "fits" if share < 1 else "does not fit"


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    build = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    clear = "clear" in sys.argv[4:]
    points, beside, wrong = [], {}, 0
    with tempfile.TemporaryDirectory() as folder:
        anchor = os.path.join(folder, "anchor.tacho")
        subprocess.run([os.path.join(build, "tacho"), "run", "-o", anchor, "--"] + command(build, {**SHAPE, "steps": 12}, "fp32", 1, 0), capture_output=True, check=True)
        for _ in range(count):
            shape, dtype, ranks = draw_shape(draw), draw.choice(["fp32", "bf16"]), draw.choice([1, 2])
            if clear:
                shape["accumulate"], dtype, ranks = 1, "fp32", 1
            far = draw.choice([-1, 1]) * draw.uniform(*CLEAR) if clear else draw.uniform(-AROUND, AROUND)
            key = dtype, ranks, shape["accumulate"]
            if key not in beside:
                like = {**SHAPE, "accumulate": shape["accumulate"]}
                needed = plan(build, like, dtype, ranks, anchor, 1e12)[0]
                beside[key] = measure_beside(build, like, dtype, ranks, needed, 32 * MIB if clear else MIB // 2)
                print(f"{dtype}, ranks: {ranks}, micro-batches: {shape['accumulate']}: {beside[key] / MIB:.0f} MiB beside the {needed / MIB:.0f} that are counted",
                      flush=True)
            needed = plan(build, shape, dtype, ranks, anchor, 1e12)[0]
            memory = needed * math.exp(-far)
            _, chance, fit = plan(build, shape, dtype, ranks, anchor, memory)
            ran = runs(command(build, shape, dtype, ranks, int(memory + beside[key])))
            if not ran and not runs(command(build, shape, dtype, ranks, 0)):
                sys.exit(f"does not run without a limit either: {' '.join(command(build, shape, dtype, ranks, 0))}")
            points.append((chance, not ran))
            wrong += fit != word_of(needed / memory)
            if "rows" in sys.argv[4:]:
                print(f"{dtype} {ranks} {shape}: {needed / MIB:.1f} MiB, limit {memory / MIB:.1f}: {100 * chance:.1f} %, {'ran' if ran else 'ran out'}", flush=True)
    print_table(points)
    chance = unlikely(points, draw)
    print(f"share of tables that are as far off, were the probabilities right: {chance:.3f}; words that contradict the margin of 5 %: {wrong}")
    return 1 if wrong or chance < 0.001 else 0


if __name__ == "__main__":
    sys.exit(main())
