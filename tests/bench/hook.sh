#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What recording costs an unmodified PyTorch program on the CPU, for steps of milliseconds that are mostly Python (the worst case) and
# for steps of about 100 ms. CPU time, not wall time, in blocks of steps that take turns: what else runs on the machine meets both sides.
#   in the process: one program under tacho takes the hook out of PyTorch and puts it back, block by block
#   collector:      share of a core that tacho itself takes meanwhile; the agent's own threads beside it
#   whole:          one process under tacho and one without, of which one sleeps while the other one computes
#   team:           the same by the clock, of a program whose threads use all cores, so that it waits for whatever tacho does
# Each with the same thing without tacho, which must come out as nothing. Medians of the pairs, with the 95 % interval of the sign test.
# Rows of four columns separated by tabs: what, measured, budget, verdict; "noise": the interval does not tell. Of teams the interval
# is the one of 90 %.
# usage: tests/bench/hook.sh BUILD      environment: TORCH_PYTHON (python3), BENCH_SECONDS (40) for each comparison
set -u
tacho=$(realpath "${1:?BUILD}")/tacho
python=${TORCH_PYTHON:-python3}
seconds=${BENCH_SECONDS:-40}
here=$(cd "$(dirname "$0")" && pwd)
"$python" -c 'import torch' 2> /dev/null || { printf 'hook of PyTorch\tno PyTorch: TORCH_PYTHON names a python3 that has it\t<= 1 %%\tskipped\n'; exit 0; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# the program on one CPU, and tacho wherever there is room
pin=()
cpu=$("$python" -c 'import os; print(max(os.sched_getaffinity(0)))')
command -v taskset > /dev/null && pin=(taskset -c "$cpu")
record=("$tacho" run --no-peak --overhead 0)
loop=("${pin[@]}" "$python" "$here/hook_loop.py")
run() { # NAME COMMAND...
    local name=$1
    shift
    "$@" > "$name" 2> err || { cat err >&2; exit 1; }
}
for model in tiny normal; do
    run $model.hook "${record[@]}" -o $model -- "${loop[@]}" $model alternate "$seconds"
    "$tacho" sql $model.tacho "SELECT min(value) FROM counter c JOIN track t ON t.id = c.track WHERE t.name = 'hook.module_depth'" 2> err |
        tail -n 1 | tr -d ' ' > $model.depth
    run $model.none "${loop[@]}" $model alternate "$seconds"
    run $model.whole "${pin[@]}" "$python" "$here/hook_turns.py" "$seconds" "${loop[@]}" $model turns -- \
        "${record[@]}" -o $model.turns -- "${loop[@]}" $model turns
    run $model.same "${pin[@]}" "$python" "$here/hook_turns.py" "$seconds" "${loop[@]}" $model turns -- "${loop[@]}" $model turns
    rm -f ./*.tacho
done
for model in short team; do
    loop=("$python" "$here/hook_loop.py" "$model" turns)
    run $model.whole "$python" "$here/hook_turns.py" "$seconds" "${loop[@]}" -- "${record[@]}" -o $model.turns -- "${loop[@]}"
    run $model.same "$python" "$here/hook_turns.py" "$seconds" "${loop[@]}" -- "${loop[@]}"
    rm -f ./*.tacho
done
python3 - << 'PY'
import json, statistics

def interval(pairs, z=1.96):
    x = sorted(100 * (b / a - 1) for a, b in pairs)
    k = max(0, int(len(x) / 2 - z / 2 * len(x) ** 0.5))
    return statistics.median(x), x[k], x[-1 - k]

def row(what, value, extra, more=0.0, budget=1):
    middle, low, high = (v + more for v in value)
    verdict = "-" if not budget else "ok" if high <= budget else "OVER" if low > budget else "noise"
    print("%s\t%+.2f %% (%+.2f..%+.2f)%s\t%s\t%s" % (what, middle, low, high, extra, "<= %d %%" % budget if budget else "-", verdict))

for model in ("tiny", "normal"):
    read = {name: json.load(open("%s.%s" % (model, name))) for name in ("hook", "none", "whole", "same")}
    hook = read["hook"]
    off = statistics.median(a for a, _ in hook["pairs"]) / hook["steps"]
    us = statistics.median(b - a for a, b in hook["pairs"]) / hook["steps"] / 1e3
    what = "a PyTorch step of %.1f ms (%d modules)" % (off / 1e6, hook["modules"])
    depth = "%.0f" % float(open(model + ".depth").read())
    value = interval(hook["pairs"])
    row("hook in the process, " + what, value, " = %.1f us; %d pairs; levels of modules left: %s" % (us, len(hook["pairs"]), depth))
    row("  nothing in the process: noise", interval(read["none"]["pairs"]), "; %d pairs" % len(read["none"]["pairs"]), budget=0)
    print("  agent's own threads; collector\t%.3f %%; %.2f %% of a core\t-\t-" % (hook["threads_pct"], hook["collector_pct"]))
    row("  hook, agent and collector", value, "", hook["threads_pct"] + hook["collector_pct"])
    row("whole process under tacho, " + what, interval(read["whole"]["pairs"]), "; %d pairs" % len(read["whole"]["pairs"]))
    row("  two without tacho: noise", interval(read["same"]["pairs"]), "; %d pairs" % len(read["same"]["pairs"]), budget=0)
for model, budget in (("short", 2), ("team", 1)):
    read = {name: json.load(open("%s.%s" % (model, name))) for name in ("whole", "same")}
    ms = statistics.median(a for a, _ in read["whole"]["pairs"]) / read["whole"]["steps"] / 1e6
    what, count = "whole process, threads on all cores, a step of %.1f ms" % ms, "; %d pairs"
    row(what, interval(read["whole"]["pairs"], 1.645), count % len(read["whole"]["pairs"]), budget=budget)
    row("  two without tacho: noise", interval(read["same"]["pairs"], 1.645), count % len(read["same"]["pairs"]), budget=0)
PY
