#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What two revisions of tacho cost, run after run in turn: events, drain, and a recorded training step.

usage: pairs.py OLD NEW [PAIRS]      two build folders with `all` and the benchmarks agent and drain; PAIRS: 10, 24 s each

The runs have the order old new new old old new ..., so that a drift of the machine falls on both, and neighbours of one revision
show the noise. A row has the medians of both, the median over the pairs of new/old - 1 with a 95 % interval (bootstrap), and the
same of neighbours of one revision. OVER: the whole interval of the change is above that of the noise. Both revisions record the
same program, `train` of the new build. Exit status: 1 where a row is OVER.
"""
import math
import os
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile

STEPS = ["gpt2-tiny", "--batch", "1", "--seq", "64", "--steps", "600"]


def rows(*command):
    """The benchmark's rows: what, measured."""
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    return [line.split("\t")[:2] for line in out.splitlines() if "\t" in line]


def number(pattern, text):
    return float(re.search(pattern, text).group(1))


def measure(build, train):
    """Name of each cost, and its value: the lower the better."""
    found = {}
    for what, measured in rows(f"{build}/tests/bench/agent", build):
        if "event" in what or "counter" in what or ("NVTX push+pop" in what and "no tool" not in what):
            found[what.strip() + ", ns"] = number(r"^([0-9.]+) ns", measured)
    drained = rows(f"{build}/tests/bench/drain", "1")
    bare = number(r"^([0-9.]+) M", drained[0][1])
    for what, measured in drained:
        if what.startswith("drain"):
            found["drain, ns a slice"] = 1000 / number(r"^([0-9.]+) M", measured)
            found["drain, times of bare SQLite"] = bare / number(r"^([0-9.]+) M", measured)
            break
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run.tacho"
        subprocess.run([f"{build}/tacho", "run", "--no-peak", "-o", run, "--", train, *STEPS],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        with sqlite3.connect(run) as db:
            steps = [end - start for start, end in db.execute('SELECT start, "end" FROM step WHERE "end" IS NOT NULL')][10:]
    found["step, median, us"] = statistics.median(steps) / 1000
    found["step, 9 of 10 are shorter, us"] = statistics.quantiles(steps, n=10)[8] / 1000
    return found


def interval(ratios):
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return [100 * (math.exp(x) - 1) for x in (statistics.median(ratios), medians[50], medians[1949])]


def main(arguments):
    if len(arguments) not in (2, 3):
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    old, new = map(os.path.abspath, arguments[:2])
    pairs = int(arguments[2]) if len(arguments) == 3 else 10
    runs = []
    for pair in range(pairs):
        for build in (new, old) if pair % 2 else (old, new):
            runs.append((build, measure(build, f"{new}/train")))
        print(f"pair {pair + 1} of {pairs}", file=sys.stderr)
    is_over = False
    print(f"{'what':<52}{'old':>9}{'new':>9}   new/old")
    for name in runs[0][1]:
        value = [(build, found[name]) for build, found in runs if name in found]
        if len(value) < len(runs):
            continue
        log = [(build, math.log(x)) for build, x in value]
        change = [b[1] - a[1] if a[0] == old else a[1] - b[1] for a, b in zip(log[::2], log[1::2])]
        noise = [b[1] - a[1] for a, b in zip(log[1::2], log[2::2])]
        median, low, high = interval(change)
        floor = max(map(abs, interval(noise)[1:])) if noise else math.inf
        is_over |= low > floor
        medians = [statistics.median(x for build, x in value if build == one) for one in (old, new)]
        print(f"{name:<52}{medians[0]:>9.2f}{medians[1]:>9.2f}   {median:+.1f} % [{low:+.1f}, {high:+.1f}], noise {floor:.1f} %"
              f"   {'OVER' if low > floor else 'within noise' if high >= -floor else 'less'}")
    return 1 if is_over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
