#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The report of a real run against the engine's own timers: FLOPs equal, the same steps, classes that sum to the step; with TIMING, each
# class of the budget within 2 % of the timers' one.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
work_folder

# shape: [layers channels batch seq accumulate workers]
compare() {
    rm -f run.tacho timers
    "$TACHO" run -o run.tacho --overhead 0 -- "$TRAIN" gpt2-tiny --steps 24 --layers "$1" --channels "$2" --heads 4 --batch "$3" --seq "$4" \
        --accumulate "$5" --workers "$6" --data "$data" --eval-every 8 --eval-batches 1 --log-every 0 --timers timers > log 2>&1 ||
        { cat log; fail "the run failed"; }
    "$TACHO" report run.tacho --json > json || fail "no report"
    [ "$(field json steps count)" = 24 ] || fail "steps: $(field json steps count)"
    [ "$(field json steps counted)" = 22 ] || fail "counted: $(field json steps counted)"
    [ "$(field json steps detailed)" = 22 ] || fail "detailed: $(field json steps detailed)"
    # the engine's sums over the steps that count: all but the first and the last
    tr '{' '\n' < timers | awk -F'[:,}]' '
    /"wall_ns"/ {
        split("", v)
        for (i = 1; i < NF; i += 2) { gsub(/"/, "", $i); v[$i] = $(i + 1) }
        if (v["index"] + 0 == 0 || v["index"] + 0 == 23) next
        n++
        for (k in v) sum[k] += v[k]
        model = v["model_flops"]; palm = v["palm_flops"]; matrix = v["matrix_flops"]
    }
    END { printf "%d %.0f %.0f %.0f %.0f %.0f %s %s %s\n", n, sum["wall_ns"], sum["compute_ns"], sum["input_ns"], sum["host_ns"], sum["unattributed_ns"], model, palm, matrix }' > own
    read -r n wall compute input host rest model palm matrix < own
    [ "$n" = 22 ] || fail "the timers have $n steps"
    [ "$(field json utilization model_flops_per_step)" = "$model" ] || fail "model FLOPs $(field json utilization model_flops_per_step), not $model"
    [ "$(field json utilization palm_flops_per_step)" = "$palm" ] || fail "PaLM FLOPs $(field json utilization palm_flops_per_step), not $palm"
    [ "$(field json utilization hardware_flops_per_step)" = "$matrix" ] || fail "hardware FLOPs $(field json utilization hardware_flops_per_step), not $matrix"
    # within 2 % of the class, or 0.5 % of the step for classes that are next to nothing: what recording an op costs falls there
    for pair in compute:"$compute" input:"$input" host:"$host" unattributed:"$rest" step_ns:"$wall"; do
        mine=$(field json budget_ns "${pair%%:*}") own=${pair#*:}
        [ -z "${TIMING:-}" ] || awk -v a="$mine" -v b="$own" -v w="$wall" 'BEGIN { d = a > b ? a - b : b - a; exit !(d <= 0.02 * b || d <= 0.005 * w) }' ||
            fail "${pair%%:*}: the report has $mine ns, the engine's timers $own ns of $wall"
        printf '%s %s/%s  ' "${pair%%:*}" "$mine" "$own"
    done
    echo
    [ "$(field json trust lost_events)" = 0 ] || fail "events lost"
    # classes sum to the step in integers, shares to 100; with TIMING, little is unattributed
    awk '/^ "budget_ns"/ { on = 1; next } on && /^ }/ { exit } on { gsub(/[",:]/, ""); if ($1 == "step_ns") step = $2; else if ($1 != "phase_ns" && $1 != "steps" && $2 != "null") sum += $2 }
        END { if (sum != step || !step) { print "FAIL: classes sum to " sum ", the steps last " step; exit 1 } }' json || exit 1
    awk -v timing="${TIMING:-}" '/^ "budget"/ { on = 1; next } on && /^ }/ { exit } on { gsub(/[",:]/, ""); if ($2 != "null") sum += $2; if ($1 == "unattributed_pct") rest = $2 }
        END { if (sum < 99.99 || sum > 100.01 || (timing != "" && rest > 2)) { print "FAIL: shares sum to " sum ", unattributed " rest; exit 1 } }' json || exit 1
    awk '/^ "phases"/ { on = 1 } on && /"evaluation"/ { found = 1 } END { exit !found }' json || fail "no phase evaluation"
}
compare 2 128 8 128 1 1
compare 3 128 4 64 2 0
"$TACHO" report run.tacho --full > text || fail "no text"
grep -q '^Where a step goes' text || fail "no budget in the text"
grep -q 'MFU [0-9.]* % (causal) · MFU [0-9.]* % (PaLM) · HFU [0-9.]* %' text || fail "no utilisation in the text"
"$TACHO" report run.tacho --peak 1 --json > json || fail "no report with --peak"
[ "$(field json utilization mfu)" = null ] || fail "more than 100 % of a peak was printed"
grep -q '"/utilization/mfu": .*counted twice' json || fail "no reason for the missing MFU"
