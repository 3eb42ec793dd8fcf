# SPDX-License-Identifier: Apache-2.0
"""Lines about programs of PyTorch and JAX (torch_loop.py, jax_loop.py), beside their own profilers."""
import concurrent.futures
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
    """The same steps with torch.profiler alone, and with tacho alone."""
    steps = str(size(30, 12))
    status, out, err = board.run([sys.executable, TORCH, "both", steps])
    own = books(out)
    if "step_ms" not in own or status:
        not_here(board, ("1",), own, status, err, "PyTorch")
        return
    path, traced, status, err = board.record("torch", [sys.executable, TORCH, "plain", steps], PLAIN)
    if status or "window_ns" not in traced:
        not_here(board, ("1",), {}, status, err, "PyTorch under tacho")
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


# The programs of lines 2 and 2c: how each is recorded; None: not by tacho.
RECORDED = (("without", None, {}), ("all of the default", (), {}), ("no recording of the device", ("--gpu", "off"), {}),
            ("kernels and runtime calls", (), {"TACHO_GPU_KINDS": "10,5"}), ("copies too", (), {"TACHO_GPU_KINDS": "10,5,1,2"}),
            ("the default without events and synchronization", (), {"TACHO_GPU_KINDS": "1,2,5,8,9,10,22,37"}),
            ("events and synchronization from the start", (), {"TACHO_GPU": "waits"}), ("torch.profiler", None, {}))


def slowdown(board):
    """The same step recorded in several ways, by programs that take turns; each block beside those without recording before and after it."""
    folder = board.file("turns")
    os.mkdir(folder)

    def books_of(index):
        name, options, env = RECORDED[index]
        command = [sys.executable, TORCH, "profiled" if name == "torch.profiler" else "turns", str(size(12, 4)), folder, str(index), str(len(RECORDED))]
        if options is None:
            return books(board.run(command)[1])
        return board.record(f"turns-{index}", command, (*PLAIN, *options), env)[1]

    with concurrent.futures.ThreadPoolExecutor(len(RECORDED)) as pool:
        own = list(pool.map(books_of, range(len(RECORDED))))
    blocks = [x.get("blocks_ms") or [] for x in own]
    if not all(blocks):
        not_here(board, ("2", "2c"), own[0], 1, f"no answer of {sum(not x for x in blocks)} programs", "PyTorch")
        return
    for index, (name, _, _) in enumerate(RECORDED):
        if index == 0:
            continue
        base = [(a + b) / 2 for a, b in zip(blocks[0], blocks[0][1:])]  # the turn lies between these
        pairs = sorted(100 * (ms / bare - 1) for ms, bare in zip(blocks[index], base))
        text = f"median {pairs[len(pairs) // 2]:+.2f} % of {len(pairs)} pairs ({pairs[0]:+.2f} to {pairs[-1]:+.2f} %)"
        text += f"; launched within {min(own[index]['host_ms']):.1f} to {max(own[index]['host_ms']):.1f} ms"
        if index == 1:
            text += f"; without: step {min(blocks[0]):.2f} to {max(blocks[0]):.2f} ms, launched within {min(own[0]['host_ms']):.1f} to {max(own[0]['host_ms']):.1f} ms"
        board.row("2" if index == 1 else "2c", f"slowdown of a GPT-2 124M step: {name}", text,
                  "printed" if index > 1 else ("ok" if pairs[len(pairs) // 2] <= 2 else "FAIL"))


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
