#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# tacho plan: every format, given and chosen layouts, calibration by a run, the check of published runs, wrong input.
set -u
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder plan
published=${TACHO_PUBLISHED:-${TACHO_TRACES:-$SRC/../shared/traces}/../planner/published-runs.csv}

json() { # the value of a path of the last output
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1]))
for key in sys.argv[2].split("."): d = d[int(key)] if isinstance(d, list) else d[key]
print(d)' "$work/out" "$1"
}

# a chosen layout is one that can be given, and then predicts the same
expect 0 "$TACHO" plan llama-3-70b --gpus 1024 --seq 8192 --batch 1024 --json
step=$(json time.step_s)
options=$(json layout.options)
[ "$(json layout_chosen)" = True ] || fail "the layout is not said to be chosen"
[ "$(json schema)" = tacho-plan/1 ] || fail "schema"
# shellcheck disable=SC2086
expect 0 "$TACHO" plan llama-3-70b --gpus 1024 --seq 8192 --batch 1024 $options --json
[ "$(json time.step_s)" = "$step" ] || fail "the layout that was printed predicts $(json time.step_s), not $step"
[ "$(json layout_chosen)" = False ] || fail "a given layout is said to be chosen"

# every format says the same; text keeps to its width
for format in "" --markdown --html; do
    # shellcheck disable=SC2086
    expect 0 "$TACHO" plan llama-3-8b --gpus 8 --explain --compare A100,TPUv5p $format --width 80
    grep -q 'llama-3-8b on 8 x H100' "$work/out" || fail "no verdict with '$format'"
    grep -q 'Goodput' "$work/out" || fail "no goodput with '$format'"
done
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --width 80
awk '{ gsub(/[^\x00-\x7f]+/, "x") } length > 80 { exit 1 }' "$work/out" || fail "lines of more than 80 columns"
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --html -o plan.html
grep -q '</html>' plan.html || fail "no complete page"

# every kind of plan is as its published schema says: chosen, given, calibrated, compared, too large
expect 0 "$TACHO" plan llama-3-8b --gpus 64 --compare A100,TPUv5p --tokens 1T --json
as_schema plan "$work/out"
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --layout tp=2 --json
as_schema plan "$work/out"
sed 's/"step_s"/"step"/' "$work/out" > renamed.json
python3 "$SRC/tests/e2e/cli/schemas.py" "$SRC/docs/schemas" plan renamed.json > /dev/null && fail "a renamed key is accepted"

# by which way sequences are divided is part of the layout
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --seq 8192 --layout cp=4,tp=1,context=ulysses --batch 64 --json
grep -q 'context=ulysses' <<< "$(json layout.options)" || fail "context is not part of $(json layout.options)"

# so it is with another schedule; --memory is the capacity that a plan is judged by, and no more than the device has
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --layout tp=2,pp=2,schedule=gpipe,mbs=1 --batch 64 --json
step=$(json time.step_s)
options=$(json layout.options)
# shellcheck disable=SC2086
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --batch 64 $options --json
[ "$(json time.step_s)" = "$step" ] || fail "the schedule is not part of '$options'"
needed=$(python3 -c 'import math, sys; print(math.ceil(float(sys.argv[1])))' "$(json memory.needed_bytes)")
# shellcheck disable=SC2086
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --batch 64 $options --memory "$needed" --json
[ "$(json memory.fit)" = "may not fit" ] && [ "$(json memory.capacity_bytes)" = "$needed.0" ] || fail "as much as is needed: $(json memory.fit)"
python3 -c 'import sys; sys.exit(abs(float(sys.argv[1]) - 0.5) > 0.01)' "$(json memory.oom_probability)" || fail "probability $(json memory.oom_probability)"
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --json
fit="$(json memory.fit) $(json layout.options)"
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --memory 1T --json
[ "$(json memory.fit) $(json layout.options)" = "$fit" ] || fail "more memory than the device has: $(json memory.fit)"

# a job that fails before it gets anywhere never ends, and costs nothing that is known
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --mtbf 0.001 --json
[ "$(json cost.hours)" = None ] || fail "hours $(json cost.hours)"
as_schema plan "$work/out"

# a config.json is the same model as its name
cat > config.json <<'JSON'
{"model_type": "llama", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
 "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": false}
JSON
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --json
step=$(json time.step_s)
expect 0 "$TACHO" plan config.json --gpus 8 --json
[ "$(json time.step_s)" = "$step" ] || fail "config.json predicts another step"

# what does not fit is refused with exit code 1, and so is what costs too much
expect 1 "$TACHO" plan llama-3-405b --gpus 8 --json
[ "$(json memory.fit)" = "does not fit" ] || fail "405 B on eight devices: $(json memory.fit)"
as_schema plan "$work/out"
expect 1 "$TACHO" plan llama-3-8b --gpus 8 --budget-hours 1
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --budget-hours 1e9

