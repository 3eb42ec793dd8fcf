# SPDX-License-Identifier: Apache-2.0
"""Lines about the reference engine on CUDA: its steps against those of its plain C, and how fast it trains GPT-2."""
import os
import re

from board import KIT, REHEARSAL, size

TRAIN = os.path.join(KIT, "train")
# tests/gpu/shim in a rehearsal; else the library that `make cuda` built, which lies beside train
LIBRARY = {"LT_CUDA_LIBRARY": os.path.realpath(os.path.join(REHEARSAL, "libtrain_cuda.so"))} if REHEARSAL else {}
STEPS = 3 if REHEARSAL else 5  # the third is the first that only replays what was captured
STEP = re.compile(r"^step +(\d+)/\d+ +loss ([\d.]+) +norm ([\d.]+) .* ([\d.]+) ms +(\d+) tok/s", re.M)
PEAKS = {"H100": 989.4e12, "H200": 989.4e12, "A100": 312e12, "B200": 2250e12}  # dense bf16, of the data sheets (docs/engine.md)


def train(board, model, *options):
    """Status, the steps that were printed, the other lines."""
    status, out, err = board.run([TRAIN, model, "--data", board.file("text"), "--workers", "0", "--log-every", "1", *options], LIBRARY)
    steps = [(float(x[1]), float(x[2]), float(x[3])) for x in STEP.findall(out)]
    return status, steps, out + err


def write_text(board):
    with open(board.file("text"), "w", encoding="ascii") as f:
        f.writelines(f"{i} bottles of beer on the wall, {i} bottles of beer\n" for i in range(4000))


def apart(one, other):
    """The largest relative difference of losses and norms, step by step."""
    return max((abs(a - b) / abs(b) for x, y in zip(one, other) for a, b in zip(x[:2], y[:2])), default=1.0)


def parity(board):
    small = ("--steps", str(STEPS), "--batch", "1", "--seq", "32")
    for dtype, bound in (("fp32", 1e-3), ("bf16", 1e-2)):
        status, got, said = train(board, "gpt2-tiny", *small, "--device", "cuda", "--dtype", dtype)
        if status or len(got) != STEPS:
            board.row("15", f"{STEPS} steps in {dtype}", f"status {status}: {said.strip()[-200:]}", "FAIL")
            continue
        _, eager, _ = train(board, "gpt2-tiny", *small, "--device", "cuda", "--dtype", dtype, "--no-graph")
        _, want, _ = train(board, "gpt2-tiny", *small, "--backend", "reference", "--dtype", dtype)
        same = [x[:2] for x in got] == [x[:2] for x in eager]
        board.row("15", f"{STEPS} steps in {dtype}", f"losses and norms within {apart(got, want):.1e} of the reference; a captured step prints "
                  f"{'the same as' if same else 'something else than'} a launched one",
                  "ok" if len(want) == STEPS and apart(got, want) <= bound and same else "FAIL")


def speed(board):
    """The fastest half of the steps after the first ten: a step of GPT-2 124M, bf16, whole sequences, as one CUDA graph."""
    model, *shape = ("gpt2-tiny", "--batch", "1", "--seq", "32") if REHEARSAL else \
        ("gpt2-124M", "--vocab", "50304", "--seq", "1024", "--batch", "32")
    status, steps, said = train(board, model, *shape, "--device", "cuda", "--dtype", "bf16", "--steps", str(size(40, 4)))
    gflop = re.search(r"([\d.]+) model GFLOP; bf16, cuda \((.*)\)", said)
    if status or not gflop or len(steps) < 4:
        board.row("16", f"{model} in bf16", f"status {status}: {said.strip()[-200:]}", "FAIL")
        return
    times = sorted(x[2] for x in steps[len(steps) // 4:])
    ms = times[len(times) // 4]
    tokens = int(shape[shape.index("--seq") + 1]) * int(shape[shape.index("--batch") + 1])
    rate = float(gflop[1]) * 1e9 / (ms / 1e3)
    peak = next((peak for name, peak in PEAKS.items() if name in gflop[2]), None)
    share = f"causal MFU {100 * rate / peak:.1f} % of {peak / 1e12:.0f} TFLOP/s" if peak else "no peak known"
    board.row("16", f"{model} in bf16, {' '.join(shape)}", f"{gflop[2]}: {ms:.2f} ms a step, {1e3 * tokens / ms:.0f} tok/s, "
              f"{rate / 1e12:.1f} TFLOP/s, {share}", "printed")


def engine(board):
    if not os.path.exists(TRAIN):
        for number, what in (("15", "steps of the engine"), ("16", "speed of the engine")):
            board.row(number, what, "no train in the kit", "open")
        return
    write_text(board)
    parity(board)
    speed(board)
