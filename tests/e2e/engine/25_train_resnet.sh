#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# train resnet-tiny: learns drawn digits in fp32 and bf16, resumes bit by bit with its running statistics, keeps to --memory, and says what it is
# not for. long_learning.sh trains it until it is good.
set -u
fail() { echo "FAIL: $*"; exit 1; }
cd "$TMPDIR" || exit 1
export XDG_CACHE_HOME=$TMPDIR/cache
export OMP_NUM_THREADS=1 # small products: a second thread would only wait
mkdir cache

# running statistics need some dozens of steps until an evaluation can use them
"$TRAIN" resnet-tiny --channels 8 --batch 32 --steps 120 --lr 1e-2 --min-lr 1e-3 --eval-every 120 --eval-batches 10 --log-every 1 > fp32 || { cat fp32; fail "it failed"; }
accuracy=$(sed -n 's/^evaluation after step 119 .*accuracy \([0-9.]*\) %.*/\1/p' fp32)
echo "accuracy on held-out digits: ${accuracy:-none} %"
awk -v a="${accuracy:-0}" 'BEGIN { exit !(a > 60 && a <= 100) }' || { tail -3 fp32; fail "it does not learn"; }
loss() { sed -n "s|^step *$2/.*loss \([0-9.]*\).*|\1|p" "$1"; }
for dtype in fp32 bf16; do
    "$TRAIN" resnet-tiny --channels 4 --batch 8 --steps 3 --log-every 1 --no-shuffle --dtype $dtype > short.$dtype || { cat short.$dtype; fail "$dtype failed"; }
done
awk -v a="$(loss short.fp32 2)" -v b="$(loss short.bf16 2)" 'BEGIN { exit !(a > 0 && b > 0 && a - b < 0.1 && b - a < 0.1) }' || fail "bf16 learns otherwise: $(loss short.fp32 2), $(loss short.bf16 2)"
grep -q 'images of 28 x 28 x 1, from 8 channels on, 10 classes' fp32 || fail "the first line"
grep -q 'tok/s' fp32 && fail "images have no tokens"

# 12 steps at a stretch, and 7 with a checkpoint and 5 from it: the same checkpoint, running statistics included
args=(resnet-tiny --channels 4 --batch 8 --schedule constant --warmup 0 --log-every 0)
"$TRAIN" "${args[@]}" --steps 12 --checkpoint whole > /dev/null || fail "whole"
"$TRAIN" "${args[@]}" --steps 7 --checkpoint part > /dev/null || fail "part"
"$TRAIN" "${args[@]}" --steps 12 --checkpoint part --resume part > /dev/null || fail "resume"
cmp -s whole part || fail "the resumed run ends elsewhere"

# --memory between what a run takes and the least: what is recomputed fits, and changes no bit; less than the least is refused
peak() { sed -n 's/^memory: \([0-9.]*\) MiB at its peak.*/\1/p' "$1"; }
big=(resnet-tiny --batch 32 --steps 2 --log-every 0 --workers 0)
"$TRAIN" "${big[@]}" --checkpoint kept > most || fail "all kept"
"$TRAIN" "${big[@]}" --recompute block --checkpoint again > least || fail "--recompute block"
cmp -s kept again || fail "recomputation changes bits"
between=$(awk -v a="$(peak most)" -v b="$(peak least)" 'BEGIN { print (a + b) / 2 }')
"$TRAIN" "${big[@]}" --memory "$between" --checkpoint some > out || { cat out; fail "--memory $between"; }
echo "peak: $(peak most) MiB, all recomputed $(peak least), asked for $between: $(peak out)"
awk -v got="$(peak out)" -v most="$between" -v least="$(peak least)" 'BEGIN { exit !(got > 0 && got <= most && got >= least) }' || fail "--memory $between: $(peak out) MiB"
cmp -s kept some || fail "--memory changes bits"

. "$SRC/tests/e2e/kit/refuse_common.sh"
refuse 2 'activations take at least [0-9.]* MiB' "${big[@]}" --memory "$(awk -v b="$(peak least)" 'BEGIN { print 0.9 * b }')"
refuse 2 'all but activations takes' "${big[@]}" --memory 1
refuse 2 'are for other models' resnet-tiny --layers 3
refuse 2 'are for moe' resnet-tiny --experts 4
refuse 4 'running statistics' resnet-tiny --zero 1
mkdir -p bare/a bare/b && head -c 64 /dev/zero > bare/a/1 && cp bare/a/1 bare/b/1
refuse 3 'does not say how many rows' resnet-tiny --format images --data bare --batch 1
mkdir -p folder/a folder/b
for i in 1 2 3 4; do
    { printf 'P6\n9 11\n255\n' && head -c 297 /dev/urandom; } > folder/a/$i.ppm
    { printf 'P6\n9 11\n255\n' && head -c 297 /dev/urandom; } > folder/b/$i.ppm
done
"$TRAIN" resnet-tiny --format images --data folder --batch 2 --steps 2 > out || { cat out; fail "folders of images"; }
grep -q 'images of 11 x 9 x 3, from 16 channels on, 2 classes' out || { head -1 out; fail "folders of images: another shape"; }
for name in resnet-tiny resnet18 resnet50; do "$TRAIN" --help all | grep -q "^  $name " || fail "$name is not in the help"; done
