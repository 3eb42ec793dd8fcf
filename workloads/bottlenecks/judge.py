# SPDX-License-Identifier: Apache-2.0
"""What the present tacho says of the recordings of draws, beside what was measured: rows of a table, and their sums."""
import glob
import json
import math
import os
import subprocess
import sys

from draws import FINAL_SEEDS
from runs import TACHO, cache_of, engine, threads_of, write_whole
from truth import LEAST_GAIN, others_of, redrawn, truth

OTHERS = "OTHER_PROGRAMS"
WHOLE_RUN = {"EVALUATION", "CHECKPOINT", "THREADS", "IDLE_CORES", "CPU_QUOTA", "MEMORY_PRESSURE"}  # what changes phases, too
NO_OTHERS = 0.05  # of the cores: with less, nobody is beside the run


# ---- what tacho says -----------------------------------------------------------------------------------------------------------


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


def ask(store, state, place, *words):
    """What tacho says of the recording of a draw, as JSON in the answer's text."""
    env = os.environ | {"XDG_CACHE_HOME": cache_of(store, threads_of(state["recipe"].get("env", {})))}
    words = [TACHO, words[0], "--json", *words[1:], os.path.join(place, "slow.tacho")]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=env)


def predicted(answer, fix, finding):
    """Low, expected and high ratio of the step by the edit that is this fix, else by the finding that names it. `answer` asks tacho."""
    if "what_if" in fix and finding.get("what_if") != fix["what_if"]:
        done = answer("advise", "--what-if", fix["what_if"])
        return interval(json.loads(done.stdout)["what_if"][0]) if done.returncode == 0 else None
    return interval(finding)


def claims(findings):
    """What is claimed to gain for certain with the same training, other programs apart."""
    return [f["id"] for f in findings if (f["gain_pct"]["low"] or 0) > 0 and f["id"] != OTHERS and f["changes"] == "nothing"]


def of_run(ratio, fix, report, state):
    """A ratio of the step as one of the run: evaluations and checkpoints between steps stay as they are, unless they are what changes,
    or all that the process does gets faster."""
    phases = sum(phase["exposed_ms"] for phase in report["phases"] if phase["name"] in ("evaluation", "checkpoint"))
    steps = report["steps"]["mean_ms"] * state.get("recorded_steps", state["steps"])
    if not ratio or WHOLE_RUN & set(fix["finding"]) or not phases:
        return ratio
    between = phases / (phases + steps)
    return tuple(between + (1 - between) * own for own in ratio)


def judge_one(store, place, state, every):
    """A row of the table for one draw. `every`: on a busy machine other programs are named rightly, and do not count as a cause."""
    recipe = state["recipe"]
    row = {"seed": recipe["seed"], "recipe": recipe["name"], "values": recipe["values"], "neighbour": "neighbour" in recipe}
    if "failed" in state or len(state["rounds"]) < 2:
        return row | {"failed": state.get("failed", "not measured yet")}
    done = ask(store, state, place, "report")
    if done.returncode:
        return row | {"failed": done.stderr[-200:]}
    report = json.loads(done.stdout)
    findings = report["findings"]
    told = truth(state)
    row |= told | {"redrawn": redrawn(state, told), "alone": others_of(state) < NO_OTHERS}
    row |= {"said": [finding["id"] for finding in findings], "claims": claims(findings), "predicted": None, "place": None}
    if row["best"] is None or row["neighbour"]:
        return row
    if every and not row["alone"]:
        findings = [finding for finding in findings if finding["id"] != OTHERS]
    fixes = recipe["fixes"]
    row["cause"] = fixes[row["best"]]["name"]
    row["place"] = place_of(findings, [fixes[i] for i in [row["best"]] + row["ties"]])
    named = next((finding for finding in findings if names(finding, fixes[row["best"]])), None)
    if named:
        own = predicted(lambda *words: ask(store, state, place, *words), fixes[row["best"]], named)
        row["predicted"] = of_run(own, fixes[row["best"]], report, state)
    return row


# ---- sums ----------------------------------------------------------------------------------------------------------------------


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


def two_quantiles(values):
    return f"median {quantile(values, 0.5):.1f} %, p90 {quantile(values, 0.9):.1f} %"


def cause_lines(counted):
    """How often the true cause was named, and how well its gain was predicted."""
    lines = []
    for what, places in (("cause named first", (1,)), ("cause among the first two", (1, 2))):
        hits = sum(row["place"] in places for row in counted)
        low, high = wilson(hits, len(counted))
        lines.append(f"{what}: {hits} of {len(counted)} (95 % interval {100 * low:.0f}-{100 * high:.0f} %)")
    given = [row for row in counted if row["predicted"]]
    lines.append(f"interval given for the cause: {len(given)} of {len(counted)}")
    if given:
        errors = [100 * abs(row["predicted"][1] / row["ratio"] - 1) for row in given]
        held = sum(row["predicted"][0] <= row["ratio"] <= row["predicted"][2] for row in given)
        widths = [100 * (row["predicted"][2] - row["predicted"][0]) for row in given]
        lines.append(f"predicted step: error {two_quantiles(errors)}")
        lines.append(f"intervals that hold: {held} of {len(given)}, median width {quantile(widths, 0.5):.1f} points")
    apart = [row["aa"] for row in counted if row["aa"] is not None]
    if apart:
        lines.append(f"two equal runs: difference {two_quantiles(apart)}")
    return lines


