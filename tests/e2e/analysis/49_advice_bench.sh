#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The bench of the advice: every recipe and fix is a command that train accepts; a draw is recorded, goes on after an interruption, and is
# judged; the arithmetic of the judgement on made-up measurements.
# shellcheck disable=SC2154  # work: cli_common.sh
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
work_folder advice_bench
bottlenecks=$SRC/workloads/bottlenecks
export PYTHONDONTWRITEBYTECODE=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

PYTHONPATH=$bottlenecks python3 - << 'PY' || fail "recipes"
import os, shutil, subprocess, tempfile
import bench

recipes = bench.recipes()
assert sum(bool(recipe["fixes"]) for recipe in recipes) >= 24 and sum(not recipe["fixes"] for recipe in recipes) >= 3
assert len({recipe["name"] for recipe in recipes}) == len(recipes)
for recipe in recipes:
    if recipe.get("ranks", 1) > 1 and not shutil.which("mpirun"):
        continue
    lists = recipe.pop("draw")
    drawn = bench.fill(recipe, {name: choices[-1] for name, choices in lists.items()})
    for fix in [None] + (drawn["fixes"] if recipe.get("ranks", 1) == 1 else []):
        options, _, _, _ = bench.changed(drawn, fix)
        for name in ("--tokenizer", "--data", "--format"):
            options.pop(name, None)
        words = bench.Bench(drawn, ".", ".").command(options, 5, "timers") + ["--check"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, (recipe["name"], words, done.stderr)
        assert "{" not in " ".join(words), words
    for fix in drawn["fixes"]:
        assert fix["class"] in ("same", "changes") and fix["finding"], (recipe["name"], fix)

# ---- the arithmetic
def state(rounds, *classes):
    fixes = [{"name": str(i), "class": name, "finding": ["F%d" % i]} for i, name in enumerate(classes)]
    return {"recipe": {"fixes": fixes, "name": "made up", "seed": 1, "values": {}}, "rounds": rounds}

steady = [[2.0, 1.0, 1.6, 2.0], [2.02, 1.01, 1.61, 2.0], [2.0, 1.0, 1.6, 2.01], [1.99, 1.0, 1.59, 2.0]]
told = bench.truth(state(steady, "same", "same"))
assert told["best"] == 0 and not told["ties"] and "redrawn" not in told and abs(told["gain"] - 100) < 2, told
told = bench.truth(state([[t[0], t[2], t[1], t[3]] for t in steady], "same", "changes"))
assert told["best"] == 0, "a fix that changes the training is the cause only where the recipe plants it"
told = bench.truth(state([[2.0, 1.0 + d, 1.0 - d, 2.0] for d in (0.01, -0.02, 0.02, -0.01)], "same", "same"))
assert len(told["ties"]) == 1, told
assert "gains" in bench.truth(state([[2.0, 1.98, 2.0]] * 4, "same"))["redrawn"]
assert "differ" in bench.truth(state([[2.0, 1.0, 2.2]] * 4, "same"))["redrawn"]

finding = lambda i, low, expected, high, ceiling=False: {
    "id": i, "action": "use --bucket-mib 8", "what_if": None,
    "gain_pct": {"low": low, "expected": expected, "high": high, "ceiling": ceiling}}
assert bench.names(finding("A", 1, 2, 3), {"finding": ["B", "A/bucket"]})
assert not bench.names(finding("A", 1, 2, 3), {"finding": ["A/overlap"]})
assert bench.place_of([finding("A", 1, 2, 3), finding("B", 1, 2, 3)], [{"finding": ["B"]}]) == 2
assert bench.interval(finding("A", 0, 25, 100)) == (0.5, 0.8, 1.0)
assert bench.interval(finding("A", None, None, 100, True)) is None
low, high = bench.wilson(95, 100)
assert 0.88 < low < 0.89 and 0.97 < high < 0.99, (low, high)  # Wilson 1927: 0.888, 0.978
assert bench.quantile([1, 2, 3, 4], 0.5) == 2.5
assert bench.seeds_of(["3", "5-7"]) == [3, 5, 6, 7]
PY

# a whole draw, one round, of a slow loader; the same again does nothing
seed=$(PYTHONPATH=$bottlenecks python3 -c 'import bench; print(next(s for s in range(1, 999) if bench.draw(s)["name"] == "decode-in-line"))')
export CALIBRATE=0 ROUNDS=2 MOST_ROUNDS=2 SECONDS=0.3
"$bottlenecks/bench.py" record store "$seed" > out 2>&1 || fail "record: $(cat out)"
grep -q "^$seed decode-in-line: 2 rounds" out || fail "recorded: $(cat out)"
"$bottlenecks/bench.py" record store "$seed" | grep -q ': kept' || fail "measured again"
"$bottlenecks/bench.py" judge store --markdown table.md > out || fail "judge: $(cat out)"
grep -q "| $seed | decode-in-line | delay=" out || fail "no row: $(cat out)"
grep -q '^draws: 1, ' out && grep -q '^# How good' table.md || fail "no sums: $(cat out)"
expect 1 "$bottlenecks/bench.py" judge nothing
grep -q '^hint: ' "$work/err" || fail "an empty store has no hint"
