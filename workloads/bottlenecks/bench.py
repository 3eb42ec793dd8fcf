#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How good tacho's advice is: slow runs of the reference engine, what makes them faster, and what tacho says of them.

    bench.py list                                        the recipes of recipes.json
    bench.py record STORE SEED[-SEED]...                 draws and measures; goes on where it was interrupted
    bench.py judge STORE [--markdown FILE] [SEED-SEED]   what the present tacho says of all recordings, beside what was measured

A seed chooses a recipe and its parameters. `record` keeps, in STORE/ENGINE/SEED, one recording of the slow run by `tacho run`, and
the measured times of interleaved runs without tacho: the slow run, the run with each applicable fix, and the slow run again. Which
fixes apply is the recipe's own table; nothing that tacho says decides it. ENGINE names the program `train` by its contents. Seeds
below 1000 are for development, those from 1000 on for final figures. docs/advice-bench.md defines what is printed.

Environment: TACHO, TRAIN (build/tacho, build/train), ROUNDS (least number of rounds, 7), MOST_ROUNDS (12), SECONDS of a run (2.5),
CALIBRATE=0 (the peaks of the machine are not measured).
"""
import glob
import hashlib
import itertools
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TACHO = os.path.abspath(os.environ.get("TACHO", "build/tacho"))
TRAIN = os.path.abspath(os.environ.get("TRAIN", "build/train"))
ROUNDS = int(os.environ.get("ROUNDS", "7"))
MOST_ROUNDS = max(ROUNDS, int(os.environ.get("MOST_ROUNDS", "12")))
SECONDS = float(os.environ.get("SECONDS", "2.5"))
SKIPPED_STEPS = 3  # of each run: caches and memory pools fill
HALF_WIDTH = 2.0  # points: no more rounds where every interval is narrower
LEAST_GAIN, MOST_AA, MOST_TIES, TIE_SHARE = 5.0, 3.0, 2, 0.8  # %, %, fixes, of the best gain
FINAL_SEEDS = 1000
IMAGES = 4000
NEIGHBOURS = {
    "cpu": ["sh", "-c", "while :; do :; done"],
    "memory": [sys.executable, "-c", "a = bytearray(64 << 20)\nb = bytearray(64 << 20)\nwhile True: a[:] = b"],
}


class Failed(Exception):
    """A run that did not end well; the text says which and why."""


# ---- draws ---------------------------------------------------------------------------------------------------------------------


def recipes():
    with open(os.path.join(HERE, "recipes.json"), encoding="utf-8") as file:
        return json.load(file)["recipes"]


def draw(seed):
    """The recipe of a seed with its parameters filled in."""
    rng = random.Random(seed)
    recipe = json.loads(json.dumps(rng.choice(recipes())))
    values = {name: rng.choice(choices) for name, choices in recipe.pop("draw").items()}
    return fill(recipe, values) | {"seed": seed, "values": values}


def fill(node, values):
    """Replaces each {NAME} for which there is a value; a text that is one such name becomes the value itself."""
    if isinstance(node, dict):
        return {key: fill(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [fill(value, values) for value in node]
    if isinstance(node, str):
        for name, value in values.items():
            node = value if node == "{" + name + "}" else node.replace("{" + name + "}", str(value)) if isinstance(node, str) else node
    return node


def changed(recipe, fix):
    """The recipe with a fix applied (None: as it is): options, environment, neighbour, limits."""
    options, environment, limits = dict(recipe["base"][1]), dict(recipe.get("env", {})), dict(recipe.get("limits", {}))
    neighbour = recipe.get("neighbour")
    if fix:
        options.update(fix.get("set", {}))
        environment.update(fix.get("env", {}))
        limits.update(fix.get("limits", {}))
        neighbour = fix["neighbour"] if "neighbour" in fix else neighbour
    return options, environment, neighbour, {name: value for name, value in limits.items() if value is not None}


# ---- runs ----------------------------------------------------------------------------------------------------------------------


class Bench:
    """Runs of one draw. `folder` holds what runs write and need; it is removed by the caller."""

    def __init__(self, recipe, folder, store):
        self.recipe, self.folder, self.store = recipe, folder, store
        self.places = {"FOLDER": folder, "CORES": len(os.sched_getaffinity(0)), "TOKENIZER": os.path.join(store, "tokenizer"),
                       "IMAGES": os.path.join(store, "images")}

    def command(self, options, steps, timers):
        words = [TRAIN, self.recipe["base"][0]]
        for option, value in options.items():
            if value is not None:
                words += [option] if value is True else [option, str(value)]
        words += [] if "--log-every" in options else ["--log-every", "0"]
        words += ["--steps", str(steps), "--timers", timers]
        ranks = self.recipe.get("ranks", 1)
        launcher = ["mpirun", "-np", str(ranks), "--bind-to", "none", "--oversubscribe"] if ranks > 1 else []
        return launcher + fill(words, self.places)

    def run(self, fix, steps, record=None):
        """Seconds a step; with `record` under tacho, which writes that file."""
        options, environment, neighbour, limits = changed(self.recipe, fix)
        timers = os.path.join(self.folder, "timers")
        words = self.command(options, steps, timers)
        if self.recipe.get("log"):
            words = [sys.executable, os.path.join(HERE, "limited.py"), "log", os.path.join(self.folder, "log")] + words
        if record:
            words = [TACHO, "run", "--overhead", "0", "-o", record, "--"] + words
        if limits:
            words = [sys.executable, os.path.join(HERE, "limited.py"), "limits", json.dumps(limits | {"folder": self.folder})] + words
        own = {name: str(value) for name, value in fill(environment, self.places).items()}
        env = os.environ | own | {
            "XDG_CACHE_HOME": os.path.join(self.store, "cache"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        beside = subprocess.Popen(NEIGHBOURS[neighbour]) if neighbour else None
        try:
            done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{' '.join(words)}: longer than 300 s") from error
        finally:
            if beside:
                beside.kill()
                beside.wait()
        if done.returncode:
            raise Failed(f"{' '.join(words)}: exit status {done.returncode}: {done.stderr[-300:]}")
        return max(seconds_of(path) for path in glob.glob(timers + "*")) / (fix or {}).get("samples", 1)


def seconds_of(timers):
    """Seconds that a step took, its share of evaluations and checkpoints included; removes the file."""
    with open(timers, encoding="utf-8") as file:
        told = json.load(file)
    os.remove(timers)
    walls = [step["wall_ns"] for step in told["steps"]]
    phases = sum(
        name["ns"] for thread in told["threads"] for name in thread["names"] if name["name"] in ("evaluation", "checkpoint")
    )
    counted = walls[SKIPPED_STEPS:] or walls
    return (statistics.fmean(counted) + phases / len(walls)) / 1e9


def engine():
    """Names the program `train` by its contents."""
    with open(TRAIN, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:12]


# ---- record --------------------------------------------------------------------------------------------------------------------


def write_images(folder):
    """Many small files: classes of raw images of 28 x 28."""
    for number in range(IMAGES):
        place = os.path.join(folder, str(number % 10))
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, f"{number}.pgm"), "wb") as file:
            file.write(b"P5 28 28 255\n" + random.Random(number).randbytes(784))


def prepare(store, needs):
    """What all draws share: the measured peaks of the machine (unless CALIBRATE=0), and what they name in `needs`."""
    os.makedirs(os.path.join(store, "cache"), exist_ok=True)
    env = os.environ | {"XDG_CACHE_HOME": os.path.join(store, "cache")}
    if os.environ.get("CALIBRATE") != "0":
        subprocess.run([TACHO, "calibrate", "--quick"], env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    tokenizer = os.path.join(store, "tokenizer")
    if "{IMAGES}" in needs and not os.path.exists(os.path.join(store, "images", "9", f"{IMAGES - 1}.pgm")):
        write_images(os.path.join(store, "images"))
    if "{TOKENIZER}" in needs and not os.path.exists(tokenizer):
        words = [TRAIN, "bpe", "--vocab", "1024", "-o", tokenizer]
        subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def pace(bench):
    """Steps that take about SECONDS: from a short run of the slow recipe."""
    step = bench.run(None, SKIPPED_STEPS + 5)
    return SKIPPED_STEPS + max(20, min(400, math.ceil(SECONDS / step)))


def write_json(path, value):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def is_decided(rounds, fixes):
    """Is the interval of every gain narrow enough?"""
    if len(rounds) < ROUNDS:
        return False
    return all(half_width(gains(rounds, index)) <= HALF_WIDTH for index in range(fixes))


def record_seed(store, seed):
    recipe = draw(seed)
    place = os.path.join(store, engine(), str(seed))
    kept = os.path.join(place, "draw.json")
    state = {"recipe": recipe, "rounds": []}
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            state = json.load(file)
        if state.get("done"):
            return "kept"
    os.makedirs(place, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tacho-bench-") as folder:
        bench = Bench(state["recipe"], folder, store)
        try:
            if "steps" not in state:
                state["steps"] = pace(bench)
                bench.run(None, state["steps"], os.path.join(place, "slow.tacho"))
                write_json(kept, state)
            fixes = state["recipe"]["fixes"]
            while not is_decided(state["rounds"], len(fixes)) and len(state["rounds"]) < MOST_ROUNDS:
                order = list(range(len(fixes) + 2))  # 0 and the last one: the slow run
                turn = len(state["rounds"]) % len(order)
                times = [0.0] * len(order)
                for which in order[turn:] + order[:turn]:
                    times[which] = bench.run(fixes[which - 1] if 0 < which <= len(fixes) else None, state["steps"])
                state["rounds"].append(times)
                write_json(kept, state)
            state["done"] = True
        except Failed as error:
            state["done"], state["failed"] = True, str(error)
    write_json(kept, state)
    return state.get("failed", f"{len(state['rounds'])} rounds")


def record(store, seeds):
    prepare(store, json.dumps([draw(seed) for seed in seeds]))
    for seed in seeds:
        begun = time.monotonic()
        what = record_seed(store, seed)
        print(f"{seed} {draw(seed)['name']}: {what}, {time.monotonic() - begun:.0f} s", flush=True)


# ---- judge: what was measured --------------------------------------------------------------------------------------------------


def gains(rounds, fix):
    """Per cent that each round gained by a fix: the slow run beside it is the mean of the two of that round."""
    return [100 * ((times[0] + times[-1]) / 2 / times[fix + 1] - 1) for times in rounds]


T90 = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 10: 1.812, 11: 1.796}


def half_width(values):
    """Of the 90 % interval of the mean; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    return T90.get(len(values) - 1, 1.645) * statistics.stdev(values) / math.sqrt(len(values))