def others_lines(told):
    """How often other programs were named beside a neighbour that costs something, and where there was none."""
    beside = [row for row in told if row["neighbour"] and row["gain"] >= LEAST_GAIN]
    alone = [row for row in told if not row["neighbour"] and row["alone"]]
    named, false = (sum(OTHERS in row["said"] for row in rows) for rows in (beside, alone))
    return [f"{OTHERS} named beside a neighbour: {named} of {len(beside)}; without one: {false} of {len(alone)}"]


def reasons(rows):
    """Why draws were drawn again, with counts of each kind."""
    kinds = [row["redrawn"].partition(":")[0] for row in rows]
    counts = [f"{kind} {kinds.count(kind)}" for kind in sorted(set(kinds))]
    return f" ({', '.join(counts)})" if counts else ""


def summary(rows, every=False):
    """The figures over all rows, as lines of text. `every`: draws that do not count are counted, too."""
    told = [row for row in rows if "failed" not in row]
    again = [row for row in told if row["redrawn"] and not every]
    kept = [row for row in told if every or not row["redrawn"]]
    slow = [row for row in kept if row["best"] is not None and not row["neighbour"]]
    controls = [row for row in kept if row["best"] is None or row["neighbour"]]
    beside = sum(row["neighbour"] for row in controls)
    lines = [
        f"draws: {len(rows)}; with a cause {len(slow)}, with a neighbour {beside}, "
        f"healthy {len(controls) - beside}, failed {len(rows) - len(told)}, drawn again {len(again)}{reasons(again)}"
    ]
    lines += cause_lines(slow) + others_lines(kept)
    claimed = [row["claims"] for row in controls if "claims" in row]  # rows that an earlier judge wrote do not say it
    false = sum(map(bool, claimed))
    lines.append(f"healthy runs and runs beside a neighbour with another finding whose low end is above 0: {false} of {len(claimed)}")
    return lines + machines_lines(rows)


# ---- the table -----------------------------------------------------------------------------------------------------------------


def cells(row):
    """A row as texts."""
    drawn = " ".join(f"{name}={value}" for name, value in row["values"].items())
    if "failed" in row:
        return [row["seed"], row["recipe"], drawn, "failed: " + row["failed"].replace("\n", " ")[:60], "", "", "", "", ""]
    said = (row["said"] + ["", ""])[:2]
    if row["best"] is None or row["neighbour"]:
        cause = "a neighbour" if row["neighbour"] else "healthy"
        return [row["seed"], row["recipe"], drawn, cause, *said, "", "", row["redrawn"] or ""]
    given = "none" if not row["predicted"] else "{1:.3f} [{0:.3f}, {2:.3f}]".format(*row["predicted"])
    cause = row["cause"] + ("" if row["place"] == 1 else f" (named at {row['place']})" if row["place"] else " (not named)")
    return [row["seed"], row["recipe"], drawn, cause, *said, given, f"{row['ratio']:.3f}", row["redrawn"] or ""]


def table(rows):
    head = ["seed", "recipe", "drawn", "true cause", "named first", "named second", "step ratio predicted", "measured", "drawn again because"]
    lines = [head, ["---"] * len(head)] + [[str(cell) for cell in cells(row)] for row in rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def write_markdown(path, rows, every):
    final = sum(row["seed"] >= FINAL_SEEDS for row in rows)
    kind = f"{final} with final seeds, {len(rows) - final} with seeds for development" + (", those that do not count included" if every else "")
    with open(path, "w", encoding="utf-8") as file:
        file.write("# How good the advice is, measured\n\nWritten by `make bench-advice`; [advice-bench.md](advice-bench.md) says what the ")
        file.write(f"columns mean. Draws: {len(rows)}, {kind}.\n\n")
        file.write("\n".join(f"- {line}" for line in summary(rows, every)) + "\n\n" + "\n".join(table(rows)) + "\n")


# ---- rows that outlast their recordings ----------------------------------------------------------------------------------------


def machine():
    """The processor, and how many there are."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "unknown processor")
    return f"{model}, {os.cpu_count()} cores"


def kept_with(path, rows):
    """All rows of a file of rows, one a line in JSON, with these in place of those of the same seeds. The file is written anew."""
    kept = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            kept = {row["seed"]: row for row in map(json.loads, file)}
    version = subprocess.run([TACHO, "version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    kept |= {row["seed"]: row | {"machine": machine(), "tacho": version} for row in rows}
    ordered = [kept[seed] for seed in sorted(kept)]
    write_whole(path, "".join(json.dumps(row, sort_keys=True) + "\n" for row in ordered))
    return ordered


def machines_lines(rows):
    """Where the draws were measured."""
    names = [row["machine"] for row in rows if "machine" in row]
    return [f"measured on: {'; '.join(f'{name} ({names.count(name)} draws)' for name in sorted(set(names)))}"] if names else []


def judge(store, seeds, markdown, every, keep=None):
    """Prints a row for each recorded draw of this engine, and the sums. `keep`: a file of rows to which these are added; page and
    sums are then of all its rows, those of other machines too."""
    rows = []
    for place in sorted(glob.glob(os.path.join(store, engine(), "[0-9]*")), key=lambda path: int(os.path.basename(path))):
        path = os.path.join(place, "draw.json")
        if (seeds and int(os.path.basename(place)) not in seeds) or not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            rows.append(judge_one(store, place, json.load(file), every))
    if not rows:
        sys.exit(f"bench.py: {store}: no recording of this engine ({engine()})\nhint: bench.py record {store} 1-20")
    print("\n".join(table(rows)))
    if keep:
        rows = kept_with(keep, rows)
    print("\n".join([""] + summary(rows, every)))
    if markdown:
        write_markdown(markdown, rows, every)
