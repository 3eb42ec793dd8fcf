#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The numerics of real runs under tacho: an injected NaN, too large a rate, and a wrong scale of fp16 are named at their step and layer,
# and runs without a fault have no such finding; fp16 learns as fp32 does, and resumes bit by bit. DRAWS (default 1) of each; long_numerics.sh makes 20.
set -u
fail() { echo "FAIL: $*"; exit 1; }
cd "$TMPDIR" || exit 1
export OMP_NUM_THREADS=1
draws=${DRAWS:-1}
args=(--layers 3 --channels 32 --heads 2 --seq 32 --batch 4 --data "$SRC/LICENSE" --log-every 0 --workers 0)
ids() { python3 -c 'import json,sys; print("\n".join(f["id"] + ": " + f["claim"] for f in json.load(sys.stdin)["findings"]))'; }
run() { # FILE ARGUMENTS: the findings about numbers
    rm -f "$1.tacho"
    "$TACHO" run --no-counters -o "$1.tacho" -- "$TRAIN" "${@:2}" > log 2>&1
    "$TACHO" report "$1.tacho" --json | ids | grep -E '^(NAN|DIVERGING|OVERFLOW_LOOP|DEAD_SCALE): '
}
names=(gelu.forward layernorm.backward attention.forward matmul.backward residual.forward)
llamas=(swiglu.forward rmsnorm.backward attention.backward rope.forward residual.forward)
for ((i = 1; i <= draws; i++)); do
    model=gpt2-tiny name=${names[i % 5]}
    [ $((i % 2)) = 0 ] || { model=llama-tiny name=${llamas[i % 5]}; }
    step=$((3 + (7 * i) % 20)) layer=$((i % 3)) value=nan
    [ $((i % 4)) = 3 ] && value=inf
    found=$(run nan $model "${args[@]}" --steps 30 --seed $((i + 1)) --inject "$value=$step:$layer:$name")
    grep -q "not finite from step $step on; the first such value came from $name, layer $layer" <<< "$found" || fail "$value in $name of layer $layer, step $step: ${found:-nothing found}"
    grep -q "step $step: .* (first in $name, layer $layer)" log || { cat log; fail "train does not say where"; }

    step=$((20 + i % 15))
    found=$(run rate $model "${args[@]}" --steps 60 --seed $((i + 1)) --lr 1e-2 --schedule constant --inject "rate=$step:1000" --clip 0)
    after=$(sed -n 's/^DIVERGING: the loss rises after step \([0-9]*\),.*/\1/p' <<< "$found")
    [ -n "$after" ] && [ "$after" -ge $((step - 3)) ] && [ "$after" -le $((step + 3)) ] || fail "a rate of 1000 times from step $step on: ${found:-nothing found}"

    # fp16: at a scale so large that the gradient overflows, and so small that it vanishes
    found=$(run large $model "${args[@]}" --steps 30 --seed $((i + 1)) --dtype fp16 --loss-scale 1e9)
    grep -q '^OVERFLOW_LOOP: from step 0 on' <<< "$found" || fail "a scale of 1e9: ${found:-nothing found}"
    found=$(run small $model "${args[@]}" --steps 30 --seed $((i + 1)) --dtype fp16 --loss-scale 1e-5 --watch 1)
    grep -q '^DEAD_SCALE: gradients vanish in fp16 from step 0 on, first in layer2' <<< "$found" || fail "a scale of 1e-5: ${found:-nothing found}"
    found=$(run fp16 $model "${args[@]}" --steps 40 --seed $((i + 1)) --dtype fp16 --watch 5)
    [ -z "$found" ] || fail "fp16 with a dynamic scale: $found"

    found=$(run healthy $model "${args[@]}" --steps 60 --seed $((i + 100)) --watch 5)
    [ -z "$found" ] || fail "healthy, seed $((i + 100)): $found"
done
echo "$draws draws of each: all named, none in healthy runs"
if command -v sqlite3 > /dev/null; then
    sqlite3 -readonly healthy.tacho "SELECT t.name, count(*) FROM counter c JOIN track t ON t.id = c.track WHERE t.name LIKE '%.layer%' OR t.name LIKE '%.ends' GROUP BY 1" > rows
    for name in grad_norm update_ratio underflow; do
        for layer in layer0 layer2 ends; do
            # 12 of the 60 steps, less those that tacho does not record, to measure its own cost
            grep -qE "^$name.$layer\|([6-9]|1[0-2])$" rows || { cat rows; fail "no $name.$layer in each fifth step"; }
        done
    done
fi
loss() { sed -n 's|^step *39/40  loss \([0-9.]*\).*|\1|p' "$1"; }
short=(llama-tiny "${args[@]}" --steps 40 --log-every 39 --schedule constant --warmup 0 --lr 2e-3)
# at a scale that never overflows no update is skipped, and the losses are 0.002 apart at most in seeds 1 to 24, mostly less than 0.0003
for seed in 1 2 3 4; do
    "$TRAIN" "${short[@]}" --seed $seed > fp32 || fail "fp32"
    "$TRAIN" "${short[@]}" --seed $seed --dtype fp16 --loss-scale 1024 > half || { cat half; fail "fp16"; }
    echo "loss after 40 steps of seed $seed: fp32 $(loss fp32), fp16 $(loss half)"
    awk -v a="$(loss fp32)" -v b="$(loss half)" 'BEGIN { exit !(a > 0 && b > 0 && a - b < 0.005 && b - a < 0.005) }' || fail "fp16 learns otherwise"
done
# a window of 7 doubles the scale until it overflows; each update that is skipped for it costs what an update gains, about 0.05 here
"$TRAIN" "${short[@]}" > fp32 || fail "fp32"
"$TRAIN" "${short[@]}" --dtype fp16 --loss-scale-window 7 --log-every 1 --checkpoint straight > half || { cat half; fail "fp16"; }
skipped=$(grep -cE '  norm -?(inf|nan) ' half)
echo "loss after 40 steps: fp32 $(loss fp32), fp16 $(loss half), $skipped updates skipped"
awk -v a="$(loss fp32)" -v b="$(loss half)" -v skipped="$skipped" \
    'BEGIN { exit !(a > 0 && b > 0 && a - b < 0.005 && b - a < 0.005 + 0.05 * skipped && skipped < 6) }' || fail "fp16 learns otherwise"
"$TRAIN" "${short[@]}" --dtype fp16 --loss-scale-window 7 --steps 17 --checkpoint cut > /dev/null || fail "cut"
"$TRAIN" "${short[@]}" --dtype fp16 --loss-scale-window 7 --checkpoint cut --resume cut > /dev/null || fail "resume"
cmp -s straight cut || fail "the resumed run of fp16 ends elsewhere"
"$TRAIN" gpt2-tiny --loss-scale 8 > err 2>&1
[ $? = 2 ] && grep -q 'fp32 needs none' err || { cat err; fail "a loss scale in fp32"; }
"$TRAIN" gpt2-tiny --inject nan=3:0:nonsense > err 2>&1
[ $? = 2 ] && grep -q 'not a fault' err || { cat err; fail "a fault that is none"; }
