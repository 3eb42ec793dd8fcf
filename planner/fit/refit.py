#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the planner's constants (planner/base/constants.h) to a table of published runs, and says how well it predicts what it was not fitted to.

    planner/fit/refit.py TACHO CSV time          fit to all sources; prints the constants
    planner/fit/refit.py TACHO CSV time --left   refit with one source left out at a time; prints its errors
    planner/fit/refit.py TACHO CSV memory [--left]   the same for memory; layout sets (model and year) instead of sources

The model itself is the program: each trial is one `tacho plan --check`. Least squares of ln(predicted / measured) by Gauss-Newton with the pull
towards the start values that the table gives; every source has the same weight. Needs nothing but Python."""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "..", "base", "constants.h")
HUBER = 0.25  # residuals beyond it count linearly: outliers of a source do not bend the constants


def constants():
    """Names with start value and pull, of those that are fitted."""
    rows = re.findall(r"X\((\w+), [0-9.e-]+, ([0-9.e-]+), ([0-9.]+),", open(TABLE, encoding="utf-8").read())
    return {name: (float(value), float(pull)) for name, value, pull in rows if float(pull) > 0}


class Model:
    """Runs the program with other constants; the parameters are logarithms of the start values."""

    def __init__(self, program, table, names, start):
        self.program, self.table, self.names, self.start = program, table, names, start

    def rows(self, steps):
        with tempfile.NamedTemporaryFile("w", suffix=".constants") as file:
            for name, step in zip(self.names, steps):
                file.write(f"{name} {self.start[name][0] * math.exp(step)!r}\n")
            file.flush()
            out = subprocess.run([self.program, "plan", "--check", self.table, "--json", "--constants", file.name],
                                 capture_output=True, check=True, text=True).stdout
        return {row["id"]: row for row in json.loads(out)["rows"]}


def residual(row, kind):
    predicted, measured = (row["step_s"], row["measured_step_s"]) if kind == "time" else (row["memory_gb"], row["measured_memory_gb"])
    return math.log(predicted / measured)


def solve(matrix, vector):
    """Gauss elimination with pivots."""
    size = len(vector)
    rows = [list(line) + [value] for line, value in zip(matrix, vector)]
    for column in range(size):
        best = max(range(column, size), key=lambda line: abs(rows[line][column]))
        rows[column], rows[best] = rows[best], rows[column]
        for line in range(size):
            if line != column:
                factor = rows[line][column] / rows[column][column]
                rows[line] = [a - factor * b for a, b in zip(rows[line], rows[column])]
    return [rows[line][size] / rows[line][line] for line in range(size)]


def weights_of(rows, groups, left):
    """Weight of each row: every group counts alike (up to 12 rows: a group of one row says less)."""
    sizes = {}
    for key in rows:
        sizes[groups[key]] = sizes.get(groups[key], 0) + 1
    return {key: min(sizes[groups[key]], 12) / 12 / sizes[groups[key]] for key in rows if groups[key] != left}


def loss(values, weights):
    return sum(w * (v * v if abs(v) < HUBER else HUBER * (2 * abs(v) - HUBER)) for v, w in ((values[k], weights[k]) for k in weights))


def fit(model, kind, keys, groups, left, noise, rounds=6):
    """Gauss-Newton from the start values; a row counts by its group. noise: standard deviation of a group's mean residual, against the pulls."""
    count = len(model.names)
    steps = [0.0] * count
    weights = weights_of(keys, groups, left)
    pulls = [model.start[name][1] for name in model.names]

    def evaluate(at):
        rows = model.rows(at)
        values = {key: residual(rows[key], kind) for key in weights}
        prior = sum((s / p) ** 2 for s, p in zip(at, pulls)) * noise ** 2
        return values, loss(values, weights) + prior

    values, now = evaluate(steps)
    for _ in range(rounds):
        slopes = []
        for i in range(count):
            moved = list(steps)
            moved[i] += 0.02
            other, _ = evaluate(moved)
            slopes.append({key: (other[key] - values[key]) / 0.02 for key in weights})
        damp = {key: weights[key] * min(1, HUBER / max(abs(values[key]), 1e-9)) for key in weights}
        matrix = [[sum(damp[k] * a[k] * b[k] for k in weights) for b in slopes] for a in slopes]
        vector = [-sum(damp[k] * a[k] * values[k] for k in weights) for a in slopes]
        for i in range(count):
            matrix[i][i] += noise ** 2 / pulls[i] ** 2
            vector[i] -= noise ** 2 / pulls[i] ** 2 * steps[i]
        move, scale = solve(matrix, vector), 1.0
        while scale > 0.05:
            moved = [s + scale * m for s, m in zip(steps, move)]
            other, then = evaluate(moved)
            if then < now:
                break
            scale /= 2
        if scale <= 0.05 or now - then < 1e-5:
            break
        steps, values, now = moved, other, then
    return steps


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def quantile(values, share):
    values = sorted(values)
    return values[min(int(share * len(values)), len(values) - 1)]