# a run scales the prediction: with its own layout the plan is the run
expect 0 "$TACHO" run -o run -- "$TRAIN" gpt2-tiny --steps 12
expect 0 "$TACHO" plan llama-3-8b --gpus 8 --from run.tacho --run gpus=1,batch=8,seq=4096 --json
[ "$(json calibration.run)" != None ] || fail "no calibration"
as_schema plan "$work/out"
expect 0 "$TACHO" report run.tacho --json
median=$(json steps.median_ms)
expect 0 "$TACHO" plan layers=4,width=128,heads=4,vocab=256,gated=0,tied=1 --gpus 1 --batch 8 --seq 128 \
    --layout mbs=8,zero=0,recompute=none --from run.tacho --json
python3 -c 'import sys; sys.exit(abs(float(sys.argv[1]) * 1000 / float(sys.argv[2]) - 1) > 1e-6)' "$(json time.step_s)" "$median" ||
    fail "the run's own plan is $(json time.step_s) s, the run took $median ms"

# a run of the engine tells its times by kind, and each kind has a factor of its own
expect 0 "$TACHO" plan layers=4,width=128,heads=4,vocab=256,gated=0,tied=1 --gpu cpu --dtype fp32 --gpus 1 --batch 16 --seq 128 \
    --layout mbs=16,zero=0,recompute=none --from run.tacho --run batch=8,mbs=8 --json
as_schema plan "$work/out"
[ "$(json calibration.by_kind.gemm)" != None ] && [ "$(json calibration.by_kind.gemm)" != "$(json calibration.by_kind.attention)" ] ||
    fail "by kind: $(json calibration.by_kind)"

# wrong input
while read -r code words; do
    # shellcheck disable=SC2086
    expect "$code" "$TACHO" plan $words
    grep -q '^tacho: ' "$work/err" && grep -q '^hint: ' "$work/err" || fail "no message and hint: plan $words"
    [ ! -s "$work/out" ] || fail "output beside a message: plan $words"
done <<'END'
2 llama-9-8b
2 llama-3-8b --gpu H1000
2 llama-3-8b --gpus 8 --layout dp=3,tp=2,pp=1
2 llama-3-8b --gpus 7 --layout tp=7
2 llama-3-8b --layout pp=x
2 llama-3-8b --gpus 64 --layout pp=64
2 llama-3-8b --gpus 8 --layout tp=16
2 llama-3-8b --gpus 8 --layout tp=0
2 llama-3-8b --gpus 8 --layout tp=2,tp=4
2 llama-3-8b --gpus 8 --layout gpus=16
2 llama-3-8b --gpus 8 --batch 32 --layout batch=16
2 llama-3-8b --gpus 8 --layout ep=2
2 mixtral-8x7b --gpus 8 --layout ep=3
2 llama-3-8b --gpus 8 --layout pp=1,vpp=4
2 llama-3-8b --gpus 8 --layout pp=2,vpp=100
2 llama-3-8b --gpus 8 --layout pp=2,vpp=2,schedule=zb-h1
2 llama-3-8b --gpus 8 --layout cp=3 --seq 8192
2 llama-3-8b --gpus 64 --layout tp=8,cp=8,context=ulysses --seq 65536
2 llama-3-8b --gpus 8 --layout cp=2,context=star
2 llama-3-8b --gpus 8 --layout zero=4
2 llama-3-8b --gpus 8 --batch 3 --layout dp=8,tp=1,pp=1,mbs=1
2 layers=2,width=64,heads=4,vocab=99999999999999999999
2 layers=0,width=64,heads=4,vocab=100
2 layers=2,width=65,heads=4,vocab=100
2 llama-3-8b --gpu V100
2 llama-3-8b --carbon atlantis
2 llama-3-8b --compare H100,X1
2 llama-3-8b --markdown --html
2 --check config.json --from run.tacho
3 ./missing.json
3 /etc/passwd
3 --check missing.csv
3 --check config.json
3 llama-3-8b --from missing.tacho
3 llama-3-8b --constants config.json
END