def truth(state):
    """The true cause of a draw: index of the best fix and those that tie with it, the ratio of the step with it to the slow one, the
    spread of two equal runs in %; or why the draw does not count."""
    fixes, rounds = state["recipe"]["fixes"], state["rounds"]
    aa = statistics.median(abs(100 * (times[-1] / times[0] - 1)) for times in rounds)
    choice, magnitude = rounds[0::2], rounds[1::2] or rounds
    told = {"aa": aa, "ties": [], "best": None}
    allowed = [i for i, fix in enumerate(fixes) if fix["class"] == "same" or i == 0]
    if not allowed:
        return told
    chosen = {i: statistics.median(gains(choice, i)) for i in allowed}
    best = max(chosen, key=chosen.get)
    for i in allowed:
        apart = [x - y for x, y in zip(gains(choice, best), gains(choice, i))]
        if i != best and abs(statistics.fmean(apart)) <= half_width(apart) and chosen[i] >= TIE_SHARE * chosen[best]:
            told["ties"].append(i)
    gained = gains(magnitude, best)
    told |= {"best": best, "gain": statistics.median(gained), "half": half_width(gained)}
    told["ratio"] = 1 / (1 + told["gain"] / 100)
    if chosen[best] < LEAST_GAIN:
        told["redrawn"] = f"the best fix gains {chosen[best]:.1f} %"
    elif aa > MOST_AA:
        told["redrawn"] = f"two equal runs differ by {aa:.1f} %"
    elif len(told["ties"]) > MOST_TIES:
        told["redrawn"] = "too many fixes gain the same"
    return told