def groups_of(table, kind):
    """The source of a row; for memory its layout set: the heading and the model's width."""
    import csv
    with open(table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if kind == "time":
        return {row["id"]: row["source"] for row in rows}
    return {row["id"]: row["source"][:20] + "/" + ";".join(row["note"].split(";")[1:2]) + row["d_model"] for row in rows}


def report(name, values):
    print(f"{name[:70]:70s} {len(values):4d} rows  mean {100 * sum(map(abs, values)) / len(values):5.1f} %"
          f"  median {100 * median([abs(v) for v in values]):5.1f} %  bias {100 * sum(values) / len(values):+6.1f} %", flush=True)


def main():
    program, table, kind = sys.argv[1:4]
    start = constants()
    names = [name for name in start if name.startswith("memory") == (kind == "memory")]
    model = Model(program, table, names, start)
    groups = groups_of(table, kind)
    rows = model.rows([0.0] * len(names))
    if kind == "time":
        keys = [k for k, row in rows.items() if row["dense_16bit"] and row["step_s"] and row["measured_step_s"]]
    else:
        keys = [k for k, row in rows.items() if row["memory_gb"] and row["measured_memory_gb"] and not row["measured_oom"]]
    noise = 0.05
    if "--left" not in sys.argv:
        steps = fit(model, kind, keys, groups, None, noise)
        for name, step in zip(names, steps):
            print(f"{name:16s} {start[name][0] * math.exp(step):.4g}   (start {start[name][0]:g})")
        fitted = model.rows(steps)
        for group in sorted({groups[k] for k in keys}):
            report(group, [residual(fitted[k], kind) for k in keys if groups[k] == group])
        report("all rows", [residual(fitted[k], kind) for k in keys])
        return
    means, everything, squares, covered = [], [], [], []
    for group in sorted({groups[k] for k in keys}):
        steps = fit(model, kind, keys, groups, group, noise, 4)
        left = model.rows(steps)
        values = [residual(left[k], kind) for k in keys if groups[k] == group]
        report("excluded: " + group, values)
        means.append(sum(map(abs, values)) / len(values))
        if kind == "time":
            inside = [left[k]["low_s"] <= left[k]["measured_step_s"] <= left[k]["high_s"] for k in keys if groups[k] == group]
            covered.append(sum(inside) / len(inside))
        squares.append(sum(v * v for v in values) / len(values))
        everything += [abs(v) for v in values]
    print(f"mean over groups {100 * sum(means) / len(means):.1f} %, root of mean square {100 * math.sqrt(sum(squares) / len(squares)):.1f} %,"
          f" median of rows {100 * median(everything):.1f} %, p90 {100 * quantile(everything, 0.9):.1f} %")
    if covered:
        print(f"in the interval of 90 %: {100 * sum(covered) / len(covered):.1f} % (mean over groups)")


if __name__ == "__main__":
    main()
