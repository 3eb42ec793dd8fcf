#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures five spaces of recipes of the engine once and whole, then searches them again with a fifth of the trials and 30 seeds.

    tests/bench/own_spaces.py BUILD FOLDER [MINUTES]

About half an hour in all. FOLDER keeps the trials; MINUTES are those of this call, which begins no trial after them, and a later call
goes on. What these recipes do most of the time is wait (for stages of a loader, for a link), and they compute with one thread: so one setting takes
nearly the same time twice, and its neighbour does not. A search is right if its best is within the noise of the best of all: two standard
deviations of the runs of one setting at the end, 2 % at least. Wanted: 28 of 30 seeds in each space; beside them stands how many
searches by chance are right, which says how hard the space is. Then a problem in which memory is short: a micro-batch at a fixed global
batch in an address space that the fast settings do not fit in; some trials must fail, and the winner must not in ten runs.
"""
import json
import math
import os
import statistics
import subprocess
import sys
import time

SEEDS, WANTED, CONFIRMING = 30, 28, 10
SMALL = ["gpt2-tiny", "--channels", "32", "--heads", "2", "--seq", "16", "--log-every", "0"]
RANKS = ["mpirun", "-np", "2", "--bind-to", "none", "--oversubscribe"]
SPACES = {
    "loader": [*SMALL, "--layers", "1", "--steps", "40", "--slow", "read=0.05", "--workers", "{workers:0..11=1}", "--prefetch", "{prefetch:1..16:log2=4}",
               "--worker-kind", "{kind:threads,processes}"],
    "uneven": [*SMALL, "--layers", "1", "--steps", "40", "--slow", "decode=0.02", "--slow", "collate=0.01", "--workers", "{workers:0..9=1}",
               "--prefetch", "{prefetch:1..16:log2=1}", "--eval-every", "{eval:10,0}"],
    "batches": [*SMALL, "--layers", "1", "--steps", "6", "--slow", "decode=0.05", "--batch", "{batch:4..64:log2=4}", "--accumulate", "{64/batch}",
                "--workers", "{workers:0..5}", "--prefetch", "{prefetch:1..8:log2=1}"],
    "digits": ["mlp", "--hidden", "32", "--steps", "40", "--log-every", "0", "--slow", "augment=0.05", "--slow", "read=0.03", "--workers",
               "{workers:0..9=1}", "--prefetch", "{prefetch:1..16:log2=1}", "--worker-kind", "{kind:processes,threads}"],
    "link": [*SMALL, "--layers", "4", "--steps", "20", "--slow", "read=0.03", "--simulate-compute", "forward=0.005,backward=0.01,link=0.002", "--bucket-mib",
             "{bucket:0.01,0.02,0.04,0.08,0.16,0.32=0.01}", "--workers", "{workers:0..3}", "--prefetch", "{prefetch:1..4:log2}"],
}
OWN_RANKS = {"link": RANKS}  # the others are one process


LIMITED = ["gpt2-tiny", "--layers", "2", "--channels", "32", "--heads", "2", "--seq", "128", "--steps", "4", "--log-every", "0", "--slow", "decode=0.1",
           "--batch", "{batch:16..256:log2=16}", "--accumulate", "{256/batch}", "--workers", "{workers:0..2}", "--recompute", "{recompute:none,block}"]
TOO_LARGE = {"{256/batch}": "2", "{workers:0..2}": "1", "{batch:16..256:log2=16}": "128", "{recompute:none,block}": "none"}
TRIALS = 12  # of the 30 settings of LIMITED


def measure(build, folder, name, minutes):
    """The cache of a space, measured whole; None: its time was over."""
    cache = os.path.join(folder, name + ".json")
    if not os.path.exists(cache):
        command = [build + "/tacho", "tune", "-o", os.path.join(folder, name), "--trials", "1000", "--rounds", "8", "--whole-trials",
                   "--minutes", str(minutes), "--cache", cache, "--json", "--", *OWN_RANKS.get(name, []), build + "/train", *SPACES[name]]
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
    if not word.startswith("{") or ":" not in word:
        return 1
    values = word.strip("{}").split(":", 1)[1].split("=")[0]
    if ".." not in values:
        return len(values.split(","))
    low, high = values.split(":")[0].split("..")
    return int(math.log2(int(high) // int(low))) + 1 if values.endswith("log2") else int(high) - int(low) + 1


def noise(folder, name):
    """Two standard deviations of the pairs at the end, relative: those of one setting about their own mean, of all settings together."""
    with open(os.path.join(folder, name, "trials.jsonl")) as file:
        trials = [json.loads(line) for line in file][1:]
    logs = {}
    for trial in trials:
        if trial.get("pairs") and trial["value"]:
            logs.setdefault(trial["configuration"], []).append(math.log(trial["value"]))
    squares = sum(statistics.variance(values) * (len(values) - 1) for values in logs.values() if len(values) > 1)
    return max(0.02, 2 * math.sqrt(squares / max(1, sum(len(values) - 1 for values in logs.values()))))


def within(mib, command):
    """The command in an address space of so many MiB."""
    return ["bash", "-c", f'ulimit -v {1024 * mib}; exec "$@"', "limited", *command]


def short_mib(build, folder):
    """The address space that is just too small for a setting which would be among the fast ones, when it is recorded."""
    command, output = [build + "/train", *(TOO_LARGE.get(word, word) for word in LIMITED)], os.path.join(folder, "tried.tacho")
    low, high = 32, 4096  # MiB: too small, large enough
    while high - low > 4:
        middle = (low + high) // 2
        ran = subprocess.run([build + "/tacho", "run", "-o", output, "--", *within(middle, command)], capture_output=True, check=False)
        low, high = (low, middle) if ran.returncode == 0 else (middle, high)
        if os.path.exists(output):
            os.remove(output)
    return low


def limited(build, folder, minutes):
    """A search in which memory is short, and whether its winner fails; None: its time was over."""
    kept = os.path.join(folder, "limited.mib")
    if not os.path.exists(kept):
        with open(kept, "w") as file:
            file.write(str(short_mib(build, folder)))
    with open(kept) as file:
        mib = int(file.read())
    command = [build + "/tacho", "tune", "-o", os.path.join(folder, "limited"), "--trials", str(TRIALS), "--rounds", "4", "--minutes", str(minutes), "--json", "--",
               *within(mib, [build + "/train", *LIMITED])]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    if found["evaluations"] < TRIALS:
        return None
    runs = [subprocess.run(found["command"], shell=True, capture_output=True, check=False).returncode for _ in range(CONFIRMING)]
    return mib, found, sum(code != 0 for code in runs)


def right(build, cache, tuner, trials, limit):
    """Searches whose best is within the limit, and the median of what they found / the best of all."""
    out = subprocess.run([build + "/tests/bench/tuners", cache, tuner, str(trials), "1", str(SEEDS)], capture_output=True, text=True, check=True)
    ratios = [float(line.split()[-1]) for line in out.stdout.splitlines()]
    return sum(ratio <= limit for ratio in ratios), statistics.median(ratios)


def main():
    if not 3 <= len(sys.argv) <= 4:
        print(__doc__, file=sys.stderr)
        return 2
    build, folder = sys.argv[1:3]
    minutes = float(sys.argv[3]) if len(sys.argv) > 3 else 60
    os.makedirs(folder, exist_ok=True)
    os.environ.update(OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    print("| space | settings | trials | noise | right | found / best, median | by chance right |\n|---|---|---|---|---|---|---|")
    wrong, begun = 0, time.time()

    def left():
        return max(0.01, minutes - (time.time() - begun) / 60)

    for name in SPACES:
        cache = measure(build, folder, name, left())
        if not cache:
            print(f"| {name} | not measured whole yet |")
            wrong += 1
            continue
        with open(cache) as file:
            count = len(json.load(file)["results"])
        limit = 1 + noise(folder, name)
        own, median = right(build, cache, "tacho", count // 5, limit)
        chance, _ = right(build, cache, "random", count // 5, limit)
        wrong += own < WANTED
        print(f"| {name} | {count} | {count // 5} | {100 * (limit - 1):.1f} % | {own} of {SEEDS} | {median:.3f} | {chance} of {SEEDS} |", flush=True)
    memory = limited(build, folder, left())
    if memory:
        mib, found, failed = memory
        print(f"\nmemory: {mib} MiB; {found['failed']} of {found['evaluations']} trials did not fit; the winner, {found['settings']}, failed in {failed} of {CONFIRMING} runs")
        wrong += failed > 0 or not found["failed"]
    else:
        print("\nmemory: not searched whole yet")
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