# ---- judge: what tacho says ----------------------------------------------------------------------------------------------------


def names(finding, fix):
    """Does a finding name a fix?"""
    said = (finding["action"] + " " + (finding.get("what_if") or "")).lower()
    for wanted in fix["finding"]:
        own, _, word = wanted.partition("/")
        if finding["id"] == own and (not word or word in said):
            return True
    return False


def place_of(findings, fixes):
    """Place of the first finding that names one of these fixes, from 1; None: none does."""
    return next((i + 1 for i, finding in enumerate(findings) if any(names(finding, fix) for fix in fixes)), None)


def interval(finding):
    """Low, expected and high ratio of the step after to the step before; None where the finding gives only a ceiling, or nothing."""
    gain = finding["gain_pct"]
    if gain["ceiling"] or gain["low"] is None or gain["high"] is None:
        return None
    expected = gain["expected"] if gain["expected"] is not None else (gain["low"] + gain["high"]) / 2
    return tuple(1 / (1 + percent / 100) for percent in (gain["high"], expected, gain["low"]))


def ask(place, *words):
    """What tacho says of the recording of a draw, as JSON in the answer's text."""
    env = os.environ | {"XDG_CACHE_HOME": os.path.join(os.path.dirname(os.path.dirname(place)), "cache")}
    words = [TACHO, words[0], "--json", *words[1:], os.path.join(place, "slow.tacho")]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=env)


