#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures five spaces of recipes of the engine once and whole, then searches them again with a fifth of the trials and 30 seeds.

    tests/bench/own_spaces.py BUILD FOLDER [MINUTES]

Needs a quiet machine: about a quarter of an hour in all. FOLDER keeps the trials; MINUTES are those of this call, which begins no trial after them,
and a later call goes on. A search is right if its best is within the noise of the best of all: two standard deviations of the runs of one
setting at the end, 2 % at least. Wanted: 28 of 30 seeds in each space. Then a problem in which memory is short: a micro-batch at a
fixed global batch in an address space that some settings do not fit in; the winner must not fail in ten runs.
"""
import json
import math
import os
import statistics
import subprocess
import sys
import time

SEEDS, WANTED, CONFIRMING = 30, 28, 10
SPACES = {
    "loader": ["gpt2-tiny", "--steps", "30", "--slow", "read=0.02", "--workers", "{workers:0..5=1}", "--prefetch", "{prefetch:1..8:log2=4}",
               "--worker-kind", "{kind:threads,processes}"],
    "memory": ["gpt2-tiny", "--steps", "20", "--recompute", "{recompute:none,block=block}", "--workers", "{workers:0..3}",
               "--prefetch", "{prefetch:1..8:log2}", "--io", "{io:mapped,pread}"],
    "digits": ["mlp", "--steps", "100", "--workers", "{workers:0..5}", "--prefetch", "{prefetch:1..8:log2}", "--worker-kind", "{kind:processes,threads}"],
    "llama": ["llama-tiny", "--steps", "20", "--recompute", "{recompute:block,none}", "--workers", "{workers:0..4}", "--prefetch", "{prefetch:1..8:log2}"],
    "uneven": ["gpt2-tiny", "--steps", "30", "--slow", "decode=0.01", "--slow", "collate=0.005", "--workers", "{workers:0..5=1}",
               "--prefetch", "{prefetch:1..16:log2}", "--eval-every", "{eval:10,0}"],
}


LIMIT_MIB = 700
LIMITED = ["gpt2-tiny", "--steps", "5", "--log-every", "0", "--batch", "{batch:1..64:log2=1}", "--accumulate", "{64/batch}", "--recompute",
           "{recompute:none,block}", "--workers", "{workers:0..2}"]


def measure(build, folder, name, minutes):
    """The cache of a space, measured whole; None: its time was over."""
    cache = os.path.join(folder, name + ".json")
    if not os.path.exists(cache):
        command = [build + "/tacho", "tune", "-o", os.path.join(folder, name), "--trials", "1000", "--rounds", "8", "--whole-trials",
                   "--minutes", str(minutes), "--cache", cache, "--json", "--", build + "/train", *SPACES[name]]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    with open(cache) as file:
        space = json.load(file)["results"]
    whole = math.prod(count_levels(word) for word in SPACES[name])
    if len(space) < whole:
        os.remove(cache)
        return None
    return cache


def count_levels(word):
    """Values of a parameter of the command; 1: the word has none."""
    if not word.startswith("{"):
        return 1
    values = word.strip("{}").split(":", 1)[1].split("=")[0]
    if ".." not in values:
        return len(values.split(","))
    low, high = values.split(":")[0].split("..")
    return int(math.log2(int(high) // int(low))) + 1 if values.endswith("log2") else int(high) - int(low) + 1


def noise(folder, name):
    """Two standard deviations of the pairs at the end, relative."""
    with open(os.path.join(folder, name, "trials.jsonl")) as file:
        trials = [json.loads(line) for line in file][1:]
    logs = {}
    for trial in trials:
        if trial.get("pairs") and trial["value"]:
            logs.setdefault(trial["configuration"], []).append(math.log(trial["value"]))
    return max([0.02] + [2 * statistics.stdev(values) for values in logs.values() if len(values) > 2])


def limited(build, folder, minutes):
    """A search in which memory is short, and whether its winner fails; None: its time was over."""
    kib = 1024 * LIMIT_MIB
    command = [build + "/tacho", "tune", "-o", os.path.join(folder, "limited"), "--trials", "8", "--rounds", "4", "--minutes", str(minutes), "--json", "--",
               "bash", "-c", f'ulimit -v {kib}; exec "$@"', "limited", build + "/train", *LIMITED]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    if found["evaluations"] < 8:
        return None
    runs = [subprocess.run(found["command"], shell=True, capture_output=True, check=False).returncode for _ in range(CONFIRMING)]
    return found, sum(code != 0 for code in runs)


def main():
    if not 3 <= len(sys.argv) <= 4:
        print(__doc__, file=sys.stderr)
        return 2
    build, folder = sys.argv[1:3]
    minutes = float(sys.argv[3]) if len(sys.argv) > 3 else 60
    os.makedirs(folder, exist_ok=True)
    print("| space | configurations | trials | noise | right | median found / best |\n|---|---|---|---|---|---|")
    wrong, begun = 0, time.time()
    def left():
        return max(0.01, minutes - (time.time() - begun) / 60)
    for name in SPACES:
        cache = measure(build, folder, name, left())
        if not cache:
            print(f"| {name} | not measured whole yet |")
            wrong += 1
            continue
        count = len(json.load(open(cache))["results"])
        out = subprocess.run([build + "/tests/bench/tuners", cache, "tacho", str(count // 5), "1", str(SEEDS)], capture_output=True, text=True, check=True)
        ratios = [float(line.split()[-1]) for line in out.stdout.splitlines()]
        limit = 1 + noise(folder, name)
        right = sum(ratio <= limit for ratio in ratios)
        wrong += right < WANTED
        print(f"| {name} | {count} | {count // 5} | {100 * (limit - 1):.1f} % | {right} of {SEEDS} | {statistics.median(ratios):.3f} |")
    memory = limited(build, folder, left())
    if memory:
        found, failed = memory
        print(f"\nmemory: {found['failed']} of {found['evaluations']} trials did not fit; the winner, {found['settings']}, failed in {failed} of {CONFIRMING} runs")
        wrong += failed > 0
    else:
        print("\nmemory: not searched whole yet")
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
