# SPDX-License-Identifier: Apache-2.0
"""`tacho verify` on slow runs of draws: what the first finding with a change predicts, what verify measures, and whether the two
commands that it prints, typed by hand, do what it says."""
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from draws import draw
from record import pace, prepare
from runs import TACHO, Bench, Failed

PAIRS = 3


def can_run_again(recipe):
    """Verify cannot make conditions outside of the command: a neighbour, limits of a group, cold files."""
    return bool(recipe["fixes"]) and not any(recipe.get(name) for name in ("neighbour", "limits", "cold", "log"))


def tacho(words, folder, env):
    return subprocess.run([TACHO, *words], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def step_of(file, unit, folder, env):
    """Milliseconds of a step of a run; of the whole run with its share of the time between steps."""
    told = json.loads(tacho(["report", file, "--json", "--fields", "steps,phases"], folder, env).stdout)
    between = sum(phase["exposed_ms"] for phase in told["phases"]) / told["steps"]["count"] if unit == "run" else 0
    return told["steps"]["mean_ms"] + between


def by_hand(plan, folder, env):
    """Gain in %, mean of logarithms, when the printed lines are given to a shell, PAIRS times in turn; or which line failed."""
    logs = []
    for _ in range(PAIRS):
        steps = []
        for side in ("before", "after"):
            words = ["sh", "-c", plan["command_" + side]]
            done = subprocess.run(words, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if done.returncode:
                return f"{side}: exit status {done.returncode}"
            file = os.path.join(folder, side + ".tacho")
            steps.append(step_of(file, plan["unit"], folder, env))
            os.remove(file)
        logs.append(math.log(steps[0] / steps[1]))
    return 100 * (math.exp(statistics.fmean(logs)) - 1)


def plan_of(run, folder, env, *options):
    """What verify says of a run, as JSON; None: no finding of it has a change to try."""
    done = tacho(["verify", run, "--json", *options], folder, env)
    if done.returncode == 4:
        return None
    if done.returncode:
        raise Failed(f"verify: exit status {done.returncode}: {done.stderr[-300:]}")
    return json.loads(done.stdout)


def kind_of(plan):
    return plan["finding"], plan["setting"].replace("=", " ").split()[0]


def verify_one(store, recipe, folder, seen):
    """A row: finding, change, predicted, measured, outcome, by hand; None: there is no change to try, or one of a kind that was seen."""
    bench = Bench(recipe, folder, store)
    env = bench.environment(None) | {"PATH": os.path.dirname(TACHO) + os.pathsep + os.environ["PATH"], "TACHO_HISTORY": "off"}
    run = os.path.join(folder, "slow.tacho")
    bench.run(None, pace(bench), run)
    plan = plan_of(run, folder, env, "--dry-run")
    if plan is None or kind_of(plan) in seen:
        return None
    plan = plan_of(run, folder, env, "--pairs", str(PAIRS), "-o", "kept")
    if plan is None:
        raise Failed("the change of the dry run is refused when it is to be measured")
    shutil.rmtree(os.path.join(folder, "kept"))
    return {"seed": recipe["seed"], "recipe": recipe["name"], "hand": by_hand(plan, folder, env)} | plan


def cells(row):
    predicted, measured, hand = row["predicted_pct"], row["measured_pct"], row["hand"]
    given = f"≤ {predicted['high']:+.0f}" if predicted["ceiling"] else "{expected:+.0f} [{low:.0f}, {high:.0f}]".format(**predicted)
    return [
        str(row["seed"]), row["recipe"], row["finding"], f"`{row['setting']}`", given, "{expected:+.0f} [{low:.0f}, {high:.0f}]".format(**measured),
        row["outcome"], hand if isinstance(hand, str) else f"{hand:+.0f}",
    ]


def verify(store, seeds, count):
    """Prints a row for each of these draws whose finding and option are others than those before, until there are `count`."""
    seen = set()
    head = ["seed", "recipe", "finding", "change", "predicted %", "measured %", "outcome", "typed by hand %"]
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head), flush=True)
    for recipe in filter(can_run_again, map(draw, seeds)):
        try:
            prepare(store, recipe)
            with tempfile.TemporaryDirectory(prefix="tacho-verify-") as folder:
                row = verify_one(store, recipe, folder, seen)
        except Failed as error:
            print(f"bench.py: {recipe['seed']}: {error}", file=sys.stderr)
            continue
        if row:
            seen.add(kind_of(row))
            print("| " + " | ".join(cells(row)) + " |", flush=True)
        if count and len(seen) == count:
            return