def predicted(place, fix, finding):
    """Low, expected and high ratio of the step by the edit that is this fix, else by the finding that names it."""
    if "what_if" in fix:
        done = ask(place, "advise", "--what-if", fix["what_if"])
        return interval(json.loads(done.stdout)["what_if"][0]) if done.returncode == 0 else None
    return interval(finding)


def judge_one(place, state):
    """A row of the table for one draw."""
    done = ask(place, "report")
    row = {"seed": state["recipe"]["seed"], "recipe": state["recipe"]["name"], "values": state["recipe"]["values"]}
    if done.returncode:
        return row | {"failed": done.stderr[-200:]}
    report = json.loads(done.stdout)
    findings = report["findings"]
    row |= truth(state) | {"said": [finding["id"] for finding in findings], "verdict": report["verdict_class"]}
    row["false_alarm"] = [finding["id"] for finding in findings if (finding["gain_pct"]["low"] or 0) > 0]
    if row["best"] is None:
        return row
    fixes = state["recipe"]["fixes"]
    row["cause"] = fixes[row["best"]]["name"]
    row["place"] = place_of(findings, [fixes[i] for i in [row["best"]] + row["ties"]])
    named = next((finding for finding in findings if names(finding, fixes[row["best"]])), None)
    row["predicted"] = predicted(place, fixes[row["best"]], named) if named else None
    return row


def wilson(hits, count):
    """95 % interval of a share (Wilson 1927)."""
    if not count:
        return 0.0, 1.0
    z, share = 1.96, hits / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return middle - half, middle + half