# the check: what it says of a table of two rows, and what it refuses
head=id,source,model,layers,d_model,heads,kv_heads,d_ff,gated,vocab,tied,seq,gpu,gpus,precision,gbs,mbs,dp,tp,pp,recompute,shard,step_s,year,mem_gb
cat > two.csv <<CSV
$head
a,"one, source",Llama-7B,32,4096,32,32,11008,1,32000,0,2048,A100-SXM-80,8,bf16,64,2,8,1,1,full,zero3,8.0,2024,
b,"one, source",Llama-7B,32,4096,32,32,11008,1,32000,0,4096,A100-SXM-80,8,bf16,32,1,8,1,1,full,zero3,8.4,2024,
c,other,Unknown,,,,,,,,,2048,A100-SXM-80,8,bf16,64,2,8,1,1,full,zero3,8.0,2024,
CSV
expect 0 "$TACHO" plan --constants list --json
as_schema plan-constants "$work/out"
[ "$(json constants.0.name) $(json constants.0.value)" = "gemm_volta 0.6" ] || fail "the first constant: $(head -c 300 "$work/out")"
expect 2 "$TACHO" plan --constants list --json --html
expect 0 "$TACHO" plan --constants list --json --fields constants.name --limit 2
[ "$(json constants.0)" = "{'name': 'gemm_volta'}" ] && [ "$(json constants.1)" = "{'name': 'gemm_ampere'}" ] && ! grep -q gemm_hopper "$work/out" ||
    fail "--fields and --limit: $(cat "$work/out")"
expect 0 "$TACHO" plan llama-3-8b --json --fields layout,time.step_s
[ "$(python3 -c 'import json, sys; print(*json.load(open(sys.argv[1])))' "$work/out")" = "layout time" ] || fail "--fields: $(cat "$work/out")"
expect 2 "$TACHO" plan llama-3-8b --json --fields layuot
expect 2 "$TACHO" plan llama-3-8b --fields layout
expect 0 "$TACHO" plan --check two.csv --json
as_schema plan-check "$work/out"
[ "$(json rows.0.nearest_run)" = b ] || fail "the nearest run of a is b"
[ "$(json rows.2.step_s)" = None ] || fail "a model without dimensions has no prediction"
[ "$(json rows.0.source)" = "one, source" ] || fail "quotes"
expect 0 "$TACHO" plan --check two.csv --from nearest
head -2 two.csv | cut -d, -f1-20 > short.csv
expect 3 "$TACHO" plan --check short.csv

# the published runs, where they are: limits of the issue, on rows that the constants know
if [ -f "$published" ]; then
    expect 0 "$TACHO" plan --check "$published" --json
    python3 - "$work/out" "$published" <<'PY' || fail "the published runs"
import csv, json, statistics, sys
d = json.load(open(sys.argv[1]))
s = d["summary"]
limits = [("step_error", s["step_error"], 0.15), ("step_error_from_run", s["step_error_from_run"], 0.06), ("width", s["width"], 0.60),
          ("width_from_run", s["width_from_run"], 0.20), ("uncovered", 1 - s["coverage"], 0.12),
          ("uncovered from a run", 1 - s["coverage_from_run"], 0.12), ("formula", 1 - s["formula_within_2_pct"], 0.07),
          ("refused", s["fitting_refused"] / s["fitting_rows"], 0.02), ("above peak", s["above_peak"], 0),
          ("memory", s["memory_error_median"], 0.15), ("oom missed", s["oom_rows"] - s["oom_predicted"], 1)]
bad = [f"{name}: {value:.3f} > {limit}" for name, value, limit in limits if not value <= limit]
table = d["oom_calibration"]
if sum(row["ran_out"] for row in table) != s["oom_rows"] or sum(row["layouts"] for row in table) < s["fitting_rows"]:
    bad.append(f"the table of probabilities: {table}")
# of probabilities this small, as many as are expected, to chance
if abs(table[0]["ran_out"] - table[0]["expected"]) > 2 * table[0]["expected"] ** 0.5 + 1:
    bad.append(f"below 2 %: {table[0]}")
if any(row["convention"] is None for row in d["sources"] if row["formula_rows"]):
    bad.append("a source that prints FLOP/s without a convention")


def ranks(values):
    return [sum(other < value for other in values) + sum(other == value for other in values) / 2 for value in values]


# layouts of one model of the BLOOM chronicles, of which some were measured more than once: which is the fastest, and their order
predicted = {row["id"]: row["step_s"] for row in d["rows"]}
for width, heads in (("14336", "64"), ("13824", "96")):
    layouts = {}
    for row in csv.DictReader(open(sys.argv[2])):
        if "BLOOM" in row["model"] and (row["d_model"], row["heads"], row["precision"], row["gpus"], row["gbs"]) == (width, heads, "fp16", "384", "2048") and row["step_s"]:
            layouts.setdefault((row["mbs"], row["tp"], row["pp"]), []).append((float(row["step_s"]), predicted[row["id"]]))
    measured = [statistics.median(seconds for seconds, _ in runs) for runs in layouts.values()]
    guessed = [runs[0][1] for runs in layouts.values()]
    first = measured[guessed.index(min(guessed))] / min(measured)
    order = statistics.correlation(ranks(measured), ranks(guessed))
    if not (len(layouts) >= 5 and first <= 1.03 and order >= 0.7):
        bad.append(f"layouts of width {width}: the first of {len(layouts)} is {first:.3f} x the best, Spearman {order:.2f}")
print(*bad, sep="\n")
sys.exit(bool(bad))
PY
fi
echo ok
