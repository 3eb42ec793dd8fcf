# SPDX-License-Identifier: Apache-2.0
"""Plants causes in runs of several ranks, records them, and counts how many the report names right (long_causes.sh)."""
import argparse
import json
import math
import random
import subprocess
import sys

FORWARD, BACKWARD = 0.04, 0.08
STEP = FORWARD + BACKWARD
KINDS = ("rank", "pipeline", "link", "uneven", "stage", "rotate")
STAGES, MICRO = 4, 8  # of a pipeline


def effect(draw):
    """Share of the step, log-uniform from 3 to 50 %."""
    return math.exp(draw.uniform(math.log(0.03), math.log(0.5)))


def simulated(extra=""):
    return ["--simulate-compute", f"forward={FORWARD},backward={BACKWARD}{extra}"]


def pipeline(extra=""):
    times = f"forward={FORWARD / 4},backward={BACKWARD / 4}{extra}"
    return ["--layout", f"dp2.pp{STAGES}", "--layers", str(STAGES), "--accumulate", str(MICRO), "--simulate-compute", times]


def makespan(slow, factor):
    """A step of 1f1b in seconds, without communication, where the passes of one stage take `factor` times as long."""
    made, free = [[[], []] for _ in range(STAGES)], [0.0] * STAGES  # when each pass forward and backward ended
    while any(len(backward) < MICRO for _, backward in made):
        for stage, (forward, backward) in enumerate(made):
            ahead = len(forward) < MICRO and len(forward) - len(backward) < STAGES - stage
            way, before = (0, stage - 1) if ahead else (1, stage + 1)
            number = len(made[stage][way])
            if number == MICRO or (0 <= before < STAGES and len(made[before][way]) <= number):
                continue
            there = made[before][way][number] if 0 <= before < STAGES else 0.0
            free[stage] = max(there, free[stage]) + (FORWARD, BACKWARD)[way] / 4 * (factor if stage == slow else 1)
            made[stage][way].append(free[stage])
    return max(free)


def passes(share, stage):
    """How many times as long the passes of a stage take that make a step longer by that share. Part of an early stage's is hidden: its
    first passes forward, and the waiting for the last ones backward."""
    low, high = 1.0, 3.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if makespan(stage, middle) < (1 + share) * makespan(stage, 1) else (low, middle)
    return high


def plan(kind, draw):
    """Ranks, options of train, and what the report must say, of one draw."""
    share = effect(draw)
    if kind == "rank":
        rank, piped = draw.randrange(8), draw.random() < 0.5
        options = pipeline(f",rank{rank}={passes(share, rank // 2):.4f}") if piped else simulated(f",rank{rank}={1 + share:.4f}")
        return 8, options, {"rank": rank}, share
    if kind == "pipeline":
        stage = draw.randrange(STAGES)
        return 8, pipeline(f",stage{stage}={passes(share, stage):.4f}"), {"pipeline": stage}, share
    if kind == "stage":
        rank, where = draw.randrange(8), draw.choice(("input", "forward", "backward", "optimizer"))
        return 8, simulated() + ["--slow-rank", f"{rank}:{where}={share * STEP:.5f}"], {"stage": (rank, where)}, share
    if kind == "link":
        return 8, simulated(f",link={share * STEP:.5f}") + ["--no-overlap", "--bucket-mib", "0"], {"link": 1}, share
    if kind == "uneven":
        rank, micro = draw.randrange(8), 8
        more = max(1, round(share * micro))
        times = f"forward={FORWARD / micro},backward={BACKWARD / micro}"
        options = ["--accumulate", str(micro), "--uneven", f"{rank}={more}", "--simulate-compute", times]
        return 8, options, {"uneven": rank}, more / micro
    return 8, simulated(f",rotate={share * STEP:.5f}"), {"rotate": 1}, share


def steps_for(share):
    """What is hardly above the 2 % from which on something is named takes more steps to be told from noise."""
    return 120 if share < 0.06 else 40


def real(draw):
    share, rank = effect(draw), draw.randrange(2)
    return 2, ["--layers", "6", "--channels", "192", "--seq", "128", "--batch", "4"], {"rank": rank}, share


