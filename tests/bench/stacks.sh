#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What sampled call stacks cost: the engine's gpt2-tiny under tacho without --stacks, with them by frame pointers, and by unwind
# tables; rounds in turn, medians of the steps. Rows of four columns separated by tabs: what, measured, budget, verdict. A difference
# inside the noise floor (that of without against without) is no overrun.
# usage: tests/bench/stacks.sh BUILD      environment: BENCH_ROUNDS (5)
set -u
build=${1:?BUILD}
rounds=${BENCH_ROUNDS:-5}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
one() { # WHO OPTION...
    local who=$1
    shift
    rm -f "$work/x.tacho"
    "$build/tacho" run --no-peak --no-counters --overhead 0 -o "$work/x.tacho" "$@" -- "$build/train" gpt2-tiny --steps 150 > /dev/null 2>&1 || exit 1
    "$build/tacho" report --json "$work/x.tacho" | python3 -c 'import json, sys
r = json.load(sys.stdin)
print(r["steps"]["median_ms"], r["stacks"]["samples"], sum(l["count"] or 0 for l in r["trust"]["losses"] if l["source"] == "stacks"))' >> "$work/$who"
}
for ((i = 0; i < rounds; i++)); do
    one plain
    one frames --stacks --unwind frames
    one again
    one tables --stacks
done
python3 - "$work" << 'PY'
import statistics as st, sys
rows = lambda who: [line.split() for line in open(sys.argv[1] + "/" + who)]
ms = lambda who: [float(r[0]) for r in rows(who)]
plain, again = ms("plain"), ms("again")
base = [(a + b) / 2 for a, b in zip(plain, again)]
floor = max(abs(100 * (a / b - 1)) for a, b in zip(plain, again))
for who, name in (("frames", "a step of gpt2-tiny with --stacks, frame pointers"), ("tables", "the same, unwind tables")):
    s = [100 * (v / b - 1) for v, b in zip(ms(who), base)]
    middle = st.median(s)
    lost = sum(int(r[2]) for r in rows(who))
    print("%s\t%+.2f %% (%+.2f..%+.2f), %s samples, %d lost; noise %.2f %%\t<= 2 %%\t%s" % (name, middle, min(s), max(s), rows(who)[-1][1], lost,
          floor, "ok" if middle <= 2 else "noise" if middle <= floor else "OVER"))
PY
