# SPDX-License-Identifier: Apache-2.0
"""Lines about the reference engine on CUDA: its steps against those of its plain C, and how fast it trains GPT-2, beside the model of
a step (step_model.c) and beside PyTorch."""
import json
import os
import re
import sys

from board import KIT, PROGRAMS, REHEARSAL, ask, books, size

TRAIN, MODEL = os.path.join(KIT, "train"), os.path.join(KIT, "step_model")
# tests/gpu/shim in a rehearsal; else the library that `make cuda` built, which lies beside train
LIBRARY = {"LT_CUDA_LIBRARY": os.path.realpath(os.path.join(REHEARSAL, "libtrain_cuda.so"))} if REHEARSAL else {}
STEPS = 3 if REHEARSAL else 5  # the third is the first that only replays what was captured
STEP = re.compile(r"^step +(\d+)/\d+ +loss ([\d.]+) +norm ([\d.]+) .* ([\d.]+) ms +(\d+) tok/s", re.M)
PEAKS = {"H100": 989.4e12, "H200": 989.4e12, "A100": 312e12, "B200": 2250e12}  # dense bf16, of the data sheets (docs/engine.md)


def train(board, model, *options, env=None):
    """Status, the steps that were printed, the other lines."""
    status, out, err = board.run([TRAIN, model, "--data", board.file("text"), "--workers", "0", "--log-every", "1", *options],
                                 {**LIBRARY, **(env or {})})
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


# Model and batch of lines 16 and 17; whole sequences, and a vocabulary of whole packs (docs/engine.md).
SIZES = {"16": ("gpt2-124M", 32), "17": ("gpt2-1558M", 8)}
TUNED = {"LT_CUDA_TUNE": "8"}  # not in line 15: another algorithm has other last bits
TORCH_S = 45  # PyTorch's compiler, which is waited for before its first step


def shape_of(number):
    """Name, batch, sequence, and train's options for them; a rehearsal has time for a small one."""
    name, batch, seq = ("gpt2-tiny", 1, 32) if REHEARSAL else (*SIZES[number], 1024)
    return name, batch, seq, ["--batch", str(batch), "--seq", str(seq), "--device", "cuda", "--dtype", "bf16",
                              *([] if REHEARSAL else ["--vocab", "50304"])]


def device_of(said):
    """The device as tests/gpu/step_model.c knows it, or None."""
    name = re.search(r"cuda \((?:NVIDIA )?([^,]*),", said)
    if REHEARSAL:
        return "H100"
    return name[1] if name else None


def model_of(board, number, device):
    """What step_model says of this step on this device, or {}."""
    name, batch, seq, _ = shape_of(number)
    status, out, _ = board.run([MODEL, name, device or "unknown", str(batch), str(seq), "--json"], log_output=False)
    return json.loads(out) if status == 0 else {}


