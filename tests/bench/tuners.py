#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The search of tacho beside random search, greedy restarts and Optuna's TPE, on spaces that were measured once, as a table in Markdown.

    tests/bench/tuners.py BUILD RESULTS CACHE... [--seeds N] [--evaluations N] [--tuners LIST] [--minutes N] [--jobs N]

CACHE is a file of Kernel Tuner in the T4 format. RESULTS is a folder that keeps a file for each space and tuner, a line a seed: a second
call goes on and prints what there is. A figure is the best found / optimum, median over the seeds. Optuna is left out where it is not
installed (pip install optuna); a configuration that the space does not have, or that was looked up before, costs it no evaluation.
"""
import argparse
import csv
import io
import math
import os
import random
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

AT = (20, 50, 100)
PEERS = ("random", "greedy", "optuna")


def space_name(cache):
    return os.path.basename(cache).split(".")[0].removesuffix("_T4")


def optuna_search(names, levels, values, evaluations, seed):
    import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    numeric = [all(v.replace(".", "").replace("-", "").isdigit() for v in column) for column in levels]
    seen, best, trace = set(), math.inf, []
    for _ in range(20 * evaluations):
        if len(trace) == evaluations:
            break
        trial = study.ask()
        key = tuple(column[trial.suggest_int(name, 0, len(column) - 1)] if is_number else trial.suggest_categorical(name, column)
                    for name, column, is_number in zip(names, levels, numeric))
        value = values.get(key)
        if value is None or math.isnan(value):
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, value)
        if value is None or key in seen:
            continue
        seen.add(key)
        best = best if math.isnan(value) else min(best, value)
        trace.append(best)
    return trace


def optuna_some(path, evaluations, first, last):
    """What the process of some seeds does: prints their traces, a line each, from the table of the space in a file."""
    with open(path) as file:
        rows = list(csv.reader(file))
    names, values = rows[0][:-1], {tuple(row[:-1]): float(row[-1]) for row in rows[1:]}
    used = [i for i in range(len(names)) if len({key[i] for key in values}) > 1]
    values = {tuple(key[i] for i in used): value for key, value in values.items()}
    levels = [sorted({key[i] for key in values}, key=lambda v: (float(v) if v.replace(".", "").isdigit() else 0, v)) for i in range(len(used))]
    optimum = min(v for v in values.values() if not math.isnan(v))
    for seed in range(first, last + 1):
        trace = optuna_search([names[i] for i in used], levels, values, evaluations, seed)
        print(" ".join(f"{v / optimum:.6g}" for v in trace), flush=True)


def run(job, options, begun):
    """Runs one tuner on one space, in pieces of seeds; what a file has is not run again."""
    cache, tuner = job
    path = os.path.join(options.results, f"{space_name(cache)}.{tuner}")
    have = sum(1 for _ in open(path)) if os.path.exists(path) else 0
    program = options.build + "/tests/bench/tuners"
    table = path + ".table"
    if tuner == "optuna" and have < options.seeds and not os.path.exists(table):
        out = subprocess.run([program, cache, "table"], capture_output=True, text=True, check=True).stdout
        with open(table, "w") as file:
            file.write(out)
    while have < options.seeds and time.time() - begun < 60 * options.minutes:
        last = min(have + 5, options.seeds)
        search = [program, cache, tuner] if tuner != "optuna" else [sys.executable, __file__, "--some", table]
        out = subprocess.run([*search, str(options.evaluations), str(have + 1), str(last)], capture_output=True, text=True, check=True)
        with open(path, "a") as file:
            file.write(out.stdout)
        have = last


def load(options, cache, tuner):
    path = os.path.join(options.results, f"{space_name(cache)}.{tuner}")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [[float(v) for v in line.split()] for line in file if line.strip()]


def median_at(rows, count):
    values = [row[min(count, len(row)) - 1] for row in rows if row]
    return statistics.median(values) if values else None


def ratios(options, peer, count):
    """Logarithms of tacho's median / a peer's, a space each."""
    out = []
    for cache in options.caches:
        ours, theirs = (median_at(load(options, cache, tuner), count) for tuner in ("tacho", peer))
        if ours and theirs:
            out.append(math.log(ours / theirs))
    return out


def interval(values, rng):
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(2000))
    return means[100], means[1899]


def table(options, out):
    tuners = [t for t in ("tacho", *PEERS) if any(load(options, c, t) for c in options.caches)]
    out.write("| space | " + " | ".join(f"{t}, {n}" for t in tuners for n in AT) + " | seeds |\n")
    out.write("|---" * (len(tuners) * len(AT) + 2) + "|\n")
    for cache in options.caches:
        rows = {t: load(options, cache, t) for t in tuners}
        cells = [median_at(rows[t], n) for t in tuners for n in AT]
        seeds = "/".join(str(len(rows[t])) for t in tuners)
        out.write(f"| {space_name(cache)} | " + " | ".join("" if c is None else f"{c:.3f}" for c in cells) + f" | {seeds} |\n")
    for peer in tuners[1:]:
        for count in AT[1:]:
            logs = ratios(options, peer, count)
            if logs:
                low, high = interval(logs, random.Random(1))
                out.write(f"\nmean log ratio to {peer} after {count}: {statistics.fmean(logs):+.4f} (90 % {low:+.4f} .. {high:+.4f}, "
                          f"{len(logs)} spaces); ≤ 1.03 × its median in {sum(v <= math.log(1.03) for v in logs)}\n")


def main():
    if sys.argv[1:2] == ["--some"]:
        return optuna_some(sys.argv[2], *map(int, sys.argv[3:6]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("results")
    parser.add_argument("caches", nargs="+")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--evaluations", type=int, default=100)
    parser.add_argument("--tuners", default="tacho,random,greedy,optuna")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    os.makedirs(options.results, exist_ok=True)
    tuners = options.tuners.split(",")
    if "optuna" in tuners and subprocess.run([sys.executable, "-c", "import optuna"], capture_output=True, check=False).returncode:
        print("optuna is not installed: left out", file=sys.stderr)
        tuners.remove("optuna")
    begun = time.time()
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda job: run(job, options, begun), [(c, t) for t in tuners for c in options.caches]))
    out = io.StringIO()
    table(options, out)
    print(out.getvalue(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
