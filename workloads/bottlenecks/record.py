# SPDX-License-Identifier: Apache-2.0
"""Measures draws: one recording of the slow run, and interleaved runs of it and of its fixes, without tacho."""
import glob
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time

from draws import draw
from runs import CORES, IMAGES, SKIPPED_STEPS, TACHO, TRAIN, Bench, Failed, cache_of, engine, threads_of, write_whole
from truth import LEAST_GAIN, MOST_APART, TIE_SHARE, apart, equals, gains, half_width, ratios, redrawn, truth

ROUNDS = int(os.environ.get("ROUNDS", "7"))
MOST_ROUNDS = max(ROUNDS, int(os.environ.get("MOST_ROUNDS", "40")))
SECONDS = float(os.environ.get("SECONDS", "2"))
LEAST_STEPS, FEWEST_STEPS = 24, 12  # after those that are skipped; the latter for long steps of one rank: ranks are compared over 20
RECORDED = 3  # times the steps of a measured run: of a short recording one pause of the machine is a tenth
HALF_WIDTH = 2.0  # points: no more rounds where the interval of the best fix is narrower, and equal runs are seen to be equal
FIRST = 3  # rounds after which a draw may be given up


# ---- what all draws share ------------------------------------------------------------------------------------------------------


def write_images(folder):
    """Many small files: classes of raw images of 28 x 28."""
    for number in range(IMAGES):
        place = os.path.join(folder, str(number % 10))
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, f"{number}.pgm"), "wb") as file:
            file.write(b"P5 28 28 255\n" + random.Random(number).randbytes(784))


