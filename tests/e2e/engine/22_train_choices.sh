#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Choices of a run: a range test suggests a rate that then learns; patience ends a run that has stopped to learn; rates scale with the samples of
# an update; a run goes on with another micro-batch of the same global batch.
set -u
fail() { echo "FAIL: $*"; exit 1; }
cd "$TMPDIR" || exit 1
export XDG_CACHE_HOME=$TMPDIR/cache OMP_NUM_THREADS=1
mkdir cache
small=(mlp --hidden 64 --layers 1 --batch 32)

"$TRAIN" "${small[@]}" --schedule range --min-lr 1e-5 --lr 100 --steps 200 --log-every 1 --clip 0 > range || { cat range; fail "range"; }
rate=$(sed -n 's/^range test: .* falls fastest at --lr \(.*\)$/\1/p' range)
made=$(sed -n 's/^range test: \([0-9]*\) steps.*/\1/p' range)
echo "range test: $made of 200 steps, suggests ${rate:-nothing}"
[ "${made:-200}" -lt 200 ] || fail "it did not end when the loss left"
awk -v r="${rate:-0}" 'BEGIN { exit !(r > 1e-4 && r < 0.3) }' || fail "suggests ${rate:-nothing}"
sed -n 's/^step .* lr \([^ ]*\) .*/\1/p' range | awk 'NR > 1 { d = $1 / last / exp(log(1e7) / 199); if (d > 1.02 || d < 0.98) bad = 1 } { last = $1 } END { exit bad || NR < 20 }' ||
    fail "the rate does not grow by one factor"
# with a rate of one and of a hundredth of it: the first learns more
loss() { sed -n 's|^step *59/.*loss \([0-9.]*\).*|\1|p' "$1"; }
"$TRAIN" "${small[@]}" --schedule constant --lr "$rate" --min-lr 0 --steps 60 --log-every 59 > good || fail "the suggested rate"
"$TRAIN" "${small[@]}" --schedule constant --lr "$(awk -v r="$rate" 'BEGIN { print r / 100 }')" --min-lr 0 --steps 60 --log-every 59 > less || fail "a hundredth of it"
awk -v a="$(loss good)" -v b="$(loss less)" 'BEGIN { exit !(a > 0 && a < 0.8 * b) }' || fail "loss $(loss good) with it, $(loss less) with a hundredth"

# at a rate of 0 no evaluation is better than the first
"$TRAIN" "${small[@]}" --lr 0 --min-lr 0 --steps 100 --eval-every 2 --eval-batches 2 --patience 3 --checkpoint c --log-every 1 > patience || { cat patience; fail "patience"; }
grep -q '^stopped after step 7: 3 evaluations in a row without a loss below' patience || { cat patience; fail "it did not stop after step 7"; }
[ "$(grep -c '^step' patience)" = 8 ] && [ -s c ] || fail "8 steps and a checkpoint"

lr() { sed -n 's|^step *0/.* lr \([^ ]*\) .*|\1|p' "$1"; }
for case in "linear=256 2.50e-04" "sqrt=256 5.00e-04" "linear=16 4.00e-03"; do
    read -r rule want <<< "$case"
    "$TRAIN" "${small[@]}" --accumulate 2 --schedule constant --warmup 0 --lr 1e-3 --scale-lr "$rule" --steps 1 > scaled || { cat scaled; fail "$rule"; }
    [ "$(lr scaled)" = "$want" ] || fail "--scale-lr $rule: $(lr scaled), not $want"
done

# four samples at a time, then one at a time, four times: the same losses
lines() { sed -n 's/^step *\([0-9]*\).*loss \([0-9.]*\).*/\1 \2/p' "$@"; }
text=(gpt2-tiny --layers 1 --channels 32 --heads 2 --seq 32 --data "$SRC/LICENSE" --log-every 1 --schedule constant --warmup 0)
"$TRAIN" "${text[@]}" --steps 20 --batch 4 > whole || fail "whole"
"$TRAIN" "${text[@]}" --steps 8 --batch 4 --checkpoint half > first || fail "first"
"$TRAIN" "${text[@]}" --steps 20 --batch 1 --accumulate 4 --resume half > rest || { cat rest; fail "rest"; }
paste -d ' ' <(lines whole) <(lines first rest) | awk '{ d = $2 - $4; if ($1 != $3 || d > 5e-4 || d < -5e-4) bad = 1 } END { exit bad || NR != 20 }' ||
    fail "another micro-batch: $(paste -d ' ' <(lines whole) <(lines first rest) | tail -n 2)"

# the optimizer's state and the activations in files: the same bits, and not in memory
plain=(llama-tiny --layers 2 --batch 2 --seq 64 --steps 4 --data "$SRC/LICENSE" --log-every 0)
"$TRAIN" "${plain[@]}" --checkpoint here > here.out || fail "without --offload"
"$TRAIN" "${plain[@]}" --checkpoint there --offload optimizer="$TMPDIR" --offload activations="$TMPDIR" --timers timers > there.out || { cat there.out; fail "--offload"; }
cmp -s here there || fail "--offload changes bits"
grep -q '^memory: .*optimizer 0.0, activations 0.0.*; [0-9.]* MiB in files' there.out || { cat there.out; fail "--offload: the prediction"; }
tr -d '\n' < timers | grep -q '"optimizer":0,"activations":0' || fail "--offload: the timers"
held() { sed -n 's/^memory: \([0-9.]*\) MiB at its peak.*/\1/p' "$1"; }
awk -v a="$(held here.out)" -v b="$(held there.out)" 'BEGIN { exit !(b > 0 && b < 0.7 * a) }' || fail "--offload: $(held here.out) MiB without, $(held there.out) with"

. "$SRC/tests/e2e/kit/refuse_common.sh"
refuse 2 'not with these options' mlp --schedule range --min-lr 0
refuse 2 'no evaluations' mlp --patience 2
refuse 2 'line-search: not with these options' mlp --line-search 4
refuse 2 'line-search: not with these options' mlp --line-search 4 --optimizer lbfgs
refuse 4 'line-search: not for several ranks, nor for batch normalisation' resnet-tiny --channels 8 --batch 4 --steps 1 --line-search 4 --optimizer lbfgs --clip 0
refuse 2 'not understood' mlp --offload weights="$TMPDIR"
refuse 3 'no file for --offload' mlp --offload optimizer=/proc/none
refuse 2 'not a rule' mlp --scale-lr cubic=3
