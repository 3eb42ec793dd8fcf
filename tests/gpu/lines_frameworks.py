# SPDX-License-Identifier: Apache-2.0
"""Lines about programs of PyTorch and JAX (torch_loop.py, jax_loop.py), beside their own profilers."""
import json
import os
import sys

from board import PROGRAMS, ask, books, kernels, losses, near, one, rows_of, short, size

PLAIN = ("--overhead", "0")
TORCH, JAX = os.path.join(PROGRAMS, "torch_loop.py"), os.path.join(PROGRAMS, "jax_loop.py")


def names_of(path, window):
    rows = ask(path, "SELECT DISTINCT n.text AS name FROM slice JOIN string c ON c.id = category JOIN string n ON n.id = name "
                     f"WHERE c.text = 'kernel' AND start BETWEEN {int(window[0])} AND {int(window[1])}")
    return {r["name"] for r in rows}


def not_here(board, numbers, own, status, err, what):
    """Rows for a program that does not run: open where a package is missing, else a failure."""
    missing = own.get("missing")
    for number in numbers:
        board.row(number, what, f"not run: no {missing}" if missing else f"status {status}: {err.strip()[-200:]}",
                  "open" if missing else "FAIL")


def torch_loop(board):
    """Lines 1 and 2: the same steps with torch.profiler alone, and with tacho alone; without any before and after."""
    steps = str(size(30, 12))
    status, out, err = board.run([sys.executable, TORCH, "both", steps])
    own = books(out)
    if "step_ms" not in own or status:
        not_here(board, ("1", "2"), own, status, err, "PyTorch")
        return
    path, traced, status, err = board.record("torch", [sys.executable, TORCH, "plain", steps], PLAIN)
    if status or "window_ns" not in traced:
        not_here(board, ("1", "2"), {}, status, err, "PyTorch under tacho")
        return
    k, names, lost = kernels(path, traced["window_ns"]), names_of(path, traced["window_ns"]), losses(path)
    mine, theirs = k["n"] / traced["steps"], own["kernels"] / own["profiled_steps"]
    ms, their_ms = k["ms"] / traced["steps"], own["kernel_ms"] / own["profiled_steps"]
    differ = {"tacho": sorted(names - set(own["names"])), "torch": sorted(set(own["names"]) - names)}
    board.said.append("names of one side only: " + json.dumps(differ) + "\n")
    board.row("1", "kernels of a step, beside torch.profiler", f"{mine:.1f} / {theirs:.1f}, {ms:.2f} / {their_ms:.2f} ms, {len(names)} / "
              f"{len(own['names'])} names, {len(differ['tacho'] + differ['torch'])} of one side only, lost {short(lost)}",
              "ok" if near(mine, theirs, 0.01) and near(ms, their_ms, 0.05) and near(len(names), len(own["names"]), 0.02) and not lost
              else "FAIL")
    again = books(board.run([sys.executable, TORCH, "plain", steps])[1])
    base = min(own["step_ms"], again.get("step_ms", own["step_ms"]))
    slow, their_slow = (traced["step_ms"] / base - 1) * 100, (own["profiled_step_ms"] / base - 1) * 100
    verdict = "ok" if slow <= 2 else "FAIL"
    board.row("2", "slowdown of a GPT-2 124M step", f"{slow:+.2f} % (torch.profiler {their_slow:+.2f} %; step {own['step_ms']:.2f} and "
              f"{again.get('step_ms', 0):.2f} ms without, {traced['step_ms']:.2f} ms with)", verdict)


def cost_of_kinds(board):
    """Where the cost of line 2 comes from: blocks of recorded steps in one process, each beside the blocks without before and after it."""
    names = {"10": "kernels", "10,5": "kernels and runtime calls", "": "all of the default"}
    _, own, status, err = board.record("kinds", [sys.executable, TORCH, "blocks", str(size(12, 4))], PLAIN, {"TACHO_GPU_KINDS": "/".join(names)})
    if status or "blocks_ms" not in own:
        not_here(board, ("2c",), own, status, err, "PyTorch")
        return
    on, off = own["blocks_ms"][1::2], own["blocks_ms"][::2]
    for kind, name in enumerate(names.values()):
        pairs = [100 * (2 * ms / (off[i] + off[i + 1]) - 1) for i, ms in enumerate(on) if i % len(names) == kind]
        board.row("2c", f"slowdown of the same step, with {name}", ", ".join(f"{x:+.2f} %" for x in pairs) + f" in {len(pairs)} blocks, step "
                  f"{min(off):.2f} to {max(off):.2f} ms without", "printed")


