#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Variants of a run: frozen blocks, other initial values, centralised gradients, L-BFGS, TF32, weights in bf16 alone, several blocks recomputed
# together. Each does what it says to the losses, and a resumed run ends with the same bits.
set -u
fail() { echo "FAIL: $*"; exit 1; }
cd "$TMPDIR" || exit 1
export XDG_CACHE_HOME=$TMPDIR/cache OMP_NUM_THREADS=1
mkdir cache
text=(--layers 4 --channels 32 --heads 2 --seq 32 --batch 4 --data "$SRC/LICENSE" --schedule constant --warmup 0 --lr 3e-3 --workers 0)
loss() { sed -n "s|^step *$2/.*loss \([0-9.]*\).*|\1|p" "$1"; }
model_flops() { sed -n 's/^a step: .* \([0-9.]*\) model GFLOP.*/\1/p' "$1"; }
run() { # FILE ARGUMENTS
    "$TRAIN" "${@:2}" > "$1" 2>&1 || { cat "$1"; fail "${*:2}"; }
}
# twelve steps at a stretch, and seven and five from a checkpoint
resumes() { # ARGUMENTS
    run whole "$@" --steps 12 --log-every 0 --checkpoint whole.state
    run part "$@" --steps 7 --log-every 0 --checkpoint part.state
    run rest "$@" --steps 12 --log-every 0 --checkpoint part.state --resume part.state
    cmp -s whole.state part.state || fail "$*: the resumed run ends elsewhere"
}

# frozen blocks: the FLOPs follow, it still learns, and all ranks may freeze
for model in gpt2-tiny llama-tiny; do
    run all $model "${text[@]}" --steps 30 --log-every 29
    run some $model "${text[@]}" --steps 30 --log-every 29 --freeze 3
    echo "$model: $(model_flops all) GFLOP a step, $(model_flops some) with 3 of 4 blocks frozen; losses $(loss all 29), $(loss some 29)"
    awk -v a="$(model_flops all)" -v b="$(model_flops some)" 'BEGIN { exit !(b < 0.75 * a && b > a / 3) }' || fail "$model --freeze 3: the FLOPs do not follow"
    awk -v first="$(loss some 0)" -v last="$(loss some 29)" 'BEGIN { exit !(last < first - 0.5) }' || fail "$model --freeze 3 does not learn"
    resumes $model "${text[@]}" --freeze 3
done

# initial values: another loss at the start for each kind, the same for the same seed
for kind in own xavier xavier-uniform kaiming kaiming-uniform lecun truncated orthogonal; do
    run init mlp --hidden 64 --layers 2 --batch 32 --steps 20 --log-every 19 --init $kind --lr 2e-3
    awk -v first="$(loss init 0)" -v last="$(loss init 19)" 'BEGIN { exit !(last < first) }' || fail "--init $kind does not learn"
    echo "$kind $(loss init 0)" >> starts
done
[ "$(cut -d' ' -f2 starts | sort -u | wc -l)" = 8 ] || { cat starts; fail "--init: two kinds begin alike"; }

# centralised gradients are shorter, and learn
run plain llama-tiny "${text[@]}" --steps 30 --log-every 1 --clip 0
run centred llama-tiny "${text[@]}" --steps 30 --log-every 1 --clip 0 --centralise
norm() { sed -n 's|^step *0/.*norm \([0-9.]*\) .*|\1|p' "$1"; }
awk -v a="$(norm plain)" -v b="$(norm centred)" 'BEGIN { exit !(b > 0 && b < a) }' || fail "--centralise: norm $(norm plain) without, $(norm centred) with"
awk -v last="$(loss centred 29)" -v plain="$(loss plain 29)" 'BEGIN { exit !(last < plain + 0.3) }' || fail "--centralise does not learn"
resumes llama-tiny "${text[@]}" --centralise