def calibrate(store, threads):
    """Measures the machine's peaks with that many threads, once a store."""
    place = cache_of(store, threads)
    os.makedirs(place, exist_ok=True)
    env = os.environ | {"XDG_CACHE_HOME": place, "OMP_NUM_THREADS": str(threads)}
    subprocess.run([TACHO, "calibrate", "--quick"], env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def prepare(store, recipe):
    """What a draw needs of the store: the measured peaks of the machine (unless CALIBRATE=0), a tokenizer, images."""
    os.makedirs(store, exist_ok=True)
    needs, tokenizer = json.dumps(recipe), os.path.join(store, "tokenizer")
    if os.environ.get("CALIBRATE") != "0":
        calibrate(store, threads_of(recipe.get("env", {})))
    if "{IMAGES}" in needs and not os.path.exists(os.path.join(store, "images", "9", f"{IMAGES - 1}.pgm")):
        write_images(os.path.join(store, "images"))
    if "{TOKENIZER}" in needs and not os.path.exists(tokenizer):
        words = [TRAIN, "bpe", "--vocab", "1024", "-o", tokenizer]
        subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def write_json(path, value):
    write_whole(path, json.dumps(value) + "\n")


# ---- one draw ------------------------------------------------------------------------------------------------------------------


def pace(bench):
    """Steps that take about SECONDS: from a short run of the slow recipe."""
    step = bench.run(None, SKIPPED_STEPS + 5)
    long_steps = LEAST_STEPS * step > 2 * SECONDS and bench.recipe.get("ranks", 1) == 1
    least = FEWEST_STEPS if long_steps else LEAST_STEPS
    return SKIPPED_STEPS + max(least, min(400, math.ceil(SECONDS / step)))


def are_known(rounds, fixes):
    """Is the step with each fix known well enough: that with the best to HALF_WIDTH, those of others at least to be no match for it?"""
    steps = [ratios(rounds, fix) for fix in range(fixes)]
    best = min((statistics.fmean(own) for own in steps), default=100)
    tie = 100 / (1 + TIE_SHARE * (100 / best - 1))  # of a shorter step a fix may tie with the best, or be it
    return all(half_width(own) <= HALF_WIDTH or statistics.fmean(own) - half_width(own) > tie for own in steps)


def is_decided(state):
    """Are the steps with the fixes and the slow run beside itself known well enough? Beside a neighbour only its naming is judged,
    so it is enough to know whether it costs so much that it must be named."""
    rounds, recipe = state["rounds"], state["recipe"]
    if len(rounds) < ROUNDS:
        return False
    if "neighbour" in recipe:
        cost = gains(rounds, 0)
        return abs(statistics.fmean(cost) - LEAST_GAIN) > half_width(cost)
    return (
        are_known(rounds, len(recipe["fixes"]))
        and half_width(equals(rounds)) <= MOST_APART
        and apart(rounds) <= MOST_APART
    )


def is_hopeless(state):
    """Is it clear after some rounds that the draw will not count, because no fix gains anything?"""
    rounds, fixes = state["rounds"], state["recipe"]["fixes"]
    if len(rounds) < min(FIRST, ROUNDS) or "neighbour" in state["recipe"]:
        return False
    values = [gains(rounds, fix) for fix in range(len(fixes))]
    return bool(fixes) and all(sum(own) / len(own) + half_width(own) < 2 for own in values)


def round_of(bench, state):
    """Times of one round: the slow run, a run with each fix, the slow run; the order rotates."""
    fixes = state["recipe"]["fixes"]
    order = list(range(len(fixes) + 2))  # 0 and the last one: the slow run
    turn = len(state["rounds"]) % len(order)
    times, others = [0.0] * len(order), [0.0] * len(order)
    for which in order[turn:] + order[:turn]:
        times[which] = bench.run(fixes[which - 1] if 0 < which <= len(fixes) else None, state["steps"])
        others[which] = round(bench.others, 3)
    state["rounds"].append(times)
    state["others"].append(others)


def measure(bench, state, place):
    """Records the slow run, then measures round after round; what is done is kept after each."""
    kept = os.path.join(place, "draw.json")
    if "steps" not in state:
        state["steps"] = pace(bench)
        times = 1 if state["recipe"].get("cold") else RECORDED  # in more steps the files get warm
        state["recorded_steps"] = times * state["steps"]
        for left in glob.glob(os.path.join(place, "slow.tacho*")):  # of a recording that was interrupted
            shutil.rmtree(left) if os.path.isdir(left) else os.remove(left)
        bench.run(None, state["recorded_steps"], os.path.join(place, "slow.tacho"))
        state["recorded_others"] = round(bench.others, 3)
        write_json(kept, state)
    while not is_decided(state) and len(state["rounds"]) < MOST_ROUNDS:
        if is_hopeless(state):
            break
        round_of(bench, state)
        write_json(kept, state)


def record_seed(store, seed):
    """The state of a draw, which is measured as far as it is not kept already; whether anything was measured."""
    place = os.path.join(store, engine(), str(seed))
    kept = os.path.join(place, "draw.json")
    state = {"recipe": draw(seed), "rounds": [], "others": [], "cores": CORES}
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            state = json.load(file)
        if state.get("done"):
            return state, False
    os.makedirs(place, exist_ok=True)
    prepare(store, state["recipe"])
    with tempfile.TemporaryDirectory(prefix="tacho-bench-") as folder:
        try:
            measure(Bench(state["recipe"], folder, store), state, place)
        except Failed as error:
            state["failed"] = str(error)
    state["done"] = True
    write_json(kept, state)
    return state, True


def what_of(state):
    """What became of a draw, in words."""
    if "failed" in state:
        return state["failed"]
    return redrawn(state, truth(state)) or f"{len(state['rounds'])} rounds"


def record(store, seeds, wanted):
    """Draws the seeds in turn. With `wanted`: from the first seed on, until so many draws count."""
    counted = 0
    for seed in seeds:
        begun = time.monotonic()
        state, measured = record_seed(store, seed)
        what = what_of(state) if measured else "kept"
        print(f"{seed} {state['recipe']['name']}: {what}, {time.monotonic() - begun:.0f} s", flush=True)
        counted += "failed" not in state and not redrawn(state, truth(state))
        if wanted and counted >= wanted:
            return