def compare_inside(board, number, what, mode, steps):
    """torch.profiler inside tacho run: both have the kernels of their steps, and the time between is a row."""
    path, own, status, err = board.record("torch-" + mode, [sys.executable, TORCH, mode, str(steps)], PLAIN)
    if status or "kernels" not in own:
        not_here(board, (number,), own, status, err, what)
        return
    gaps = [r for r in losses(path) if "another profiler" in r["reason"]]
    others = [r for r in losses(path) if "another profiler" not in r["reason"] and "CUDA graph launches" not in r["reason"]]
    before, after = kernels(path, own["before_ns"]), kernels(path, own["after_ns"])
    calls = [rows_of(path, "driver", own[when])["n"] for when in ("before_ns", "after_ns")]
    theirs = own["kernels"] / own["profiled_steps"]
    mine = [before["n"] / own["before_steps"], after["n"] / own["after_steps"]]
    board.row(number, what, f"kernels of a step: torch.profiler {theirs:.1f}, tacho {mine[0]:.1f} before and {mine[1]:.1f} after, driver "
              f"calls {calls[0]} and {calls[1]}, gap rows "
              f"{len(gaps)}, lost besides {short(others)}",
              "ok" if gaps and not others and near(mine[0], theirs, 0.01) and near(mine[1], theirs, 0.01) else "FAIL")


def torch_inside(board):
    compare_inside(board, "5", "torch.profiler inside tacho run", "inside", size(40, 12))


def torch_compile(board):
    compare_inside(board, "13", "torch.compile with CUDA graphs, and torch.profiler inside", "compile", size(30, 12))


def loader(board):
    """Workers that fork after CUDA is up: the job ends by itself, and its own kernels are all there."""
    path, own, status, err = board.record("loader", [sys.executable, TORCH, "loader", str(size(30, 6))], PLAIN)
    if status or "steps" not in own:
        not_here(board, ("10",), own, status, err, "loader workers")
        return
    k, lost = kernels(path)["n"], losses(path)
    processes = one(path, "SELECT count(*) AS n FROM process")
    board.row("10", "forked loader workers", f"status {status}, {processes} processes for {own['workers']} workers, {k} kernels in {own['steps']} "
              f"steps, lost {short(lost)}", "ok" if k >= own["steps"] and not lost else "FAIL")


def nccl(board):
    """One rank: NCCL loads the plugin and calls it; what it reports depends on NCCL, which shortens collectives of one rank."""
    calls = size(20, 4)
    path, own, status, err = board.record("nccl", [sys.executable, TORCH, "nccl", str(calls)], PLAIN, {"NCCL_DEBUG": "INFO"})
    if status or "calls" not in own:
        not_here(board, ("12",), own, status, err, "NCCL")
        return
    rows = ask(path, "SELECT t.kind AS kind, count(*) AS n FROM slice JOIN track t ON t.id = track JOIN string n ON n.id = slice.name "
                     "WHERE replace(lower(n.text), '_', '') LIKE '%allreduce%' GROUP BY 1")
    loaded = "PROFILER/Plugin" in own.get("said", "") or "tacho" in own.get("said", "") or any(r["kind"] == "comm" for r in rows)
    board.row("12", "NCCL's profiler plugin, one rank", f"NCCL {own.get('nccl')}, plugin {'loaded' if loaded else 'not seen'}; rows of {calls} calls: "
              + (", ".join(f"{r['n']} on {r['kind']} tracks" for r in rows) or "none"), "ok" if loaded and rows else "FAIL")


def jax_loop(board):
    """JAX: its kernels, also with its own profiler in between."""
    path, own, status, err = board.record("jax", [sys.executable, JAX, str(size(30, 6))], PLAIN,
                                          {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "2"})
    if status or "steps" not in own:
        not_here(board, ("14",), own, status, err, "JAX")
        return
    before, after = kernels(path, own["before_ns"])["n"], kernels(path, own["after_ns"])["n"]
    gaps = [r for r in losses(path) if "another profiler" in r["reason"]]
    others = [r for r in losses(path) if "another profiler" not in r["reason"] and " cut at " not in r["reason"]]  # XLA's long names
    board.row("14", "JAX, with its own profiler in between", f"{before} and {after} kernels in {own['steps']} steps each, trace of JAX "
              f"{own['trace_bytes']} bytes, gap rows {len(gaps)}, lost besides {short(others)}",
              "ok" if before >= own["steps"] and own["trace_bytes"] > 1000 and not others else "FAIL")