def quantile(values, share):
    values = sorted(values)
    at = share * (len(values) - 1)
    low = math.floor(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def summary(rows):
    """The figures over all rows, as lines of text."""
    failed = [row for row in rows if "failed" in row]
    slow = [row for row in rows if row.get("best") is not None]
    counted = [row for row in slow if "redrawn" not in row]
    healthy = [row for row in rows if "failed" not in row and row.get("best") is None]
    first = sum(row["place"] == 1 for row in counted)
    two = sum(row["place"] in (1, 2) for row in counted)
    lines = [f"draws: {len(rows)}, slow and counted {len(counted)}, redrawn {len(slow) - len(counted)}, healthy {len(healthy)}, failed {len(failed)}"]
    for what, hits in (("cause named first", first), ("cause among the first two", two)):
        low, high = wilson(hits, len(counted))
        lines.append(f"{what}: {hits} of {len(counted)} (95 % interval {100 * low:.0f}-{100 * high:.0f} %)")
    given = [row for row in counted if row["predicted"]]
    lines.append(f"interval given for the cause: {len(given)} of {len(counted)}")
    if given:
        errors = [100 * abs(row["predicted"][1] / row["ratio"] - 1) for row in given]
        held = sum(row["predicted"][0] <= row["ratio"] <= row["predicted"][2] for row in given)
        widths = [100 * (row["predicted"][2] - row["predicted"][0]) for row in given]
        lines.append(f"predicted step: median error {quantile(errors, 0.5):.1f} %, p90 {quantile(errors, 0.9):.1f} %")
        lines.append(f"intervals that hold: {held} of {len(given)}, median width {quantile(widths, 0.5):.1f} points")
    if counted:
        spreads = [row["aa"] for row in counted]
        lines.append(f"two equal runs: median difference {quantile(spreads, 0.5):.1f} %, p90 {quantile(spreads, 0.9):.1f} %")
    alarms = [row for row in healthy if row["false_alarm"]]
    lines.append(f"healthy runs with a finding whose low end is above 0: {len(alarms)} of {len(healthy)}")
    return lines


def cells(row):
    if "failed" in row:
        return [row["seed"], row["recipe"], "failed: " + row["failed"].replace("\n", " ")[:60], "", "", "", ""]
    drawn = " ".join(f"{name}={value}" for name, value in row["values"].items())
    if row["best"] is None:
        return [row["seed"], row["recipe"], drawn, "healthy", "", "", ", ".join(row["said"])]
    predicted = "none" if not row["predicted"] else "{1:.3f} [{0:.3f}, {2:.3f}]".format(*row["predicted"])
    measured = f"{row['ratio']:.3f}" + (f" (excluded: {row['redrawn']})" if "redrawn" in row else "")
    return [row["seed"], row["recipe"], drawn, row["cause"], f"{row['place'] or 'not named'}", f"{predicted} / {measured}", ", ".join(row["said"])]


def table(rows):
    head = ["seed", "recipe", "drawn", "true cause", "named at", "step ratio predicted / measured", "findings in order"]
    lines = [head, ["---"] * len(head)] + [[str(cell) for cell in cells(row)] for row in rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def judge(store, seeds, markdown):
    rows = []
    for place in sorted(glob.glob(os.path.join(store, engine(), "[0-9]*")), key=lambda path: int(os.path.basename(path))):
        path = os.path.join(place, "draw.json")
        if (seeds and int(os.path.basename(place)) not in seeds) or not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
        if "failed" in state:
            rows.append({"seed": state["recipe"]["seed"], "recipe": state["recipe"]["name"], "failed": state["failed"]})
        elif len(state["rounds"]) >= 2:
            rows.append(judge_one(place, state))
    if not rows:
        sys.exit(f"bench.py: {store}: no recording of this engine ({engine()})\nhint: bench.py record {store} 1-20")
    lines = table(rows) + [""] + summary(rows)
    print("\n".join(lines))
    if markdown:
        with open(markdown, "w", encoding="utf-8") as file:
            file.write("# How good the advice is, measured\n\nMade by `make bench-advice`; [advice-bench.md](advice-bench.md) says what the columns mean.\n\n")
            file.write("\n".join(f"- {line}" for line in summary(rows)) + "\n\n" + "\n".join(table(rows)) + "\n")


# ---- command line --------------------------------------------------------------------------------------------------------------


def seeds_of(words):
    """The seeds of words such as 7 or 1-20."""
    bounds = [word.partition("-") for word in words]
    return list(itertools.chain.from_iterable(range(int(low), int(high or low) + 1) for low, _, high in bounds))


def main(words):
    markdown = None
    if "--markdown" in words:
        at = words.index("--markdown")
        markdown = words[at + 1]
        del words[at : at + 2]
    if words[:1] == ["list"]:
        for recipe in recipes():
            print(f"{recipe['name']}: {', '.join(fix['name'] for fix in recipe['fixes']) or 'healthy'}")
    elif words[:1] == ["record"] and len(words) > 2:
        if not shutil.which("mpirun"):
            print("bench.py: no mpirun: draws with several ranks will fail", file=sys.stderr)
        record(os.path.abspath(words[1]), seeds_of(words[2:]))
    elif words[:1] == ["judge"] and len(words) > 1:
        judge(os.path.abspath(words[1]), set(seeds_of(words[2:])), markdown)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
