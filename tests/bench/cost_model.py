#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the guess of `tacho history show` misses runs of recipes that the history has not seen.

    tests/bench/cost_model.py BUILD FOLDER [RUNS [HELD [SEED]]]

Records RUNS (30) runs of mixed recipes of the engine in a history of its own, then HELD (12) runs of other recipes, each of which enters a copy
of it alone; a quiet machine needs about two minutes. FOLDER keeps the runs: a second call goes on. Prints a row for each held-out run, the median
of their misses (wanted: 10 %), and how much two runs of one recipe differ here, which no guess can be better than. Exit code 1: missed.
"""
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys

WANTED = 10  # per cent, median
AGAIN = 4  # recipes that are run twice


def recipe(draw):
    """A command of the engine; what it does is drawn from what people change."""
    name = draw.choice(["gpt2-tiny", "gpt2-tiny", "llama-tiny", "mlp"])
    if name == "mlp":
        return [name, "--layers", draw.choice([2, 3, 4]), "--hidden", draw.choice([256, 512, 1024]), "--batch", draw.choice([64, 128, 256])]
    head, heads = draw.choice([32, 64]), draw.choice([2, 4, 6])
    words = [name, "--layers", draw.choice([2, 3, 4, 6]), "--channels", head * heads, "--heads", heads, "--seq", draw.choice([64, 128, 256]),
             "--batch", draw.choice([2, 4, 8]), "--dtype", draw.choice(["fp32", "fp32", "bf16"]), "--recompute", draw.choice(["none", "none", "block"])]
    return words + (["--groups", heads // 2] if name == "llama-tiny" else [])


def recipes(count, seed):
    draw, found = random.Random(seed), []
    while len(found) < count:
        words = [str(word) for word in recipe(draw)] + ["--steps", "40", "--log-every", "0"]
        if words not in found:
            found.append(words)
    return found


def record(build, words, path):
    """Records a run in a history of its own, unless PATH has its export already."""
    if os.path.exists(path):
        return
    run, history = path + ".tacho", path + ".db"
    environment = dict(os.environ, TACHO_HISTORY=history)
    subprocess.run([build + "/tacho", "run", "--no-peak", "-o", run, "--", build + "/train", *words], env=environment, capture_output=True, check=True)
    subprocess.run([build + "/tacho", "history", "export", "--json", "-o", path + ".part"], env=environment, capture_output=True, check=True)
    os.rename(path + ".part", path)
    os.remove(run)
    os.remove(history)


def enter(build, paths, history):
    subprocess.run([build + "/tacho", "history", "import", *paths], env=dict(os.environ, TACHO_HISTORY=history), capture_output=True, check=True)


def step_of(path):
    """The median step of a run, ms."""
    with open(path) as file:
        values = json.load(file)["values"]
    return next(value["value"] for value in values if (value["kind"], value["name"]) == ("step", "median"))


def guess_of(build, history):
    out = subprocess.run([build + "/tacho", "history", "show", "latest"], env=dict(os.environ, TACHO_HISTORY=history), capture_output=True, text=True, check=True).stdout
    found = re.search(r"^guess +([0-9.e+-]+) ms (.*)$", out, re.M)
    return float(found[1]), found[2]


def main():
    if not 3 <= len(sys.argv) <= 6:
        print(__doc__, file=sys.stderr)
        return 2
    build, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    count, held, seed = (int(sys.argv[i]) if len(sys.argv) > i else value for i, value in ((3, 30), (4, 12), (5, 1)))
    os.makedirs(folder, exist_ok=True)
    known, single = os.path.join(folder, "history.db"), os.path.join(folder, "held.db")
    drawn, differ = recipes(count + held, seed), []
    paths = [os.path.join(folder, f"run-{i}.json") for i in range(count + held)]
    for words, path in zip(drawn, paths):
        record(build, words, path)
    for i in range(AGAIN):
        again = os.path.join(folder, f"again-{i}.json")
        record(build, drawn[i], again)
        differ.append(100 * abs(step_of(again) / step_of(paths[i]) - 1))
    if os.path.exists(known):
        os.remove(known)
    enter(build, paths[:count], known)
    misses = []
    for words, path in zip(drawn[count:], paths[count:]):
        shutil.copy(known, single)
        enter(build, [path], single)
        (guess, how), step = guess_of(build, single), step_of(path)
        misses.append(100 * abs(guess / step - 1))
        print(f"{' '.join(words[:-4])}: {step:.3g} ms, guessed {guess:.3g} ms, {misses[-1]:.1f} % off", flush=True)
    print(f"\nafter {count} runs: {how}\n{held} held-out runs: {statistics.median(misses):.1f} % in the median, {max(misses):.1f} % at most; two runs of one "
          f"recipe differ by {statistics.median(differ):.1f} % in the median, {max(differ):.1f} % at most")
    return 0 if statistics.median(misses) <= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
