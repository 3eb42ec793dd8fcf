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
import glob, itertools, json, os, re, shutil, subprocess
import bench, draws, judge, record, runs
from truth import gains, ratios, redrawn, t90, truth

recipes = draws.recipes()
assert sum(bool(recipe["fixes"]) for recipe in recipes) >= 30 and sum(not recipe["fixes"] for recipe in recipes) >= 5
assert len({recipe["name"] for recipe in recipes}) == len(recipes)
for recipe in recipes:
    for fix in recipe["fixes"]:
        assert fix["class"] in ("same", "changes") and fix["finding"], (recipe["name"], fix)

# the ids that name a fix are those of findings
sources = "".join(open(path, encoding="utf-8").read() for path in glob.glob(os.environ["SRC"] + "/analyzers/findings/*.c"))
named = {wanted.partition("/")[0] for recipe in recipes for fix in recipe["fixes"] for wanted in fix["finding"]}
assert all(f'"{name}"' in sources for name in named), [name for name in named if f'"{name}"' not in sources]

# what tacho advises by an option of the engine is the fix of some recipe, or has a reason for having none
reasons = {
    "--memory": "docker's, not the engine's", "--loss-scale": "numerics: 29_numerics.sh has the pairs", "--format": "of another command",
    "--steps": "how long to measure", "--worker-kind": "the engine has no interpreter whose lock threads share", "--vocab": "as --channels",
    "--hidden": "as --channels", "--eval-batches": "said beside --eval-every", "--checkpoint": "names the file",
}
fixed = {name for recipe in recipes for fix in recipe["fixes"] for name in fix.get("set", {})}
engine = set(re.findall(r"^  (--[a-z-]+)", subprocess.run([os.environ["TRAIN"], "--help", "all"], capture_output=True, text=True, check=True).stdout, re.M))
advised = {}
for text in re.findall(r'"(?:[^"\\\n]|\\.)*"', sources):
    advised |= {name: text for name in re.findall(r"--[a-z][a-z-]*", text) if name in engine}
assert len(advised) > 15, advised
missing = {name: text for name, text in advised.items() if name not in fixed and name not in reasons}
assert not missing, f"options that are advised, and that no recipe mends: {missing}"
assert not set(reasons) & fixed, set(reasons) & fixed

# a checkpoint on the steps' thread counts, the part that is written beside them does not
with open("timers", "w", encoding="utf-8") as file:
    written = [{"name": name, "names": [{"name": "checkpoint", "ns": ns}]} for name, ns in (("main", 10**9), ("checkpoint-0", 9 * 10**9))]
    json.dump({"steps": [{"wall_ns": 10**9}] * 5, "threads": written}, file)
assert abs(runs.seconds_of("timers") - 1.2) < 1e-9

# the same seed draws the same; what is joined or varied is a command that train accepts, with each of its fixes
assert draws.draw(7) == draws.draw(7) and len({str(draws.draw(seed)["base"]) for seed in range(200)}) > 150
later = {recipe["name"] for recipe in recipes if "from" in recipe}
firsts = {next(word for word in draws.draw(seed)["name"].split(" + ") if word in later): seed
          for seed in range(2200, 1999, -1) if later & set(draws.draw(seed)["name"].split(" + "))}