def record(args, ranks, options, steps):
    command = [args.tacho, "run", "-o", "run.tacho", "--no-peak", "--overhead", "0", "--", "mpirun", "-np", str(ranks), "--bind-to",
               "none", "--oversubscribe", args.train, "gpt2-tiny", "--layers", "1", "--channels", "32", "--heads", "4", "--seq", "16",
               "--batch", "1", "--data", args.data, "--log-every", "0", "--steps", str(steps)] + options
    subprocess.run(["rm", "-rf", "run.tacho", "run.tacho.live"], check=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(subprocess.run([args.tacho, "report", "run.tacho", "--json"], capture_output=True, text=True, check=True).stdout)


def accused(report):
    """What the report accuses, as one set."""
    ranks, ids = report["ranks"], {finding["id"]: finding["claim"] for finding in report["findings"]}
    found = set()
    straggler, even, data = ranks["straggler"] or {}, ranks.get("even") or {}, ranks.get("data") or {}
    frontier = ranks["frontier"] or {}
    if "STRAGGLER" in ids or (straggler.get("says") or "none") != "none":
        found.add(("rank", straggler.get("rank")))
    if "UNEVEN_DATA" in ids:
        found.discard(("rank", straggler.get("rank")))
        found.add(("uneven", data.get("rank")))
    if "SLOW_STAGE" in ids:
        found.add(("stage", (frontier.get("rank"), frontier.get("stage"))))
    if "PIPELINE_IMBALANCE" in ids:
        stages = "stages of the pipeline are uneven" in ids["PIPELINE_IMBALANCE"]
        found.add(("pipeline", even["slow_stage"]) if stages else ("batches", even["rank"]))
    if "RANK_JITTER" in ids:
        found.add(("rotate", 1))
    if "EXPOSED_COMM" in ids:
        found.add(("link", 1))
    return found


def judge(report, want):
    """Is the planted cause among what is accused, and is no rank or stage accused that is innocent? A rank that is slow is so in a stage
    of its step; waiting for it is exposed communication too, and a slow link makes no rank slow."""
    found = accused(report)
    (cause,) = want.items()
    rank = cause[1][0] if cause[0] == "stage" else cause[1]
    harmless = {("link", 1)} if cause[0] != "link" else set()
    if cause[0] == "rank" and any(x[0] == "stage" and x[1][0] == rank for x in found):
        cause = next(x for x in found if x[0] == "stage" and x[1][0] == rank)  # the rank is named, with the stage that makes it late
    if cause[0] in ("rank", "stage"):
        harmless |= {x for x in found if x[0] == "rank" and x[1] == rank or x[0] == "stage" and cause[0] == "rank" and x[1][0] == rank}
    return cause in found and not found - harmless - {cause}, found


def main():
    parser = argparse.ArgumentParser()
    for name in ("tacho", "train", "data"):
        parser.add_argument(f"--{name}")
    for name in ("seed", "draws", "real", "healthy"):
        parser.add_argument(f"--{name}", type=int)
    args = parser.parse_args()
    draw = random.Random(args.seed)
    right = made = false = 0
    for number in range(args.draws):
        kind = KINDS[number % len(KINDS)]
        ranks, options, want, share = plan(kind, draw)
        good, found = judge(record(args, ranks, options, steps_for(share)), want)
        right, made = right + good, made + 1
        print(f"{'ok   ' if good else 'WRONG'} {kind}: {want} {100 * share:.1f} %: {sorted(found, key=str)}", flush=True)
    base = None
    for _ in range(args.real):
        ranks, options, want, share = real(draw)
        base = base or record(args, ranks, options, 40)["steps"]["median_ms"] / 1000
        rank = want["rank"]
        slow = ["--slow-rank", f"{rank}:forward={share * base:.6f}"]
        good, found = judge(record(args, ranks, options + slow, 20 + steps_for(share)), want)
        right, made = right + good, made + 1
        print(f"{'ok   ' if good else 'WRONG'} two real ranks: {want} {100 * share:.1f} %: {sorted(found, key=str)}", flush=True)
    for number in range(args.healthy):
        # in a pipeline, ranks that take turns at being late are not seen as such, but no rank or stage may be accused
        turns = f",rotate={effect(draw) * STEP / 4 * (MICRO + STAGES - 1):.5f}" if number % 4 == 2 else ""
        options = simulated() if number % 2 else pipeline(turns)
        found = accused(record(args, 8, options, 40)) - ({("link", 1), ("rotate", 1)} if turns else {("link", 1)})
        false += bool(found)
        print(f"{'WRONG' if found else 'ok   '} {'turns in a pipeline' if turns else 'healthy'}: {sorted(found, key=str)}", flush=True)
    print(f"note: {right} of {made} causes named right, {false} of {args.healthy} healthy runs accused")
    sys.exit(not (right >= 0.95 * made and false == 0))


main()
