#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# train mlp: learns generated digits, reads MNIST's files where the user has them, resumes bit by bit, says what it is not for, and tells
# images a second, never tokens.
set -u
fail() { echo "FAIL: $*"; exit 1; }
cd "$TMPDIR" || exit 1
export XDG_CACHE_HOME=$TMPDIR/cache
export OMP_NUM_THREADS=1 # small products: a second thread would only wait
mkdir cache

"$TRAIN" mlp --steps 120 --lr 2e-3 --eval-every 120 --eval-batches 20 --log-every 1 > out || { cat out; fail "it failed"; }
accuracy=$(sed -n 's/^evaluation after step 119 .*accuracy \([0-9.]*\) %.*/\1/p' out)
echo "accuracy on held-out digits: ${accuracy:-none} %"
awk -v a="${accuracy:-0}" 'BEGIN { exit !(a > 90 && a <= 100) }' || { tail -3 out; fail "it does not learn"; }
[ "$(grep -c 'samples/s$' out)" = 120 ] || fail "no samples/s"
grep -q 'tok/s' out && fail "images have no tokens"
set -- cache/libtrain/digits-*
[ $# = 1 ] && [ -f "$1/t10k-labels-idx1-ubyte" ] || fail "the digits are not in the cache"
folder=$1

# the same files given as the user's own: the same run, to the last digit; and without a cache that could be written
lines() { sed -n 's/^\(step .* lr [^ ]*\).*/\1/p' "$1"; }
XDG_CACHE_HOME=/proc/none "$TRAIN" mlp --steps 120 --lr 2e-3 --eval-every 120 --eval-batches 20 --log-every 1 --data "$folder" --workers 0 > own || { cat own; fail "its own files"; }
[ "$(lines out)" = "$(lines own)" ] && [ -n "$(lines own)" ] || fail "other losses from the same files"
XDG_CACHE_HOME=/proc/none "$TRAIN" mlp --steps 1 > err 2>&1
[ $? = 3 ] || { cat err; fail "no cache: exit code"; }
grep -q '^hint: set XDG_CACHE_HOME' err || { cat err; fail "no cache: no hint"; }

# 20 steps at a stretch, and 8 and 12 of the same schedule with a kill by SIGTERM between them: the same checkpoint
for optimizer in adamw momentum sgd; do
    args=(mlp --steps 20 --hidden 40 --layers 1 --batch 16 --optimizer "$optimizer" --lr 1e-2 --workers 2 --log-every 1)
    "$TRAIN" "${args[@]}" --checkpoint whole > log || fail "$optimizer: whole"
    "$TRAIN" "${args[@]}" --checkpoint part --checkpoint-every 8 > first || fail "$optimizer: first"
    cmp -s whole part || fail "$optimizer: twice the same run, two checkpoints"
    mkfifo pipe
    "$TRAIN" "${args[@]}" --steps 400 --min-lr 1e-2 --warmup 0 --checkpoint straight > /dev/null || fail "$optimizer: straight"
    # a batch takes 40 ms, so that the signal comes long before the last step
    "$TRAIN" "${args[@]}" --steps 400 --min-lr 1e-2 --warmup 0 --checkpoint cut --slow decode=0.04 > pipe &
    pid=$!
    { grep -m1 '^step    50/'; kill -TERM $pid; cat; } < pipe > seen
    wait $pid
    [ $? = 143 ] || fail "$optimizer: SIGTERM: exit code"
    "$TRAIN" "${args[@]}" --steps 400 --min-lr 1e-2 --warmup 0 --checkpoint cut --resume cut --workers 0 > rest || { cat rest; fail "$optimizer: resume"; }
    grep -q '^resumed: [0-9]* steps made before' rest || fail "$optimizer: it did not resume"
    cmp -s straight cut || fail "$optimizer: the resumed run ends elsewhere"
    echo "$optimizer: $(grep '^resumed' rest): same checkpoint"
    rm -f whole part straight cut pipe
done

. "$SRC/tests/e2e/kit/refuse_common.sh"
refuse 2 'are for text' mlp --seq 64
for mode in "--dtype bf16" "--dtype fp16" "--recompute block"; do
    read -ra options <<< "$mode"
    "$TRAIN" mlp --steps 60 --hidden 64 --lr 2e-3 "${options[@]}" --eval-every 60 --eval-batches 20 --log-every 1 > mode || { cat mode; fail "$mode"; }
    accuracy=$(sed -n 's/^evaluation after step 59 .*accuracy \([0-9.]*\) %.*/\1/p' mode)
    awk -v a="${accuracy:-0}" 'BEGIN { exit !(a > 70 && a <= 100) }' || { tail -3 mode; fail "$mode does not learn"; }
done
refuse 2 'optimizer nonsense: unknown' mlp --optimizer nonsense
refuse 2 'schedule nonsense: unknown' mlp --schedule nonsense
refuse 2 'clip-by nonsense: unknown' mlp --clip-by nonsense
mkdir partly && cp "$folder"/train-images-idx3-ubyte partly/
refuse 3 'partly' mlp --data partly
"$TRAIN" --help all | grep -q '^  mlp ' || fail "not in the help"

# a report of it: samples, no tokens
"$TACHO" run --no-counters -o run.tacho -- "$TRAIN" mlp --steps 30 --log-every 0 > log 2>&1 || { cat log; fail "under tacho"; }
"$TACHO" report run.tacho --json > json || fail "no report"
grep -q '"samples_per_s": [0-9]' json || fail "no samples a second in the report"
grep -q '"tokens_per_s": null' json || fail "tokens of images in the report"
