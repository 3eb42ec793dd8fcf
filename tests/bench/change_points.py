#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Change points of tacho beside those of Otava and ruptures, on the same series, as a table in Markdown.

    tests/bench/change_points.py BUILD [SERIES] [SEED]

Series of 60 runs that differ by 2.4 % (normal), unchanged or longer by some per cent from a run between 20 and 40 on. Programs that are
not installed (pip install apache-otava ruptures) are left out with a message.
"""
import random
import subprocess
import sys
import time

RUNS, SD = 60, 0.024


def make(count, change, rng):
    series = []
    for _ in range(count):
        at = rng.randint(20, 40)
        series.append((at, [47 * (1 + SD * rng.gauss(0, 1)) * (1 + change if i >= at else 1) for i in range(RUNS)]))
    return series


def tacho(build):
    def run(series):
        text = "".join(" ".join(map(repr, values)) + "\n" for _, values in series)
        out = subprocess.run([build + "/tests/bench/change_points"], input=text, capture_output=True, text=True, check=True).stdout
        return [[tuple(map(int, p.split())) for p in line.split(",")] if line else [] for line in out.splitlines()]
    return run


def otava():
    from otava.series import AnalysisOptions, Metric, Series
    options = AnalysisOptions()

    def run(series):
        found = []
        for _, values in series:
            analyzed = Series("s", None, list(range(len(values))), {"step": Metric(1, 1.0)}, {"step": values}, {}).analyze(options)
            found.append([(p.index, p.index, p.index) for p in analyzed.change_points["step"]])
        return found
    return run


def ruptures():
    import math
    import numpy
    import ruptures as rpt

    def run(series):
        found = []
        for _, values in series:
            logs = numpy.log(numpy.array(values))
            sd = numpy.median(numpy.abs(numpy.diff(logs))) / 0.6745 / math.sqrt(2)  # not moved by one change
            # BIC's penalty doubled: with the plain one a third of the unchanged series show changes
            ends = rpt.Pelt(model="l2", min_size=3, jump=1).fit(logs / sd).predict(pen=4 * math.log(len(values)))
            found.append([(e, e, e) for e in ends[:-1]])
        return found
    return run


def main():
    build = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    tools = {"tacho": tacho(build)}
    for name, maker in (("Otava", otava), ("ruptures (PELT, l2)", ruptures)):
        try:
            tools[name] = maker()
        except ImportError as problem:
            print(f"{name}: left out ({problem})", file=sys.stderr)
    print(f"{count} series of {RUNS} runs each, sd {100 * SD} %, seed {seed}\n")
    print("| change | program | found | within 1 | within 5 | 90 % range holds | runs in it | ms a series |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for change in (0, 0.02, 0.03, 0.05):
        series = make(count, change, random.Random(seed))
        for name, run in tools.items():
            begun = time.perf_counter()
            found = run(series)
            ms = 1e3 * (time.perf_counter() - begun) / count
            hits = [(at, min(points, key=lambda p: abs(p[0] - at))) for (at, _), points in zip(series, found) if points]
            row = [f"{100 * change:.0f} %", name, f"{100 * len(hits) / count:.1f} %"]
            if change and hits:
                row += [f"{100 * sum(abs(p[0] - at) <= d for at, p in hits) / len(hits):.0f} %" for d in (1, 5)]
                ranged = name == "tacho"
                row += [f"{100 * sum(p[1] <= at <= p[2] for at, p in hits) / len(hits):.0f} %" if ranged else "",
                        f"{sum(p[2] - p[1] + 1 for _, p in hits) / len(hits):.1f}" if ranged else ""]
            else:
                row += [""] * 4
            print("| " + " | ".join(row + [f"{ms:.1f}"]) + " |")


main()