def one_speed(board, number, steps):
    """Milliseconds of a step (the fastest quarter of those after the first ones), and what train said."""
    name, _, _, options = shape_of(number)
    status, seen, said = train(board, name, *options, "--steps", str(steps), env=TUNED)
    if status or len(seen) < 4:
        board.row(number, f"{SIZES[number][0]} in bf16", f"status {status}: {said.strip()[-200:]}", "FAIL")
        return None, said
    times = sorted(x[2] for x in seen[len(seen) // 4:])
    return times[len(times) // 4], said


def by_part(board, number, model):
    """The kernels of a short run as tacho records them, part by part beside the model: which part misses. From the third step on, without
    the last one: before, cuBLASLt tries its algorithms; a step's kernels run while the host is a step ahead."""
    name, _, _, options = shape_of(number)
    steps = size(8, 4)
    path, _, status, err = board.record("engine-" + number, [TRAIN, name, "--data", board.file("text"), "--workers", "0", *options,
                                                              "--steps", str(steps)], ("--overhead", "0"), {**LIBRARY, **TUNED, "SHIM_DRIVER": "1"})
    rows = ask(path, "SELECT n.text AS name, c.text AS category, sum(dur) AS ns FROM slice JOIN string c ON c.id = category "
                     "JOIN string n ON n.id = name WHERE c.text IN ('kernel', 'memset') AND start >= (SELECT start FROM step "
                     "WHERE \"index\" = 2) AND start < (SELECT max(start) FROM step) GROUP BY 1, 2") if status == 0 else []
    part_of = {k["name"]: k["part"] for k in model["kernels"]}
    wanted, got = {}, {}
    for k in model["kernels"]:
        wanted[k["part"]] = wanted.get(k["part"], 0) + k["ms"]
    for row in rows:  # what none of the engine's kernels is called belongs to cuBLASLt
        kernel = "memset" if row["category"] == "memset" else next((w for w in re.findall(r"\w+", row["name"]) if w in part_of), "matmul")
        part = part_of[kernel]
        got[part] = got.get(part, 0) + row["ns"] / 1e6 / (steps - 3)
    if not got:
        board.row(number, f"{SIZES[number][0]} by part", f"status {status}, no kernels recorded: {err.strip()[-150:]}", "FAIL")
        return
    order = sorted(wanted, key=lambda part: wanted[part] - got.get(part, 0))
    board.row(number, f"{SIZES[number][0]} by part, what misses most first: ms as recorded (as the model has it)",
              "; ".join(f"{part} {got.get(part, 0):.2f} ({wanted[part]:.2f})" for part in order), "printed")


def torch_speed(board, number):
    """PyTorch's step in ms: torch.compile, flash attention, fused AdamW. None where it is not here; a word of why."""
    if board.left() < TORCH_S and not REHEARSAL:
        return None, f"no time left for torch.compile: run.sh KIT OUT {number}"
    name, batch = SIZES[number]
    status, out, err = board.run([sys.executable, os.path.join(PROGRAMS, "torch_loop.py"), "fast", str(size(20, 4)), name, str(batch)])
    own = books(out)
    if status or "step_ms" not in own:
        return None, f"no {own.get('missing', 'answer of PyTorch: status ' + str(status) + ' ' + err.strip()[-100:])}"
    return own["step_ms"], ""


def speed(board, number):
    """The engine, PyTorch, the engine again; the slower one of the engine's two is compared."""
    _, batch, seq, _ = shape_of(number)
    steps = size(40 if number == "16" else 16, 4)
    first, said = one_speed(board, number, steps)
    if first is None:
        return
    gflop = re.search(r"([\d.]+) model GFLOP; bf16, cuda \((.*)\)", said)
    model = model_of(board, number, device_of(said))
    if model:
        by_part(board, number, model)
    theirs, why = torch_speed(board, number)
    again = one_speed(board, number, steps)[0] if theirs else None
    ms = max(first, again or first)
    rate = float(gflop[1]) * 1e9 / (ms / 1e3)
    peak = next((peak for name, peak in PEAKS.items() if name in gflop[2]), None)
    text = f"{gflop[2]}: {ms:.2f} ms a step, {1e3 * batch * seq / ms:.0f} tok/s, {rate / 1e12:.1f} TFLOP/s"
    text += f", causal MFU {100 * rate / peak:.1f} %" if peak else ", no peak known"
    text += f" (model {model['mfu_pct']:.1f} %, goal {model['goal_pct']:.0f} %)" if model else ""
    text += f"; torch.compile with flash attention {theirs:.2f} ms" if theirs else f"; {why}"
    board.row(number, f"{SIZES[number][0]} in bf16, batch {batch}, seq {seq}", text, ("ok" if ms <= theirs else "FAIL") if theirs else "open")


def has_train(board, *numbers):
    if os.path.exists(TRAIN):
        write_text(board)
        return True
    for number in numbers:
        board.row(number, "the engine", "no train in the kit", "open")
    return False


def steps(board):
    if has_train(board, "15"):
        parity(board)


def small(board):
    if has_train(board, "16"):
        speed(board, "16")


def large(board):
    if has_train(board, "17"):
        speed(board, "17")
