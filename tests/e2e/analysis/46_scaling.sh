#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# tacho diff of one rank and two: strong and weak scaling, efficiency and what it was lost to against the two reports.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
train_with_ranks

record() { # NAME RANKS BATCH-OF-A-RANK
    "$TACHO" run -o "$1.tacho" --no-peak --overhead 0 -- mpirun -np "$2" --bind-to none --oversubscribe "$TRAIN" gpt2-tiny --steps 24 --layers 2 \
        --channels 128 --heads 2 --batch "$3" --seq 64 --data "$data" --log-every 0 --workers 1 > log 2>&1 || { cat log; fail "the run failed"; }
    "$TACHO" report "$1.tacho" --json > "$1.json" || fail "no report"
}
record one 1 8
record two 2 4
record wide 2 8
"$TACHO" diff one.tacho two.tacho --json > strong.json || fail "no diff"
"$TACHO" diff one.tacho wide.tacho --json > weak.json || fail "no diff"
"$TACHO" diff two.tacho wide.tacho --json > same.json || fail "no diff"
python3 - << 'END' || exit 1
import json
one, two, wide, strong, weak, same = (json.load(open(n + ".json")) for n in ("one", "two", "wide", "strong", "weak", "same"))
def hold(what, claim):
    if not claim:
        print("FAIL:", what, json.dumps(s))
        raise SystemExit(1)
def near(a, b, tolerance):
    return abs(a - b) <= tolerance * abs(b)
for d, bad, kind, batch in ((strong, two, "strong", 8), (weak, wide, "weak", 16)):
    s = d["scaling"]
    hold("kind", s["kind"] == kind and s["of"] == "samples")
    hold("ranks", (s["good_ranks"], s["bad_ranks"]) == (1, 2))
    hold("global batch", (s["good_global_batch"], s["bad_global_batch"]) == (8, batch))
    hold("efficiency is speed-up / ratio of ranks", near(s["efficiency"], s["speed_up"] / 2, 1e-9))
    hold("speed-up is a ratio of rates", near(s["speed_up"], s["bad_per_s"] / s["good_per_s"], 1e-9))
    # of an even number of steps the rate's median is the geometric mean of two, the report's their arithmetic one
    tolerance = 1e-3 if one["steps"]["counted"] % 2 else 0.05
    hold("rate of the median step", near(s["good_per_s"], 8 / one["steps"]["median_ms"] * 1e3, tolerance))
    hold("interval", s["efficiency_low"] <= s["efficiency"] <= s["efficiency_high"])
    # a rank's time for a sample, by class: what it costs more sums to the loss of efficiency of the means
    def cost(r, key, ranks, samples):
        b = r["budget_ns"]
        return (b[key] or 0) / b["steps"] * ranks / samples
    whole = cost(bad, "step_ns", 2, batch)
    loss = 1 - cost(one, "step_ns", 1, 8) / whole
    hold("sum of losses", abs(sum(v or 0 for v in s["lost_pct"].values()) - 100 * loss) < 1e-6)
    for k, v in s["lost_pct"].items():
        want = 100 * (cost(bad, k, 2, batch) - cost(one, k, 1, 8)) / whole
        hold(k, v is None or abs(v - want) < 1e-6)
    hold("two ranks communicate, one does not", s["lost_pct"]["exposed_comm"] > 0)
    print(kind, "efficiency %.3f [%.3f, %.3f]" % (s["efficiency"], s["efficiency_low"], s["efficiency_high"]))
s = same
hold("equal numbers of ranks", same["scaling"] is None and "both runs have 2 ranks" in same["absent"]["/scaling"])
END
"$TACHO" diff one.tacho two.tacho > text || fail "no text"
grep -q '^Scaling .*efficiency [0-9.]* % \[' text || { cat text; fail "no line Scaling"; }
grep -E '(yes|no|-)\[' text && fail "an interval runs into the column before it"
grep -q 'strong scaling: 8 and 8 samples a step' text || { cat text; fail "strong scaling is not named"; }