# L-BFGS on one large batch: far below plain descent after as many steps
batch=(mlp --hidden 24 --layers 1 --batch 256 --no-shuffle --steps 60 --log-every 59 --schedule constant --warmup 0 --clip 0 --weight-decay 0)
run descent "${batch[@]}" --optimizer sgd --lr 0.5
run newton "${batch[@]}" --optimizer lbfgs --lr 0.5
echo "60 steps: sgd $(loss descent 59), lbfgs $(loss newton 59)"
awk -v last="$(loss newton 59)" -v first="$(loss newton 0)" 'BEGIN { exit !(last > 0 && last < 0.5 * first) }' || fail "lbfgs does not learn"
resumes mlp --hidden 16 --layers 1 --batch 16 --optimizer lbfgs --lr 0.1 --schedule constant --warmup 0

# TF32: near fp32, and not it
run fp32 gpt2-tiny "${text[@]}" --steps 6 --log-every 1 --checkpoint fp32.state
run tf32 gpt2-tiny "${text[@]}" --steps 6 --log-every 1 --checkpoint tf32.state --matmul-precision tf32
! cmp -s fp32.state tf32.state || fail "--matmul-precision tf32 changes nothing"
awk -v a="$(loss fp32 5)" -v b="$(loss tf32 5)" 'BEGIN { exit !(b > 0 && a - b < 0.02 && b - a < 0.02) }' || fail "tf32: $(loss tf32 5), fp32 $(loss fp32 5)"

# weights in bf16 alone: at a rate whose steps are below half a bit rounding to nearest stands still, and chance does not
tiny=(llama-tiny "${text[@]}" --dtype bf16 --optimizer sgd --clip 0 --lr 2e-3 --weight-decay 0 --steps 40 --log-every 39)
for kind in master nearest stochastic; do run $kind "${tiny[@]}" --bf16-weights $kind; done
echo "losses after 40 small steps: master $(loss master 39), nearest $(loss nearest 39), stochastic $(loss stochastic 39)"
awk -v a="$(loss master 39)" -v b="$(loss nearest 39)" -v c="$(loss stochastic 39)" 'BEGIN { d = c - a; exit !(b > a + 0.005 && (d < 0 ? -d : d) < 0.4 * (b - a)) }' || fail "--bf16-weights"
resumes llama-tiny "${text[@]}" --dtype bf16 --bf16-weights stochastic

# several blocks recomputed together: the same bits, and in a deep and narrow model less memory
for every in 1 2 3 0; do
    run every llama-tiny "${text[@]}" --steps 3 --log-every 0 --recompute block --recompute-every $every --checkpoint every.$every
    cmp -s every.1 every.$every || fail "--recompute-every $every changes bits"
done
predicted() { sed -n 's/^memory: .*activations \([0-9.]*\).*/\1/p' "$1"; }
deep=(mlp --hidden 64 --layers 64 --batch 256 --steps 1 --recompute block)
run each "${deep[@]}"
run root "${deep[@]}" --recompute-every 0
echo "64 layers: activations $(predicted each) MiB, with the inputs of every eighth $(predicted root)"
awk -v a="$(predicted each)" -v b="$(predicted root)" 'BEGIN { exit !(b > 0 && b < 0.6 * a) }' || fail "--recompute-every 0 saves nothing"

. "$SRC/tests/e2e/kit/refuse_common.sh"
refuse 2 'fewer blocks' gpt2-tiny "${text[@]}" --freeze 5
refuse 4 'not with this model' gpt2-tiny "${text[@]}" --freeze 1 --optimizer muon
refuse 4 'not with --recompute-every' llama-tiny "${text[@]}" --freeze 1 --recompute-every 2
refuse 4 'is for llama' gpt2-tiny "${text[@]}" --recompute-every 2
refuse 2 'unknown' mlp --init zeros
refuse 2 'unknown' mlp --matmul-precision fp8
refuse 4 'not with these options' gpt2-tiny "${text[@]}" --dtype bf16 --matmul-precision tf32
refuse 2 'are fp32' gpt2-tiny "${text[@]}" --bf16-weights nearest
refuse 2 'unknown' gpt2-tiny "${text[@]}" --dtype bf16 --bf16-weights half
