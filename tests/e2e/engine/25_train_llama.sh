#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# train llama-tiny on real text: it learns as gpt2-tiny does, holds the memory that was predicted, resumes bit by bit, with several
# ranks too, and says what it is not for.
set -u
fail() { echo "FAIL: $*"; exit 1; }
cd "$TMPDIR" || exit 1
export OMP_NUM_THREADS=1
data=(--data "$SRC/LICENSE")
small=(--layers 2 --batch 4 --seq 64 "${data[@]}")

last() { sed -n 's|^evaluation after step 59  loss \([0-9.]*\).*|\1|p' "$1"; }
for model in gpt2 llama; do
    "$TRAIN" $model-tiny "${small[@]}" --steps 60 --accumulate 2 --eval-every 60 --log-every 1 > $model || { cat $model; fail "$model: it failed"; }
    grep -q '^memory: .* at its peak ([-+]0\.[0-9]* % of what was predicted)' $model || { cat $model; fail "$model: memory"; }
done
echo "held-out loss after 60 steps: gpt2-tiny $(last gpt2), llama-tiny $(last llama)"
awk -v g="$(last gpt2)" -v l="$(last llama)" 'BEGIN { exit !(g > 0 && l > 0 && l < 4.2 && l < g + 0.2) }' || fail "it does not learn"

# 12 steps at a stretch, and 5 and 7: the same checkpoint; made again or not, and in bf16
for options in "--dtype fp32" "--dtype fp32 --recompute block" "--dtype bf16"; do
    read -ra mode <<< "$options"
    args=(llama-tiny "${small[@]}" "${mode[@]}" --log-every 0 --schedule constant --warmup 0 --groups 1 --hidden 96)
    "$TRAIN" "${args[@]}" --steps 12 --checkpoint straight > /dev/null || fail "$options: straight"
    "$TRAIN" "${args[@]}" --steps 5 --checkpoint cut > /dev/null || fail "$options: cut"
    "$TRAIN" "${args[@]}" --steps 12 --checkpoint cut --resume cut --workers 0 > rest || { cat rest; fail "$options: resume"; }
    grep -q '^resumed: 5 steps made before' rest || fail "$options: it did not resume"
    cmp -s straight cut || fail "$options: the resumed run ends elsewhere"
    [ "$options" != "--dtype fp32" ] || cp straight kept
    [ "$options" != "--dtype fp32 --recompute block" ] || cmp -s straight kept || fail "recomputation changes bits"
done

# two ranks: the same losses however the gradients travel, near those of one rank with the same global batch
if command -v mpirun > /dev/null; then
    one=(llama-tiny --layers 2 --seq 64 "${data[@]}" --steps 6 --log-every 5 --no-shuffle)
    loss() { sed -n 's|^step *5/6  loss \([0-9.]*\).*|\1|p' "$1"; }
    "$TRAIN" "${one[@]}" --batch 4 > alone || { cat alone; fail "one rank"; }
    for way in library ring ordered; do
        mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 "$TRAIN" "${one[@]}" --batch 2 --all-reduce $way > $way 2> err || { cat err; fail "two ranks, $way"; }
        awk -v a="$(loss alone)" -v b="$(loss $way)" 'BEGIN { exit !(a > 0 && b > 0 && a - b < 2e-3 && b - a < 2e-3) }' || fail "two ranks, $way: loss $(loss $way), one rank $(loss alone)"
    done
fi

. "$SRC/tests/e2e/kit/refuse_common.sh"
refuse 2 'do not divide among 3 groups' llama-tiny --groups 3 "${data[@]}"
refuse 2 'do not make heads of pairs' llama-tiny --heads 3 "${data[@]}"
refuse 2 'groups is for llama' gpt2-tiny --groups 2 "${data[@]}"
refuse 3 'holds another model' llama-tiny "${small[@]}" --steps 1 --resume straight
"$TRAIN" --help all | grep -q '^  llama-125M ' || fail "not in the help"