assert set(firsts) == later, (firsts, later)
for seed in [*range(1, 25), *firsts.values()]:
    drawn = draws.draw(seed)
    for fix in [None] + drawn["fixes"] if drawn.get("ranks", 1) == 1 else []:
        options, _, _, _ = draws.changed(drawn, fix)
        for name in ("--tokenizer", "--data", "--format"):
            options.pop(name, None)
        words = runs.Bench(drawn, ".", ".").command(options, 5, "timers") + ["--check"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, (drawn["name"], words, done.stderr)
        assert "{" not in " ".join(words), words
# the same training has as many samples in a step, over all ranks
def samples(options, ranks):
    micro_steps = ranks * int(options.get("--accumulate") or 1)
    micro_steps += int((options.get("--uneven") or "0=0").partition("=")[2])
    return int(options.get("--batch") or 1) * micro_steps
for seed in range(1, 200):
    drawn = draws.draw(seed)
    for fix in drawn["fixes"]:
        before, after = (samples(draws.changed(drawn, which)[0], drawn.get("ranks", 1)) for which in (None, fix))
        assert after == before * (fix.get("samples", 1) if fix["class"] == "changes" else 1), (drawn["name"], fix, before, after)
loader = {"name": "a", "base": ["mlp", {"--workers": 0}], "draw": {"n": [1]}, "fixes": [{"set": {"--workers": 2}}]}
other = {"name": "b", "base": ["mlp", {"--hidden": "{n}"}], "draw": {"n": [2]}, "fixes": [{"set": {"--eval-every": 9}}]}
assert draws.may_join(loader, other) and not draws.may_join(loader, dict(loader, name="c"))
assert not draws.may_join(loader, dict(other, ranks=2)) and not draws.may_join(loader, dict(other, fixes=[]))
joined = draws.join(draws.plain(loader), draws.rename(draws.plain(other), "other_"))
assert joined["base"][1] == {"--workers": 0, "--hidden": "{other_n}"} and all(fix["planted"] for fix in joined["fixes"]), joined

# ---- the arithmetic
def state(rounds, *classes):
    fixes = [{"name": str(i), "class": name, "finding": ["F%d" % i], "planted": i == 0} for i, name in enumerate(classes)]
    return {"recipe": {"fixes": fixes, "name": "made up", "seed": 1, "values": {}}, "rounds": rounds, "cores": 2}

def why(made_up):
    return redrawn(made_up, truth(made_up))

steady = [[2.0, 1.0, 1.6, 2.0], [2.02, 1.01, 1.61, 2.0], [2.0, 1.0, 1.6, 2.01], [1.99, 1.0, 1.59, 2.0]]
told = truth(state(steady, "same", "same"))
assert told["best"] == 0 and not told["ties"] and abs(told["gain"] - 100) < 2, told
assert why(state(steady, "same", "same")) is None
assert gains([[2, 1, 2]], 0) == [100] and ratios([[2, 1, 2]], 0) == [50]
told = truth(state([[t[0], t[2], t[1], t[3]] for t in steady], "same", "changes"))
assert told["best"] == 0, "a fix that changes the training is the cause only where the recipe plants it"
told = truth(state([[2.0, 1.0 + d, 1.0 - d, 2.0] for d in (0.01, -0.02, 0.02, -0.01)], "same", "same"))
assert len(told["ties"]) == 1, told
assert "gains" in why(state([[2.0, 1.98, 2.0]] * 4, "same"))
assert "differ" in why(state([[2.0, 1.0, 2.2]] * 4, "same"))
assert "other programs" in why(state(steady, "same", "same") | {"recorded_others": 0.3})
assert why(state([[2.0, 1.0, 2.2], [2.2, 1.0, 2.0]] * 2, "same")) is None, "single runs differ, all of them together do not"
assert "not decided" in why(state([[2.0, 1.0, 2.0], [2.0, 1.4, 2.0]] * 2, "same"))
assert why(state([[2.0, 1.0, 2.2]] * 4, "same") | {"recipe": {"fixes": [], "neighbour": "cpu"}}) is None
vague = [[2.0, 1.0, 1.4, 2.0], [2.0, 1.0, 1.9, 2.0]] * 4
assert record.is_decided(state(vague, "same", "same")), "the second fix is far from a tie"
assert not record.is_decided(state([[t[0], t[1], t[2] - 0.5, t[3]] for t in vague], "same", "same")), "it may tie"
wide = [[2.0, 1.5, 2.0], [2.0, 1.2, 2.0]] * 4
assert not record.is_decided(state(wide, "same"))
assert record.is_decided(state(wide, "same") | {"recipe": {"fixes": [{}], "neighbour": "cpu"}}), "what a neighbour costs need not be exact"
close = [[2.0, 1.8, 2.0], [2.0, 2.0, 2.0]] * 4
assert not record.is_decided(state(close, "same") | {"recipe": {"fixes": [{}], "neighbour": "cpu"}}), "above 5 % or below?"
assert abs(t90(12) - 1.782) < 0.012 and abs(t90(30) - 1.697) < 0.003, "tables of Student's t"

finding = lambda i, low, expected, high, ceiling=False, changes="nothing": {
    "id": i, "action": "use --bucket-mib 8", "what_if": None, "changes": changes,
    "gain_pct": {"low": low, "expected": expected, "high": high, "ceiling": ceiling}}
assert judge.names(finding("A", 1, 2, 3), {"finding": ["B", "A/bucket"]})
assert not judge.names(finding("A", 1, 2, 3), {"finding": ["A/overlap"]})
assert judge.place_of([finding("A", 1, 2, 3), finding("B", 1, 2, 3)], [{"finding": ["B"]}]) == 2
assert judge.interval(finding("A", 0, 25, 100)) == (0.5, 0.8, 1.0)
assert judge.interval(finding("A", None, None, 100, True)) is None
said = [finding("OTHER_PROGRAMS", 5, 6, 7), finding("A", 1, 2, 3), finding("B", 1, 2, 3, changes="the precision"), finding("C", -1, 2, 3)]
assert judge.claims(said) == ["A"], "a false claim is one of the same training, with a low end above 0"
low, high = judge.wilson(95, 100)
assert 0.88 < low < 0.89 and 0.97 < high < 0.99, (low, high)  # Wilson 1927: 0.888, 0.978
assert judge.quantile([1, 2, 3, 4], 0.5) == 2.5
assert bench.seeds_of(["3", "5-7"]) == [3, 5, 6, 7]
PY

# a whole draw, two rounds, of a slow loader beside a small model; the same again does nothing
read -r seed name < <(PYTHONPATH=$bottlenecks python3 - << 'PY'
import draws
def work(drawn):
    options = drawn["base"][1]
    return options.get("--layers", 4) * options.get("--batch", 8) * options.get("--seq", 128) * options.get("--channels", 128)
slow_loaders = ("decode-in-line", "read-in-line", "collate-in-line")
drawn = [draws.draw(seed) for seed in range(1, 200)]
least = min((each for each in drawn if each["name"] in slow_loaders), key=work)
print(least["seed"], least["name"])
PY
)
export CALIBRATE=0 ROUNDS=2 MOST_ROUNDS=2 SECONDS=0.3
"$bottlenecks/bench.py" record store "$seed" > out 2>&1 || fail "record: $(cat out)"
grep -q "^$seed $name: " out || fail "recorded: $(cat out)"
"$bottlenecks/bench.py" record store "$seed" | grep -q ': kept' || fail "measured again"
"$bottlenecks/bench.py" judge store --markdown table.md > out || fail "judge: $(cat out)"
grep -q "| $seed | $name | delay=" out || fail "no row: $(cat out)"
grep -q '^draws: 1; ' out && grep -q '^# How good' table.md || fail "no sums: $(cat out)"
# rows outlast their recordings: those of other machines stay, those of the same seed give way
cat > rows << 'END'
{"machine": "another one", "seed": 1, "recipe": "kept", "values": {}, "neighbour": false, "failed": "there"}
END
printf '{"seed": %d, "recipe": "old", "values": {}, "neighbour": false, "failed": "old"}\n' "$seed" >> rows
"$bottlenecks/bench.py" judge store --keep rows --markdown both.md > out || fail "judge --keep: $(cat out)"
{ [ "$(wc -l < rows)" = 2 ] && grep -q '"recipe": "kept"' rows && grep -q "\"seed\": $seed" rows && ! grep -q '"old"' rows; } || fail "rows: $(cat rows)"
{ grep -q '^draws: 2; ' out && grep -q '^| 1 | kept ' both.md && grep -q 'another one (1 draws)' both.md; } || fail "page of all rows: $(cat both.md)"
expect 1 "$bottlenecks/bench.py" judge nothing
grep -q '^hint: ' "$work/err" || fail "an empty store has no hint"
