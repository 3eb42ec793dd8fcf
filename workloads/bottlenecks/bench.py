#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How good tacho's advice is: slow runs of the reference engine, what makes them faster, and what tacho says of them.

    bench.py list                                 the recipes of recipes.json
    bench.py show SEED[-SEED]...                  what these seeds draw; nothing runs
    bench.py record STORE SEED[-SEED]...          draws and measures; goes on where it was interrupted
    bench.py record STORE FIRST --count N         draws from seed FIRST on until N draws count
    bench.py verify STORE SEED[-SEED]... [--count N]  N different changes of findings tried by `tacho verify`, then typed by hand
    bench.py judge STORE [SEED[-SEED]...]         what the present tacho says of the recordings, beside what was measured
             [--markdown FILE] [--every]          also as a page; --every: draws that do not count are counted, too
             [--keep FILE]                        adds the rows to FILE, whose rows outlast recordings; page and sums are of all of them

A seed chooses a recipe and its parameters. `record` keeps, in STORE/ENGINE/SEED, one recording of the slow run by `tacho run`, and
the measured times of interleaved runs without tacho: the slow run, the run with each applicable fix, and the slow run again. Which
fixes apply is the recipe's own table; nothing that tacho says decides it. ENGINE names the program `train` by its code. Seeds
below 1000 are for development, those from 1000 on for published figures. docs/advice-bench.md defines what is printed.

Environment: TACHO, TRAIN (build/tacho, build/train), ROUNDS (least number of rounds, 7), MOST_ROUNDS (40), SECONDS of a run (2),
CALIBRATE=0 (the machine's peaks are not measured).
"""
import itertools
import os
import shutil
import sys

from draws import draw, recipes
from judge import judge
from record import record
from verify import verify

FAR = 1000000  # seeds to try for a wanted number of draws


def seeds_of(words):
    """The seeds of words such as 7 or 1-20."""
    bounds = [word.partition("-") for word in words]
    return list(itertools.chain.from_iterable(range(int(low), int(high or low) + 1) for low, _, high in bounds))


def take(words, option):
    """Takes an option and its value out of the words; None: it is not among them."""
    if option not in words:
        return None
    at = words.index(option)
    value = words[at + 1] if at + 1 < len(words) else sys.exit(f"bench.py: {option}: a value is missing\nhint: bench.py without arguments")
    del words[at : at + 2]
    return value


def show(seeds):
    for seed in seeds:
        drawn = draw(seed)
        words = " ".join([drawn["base"][0]] + [option if value is True else f"{option} {value}" for option, value in drawn["base"][1].items()])
        print(f"{seed} {drawn['name']}: {words}; fixes: {', '.join(fix['name'] for fix in drawn['fixes']) or 'none'}")


def main(words):
    markdown, keep, count = take(words, "--markdown"), take(words, "--keep"), take(words, "--count")
    every = "--every" in words
    words = [word for word in words if word != "--every"]
    if words[:1] == ["list"]:
        for recipe in recipes():
            print(f"{recipe['name']}: {', '.join(fix['name'] for fix in recipe['fixes']) or 'healthy'}")
    elif words[:1] == ["show"]:
        show(seeds_of(words[1:]))
    elif words[:1] == ["record"] and len(words) > 2:
        if not shutil.which("mpirun"):
            print("bench.py: no mpirun: draws with several ranks will fail", file=sys.stderr)
        seeds = seeds_of(words[2:])
        record(os.path.abspath(words[1]), itertools.islice(itertools.count(seeds[0]), FAR) if count else seeds, int(count or 0))
    elif words[:1] == ["verify"] and len(words) > 2:
        verify(os.path.abspath(words[1]), seeds_of(words[2:]), int(count or 0))
    elif words[:1] == ["judge"] and len(words) > 1:
        judge(os.path.abspath(words[1]), set(seeds_of(words[2:])), markdown, every, keep)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
