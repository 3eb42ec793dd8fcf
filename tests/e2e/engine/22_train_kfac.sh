#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# K-FAC: learns the drawn digits in few steps, and faster by the step than momentum; resumes bit by bit in each type, between two computations of
# the inverses too; takes the memory that was predicted; is refused where it does not apply.
set -u
fail() { echo "FAIL: $*"; exit 1; }
cd "$TMPDIR" || exit 1
export XDG_CACHE_HOME=$TMPDIR/cache OMP_NUM_THREADS=1
mkdir cache
run() { # FILE ARGUMENTS
    "$TRAIN" mlp "${@:2}" > "$1" 2>&1 || { cat "$1"; fail "${*:2}"; }
}
evaluated() { sed -n 's/^evaluation after step [0-9]* .*'"$2"' \([0-9.]*\).*/\1/p' "$1"; }

same=(--hidden 64 --batch 128 --steps 70 --eval-every 70 --eval-batches 15 --log-every 0 --clip 0 --weight-decay 0)
run momentum "${same[@]}" --optimizer momentum --lr 0.2
run kfac "${same[@]}" --optimizer kfac --lr 0.05
echo "70 steps: momentum $(evaluated momentum accuracy) %, loss $(evaluated momentum loss); kfac $(evaluated kfac accuracy) %, loss $(evaluated kfac loss)"
awk -v a="$(evaluated kfac accuracy)" 'BEGIN { exit !(a >= 97 && a <= 100) }' || fail "kfac: $(evaluated kfac accuracy) % of the held-out digits"
awk -v a="$(evaluated kfac loss)" -v b="$(evaluated momentum loss)" 'BEGIN { exit !(a > 0 && a < b) }' || fail "kfac is behind momentum after as many steps"

# the optimizer's part: two arrays of factors, which are padded to 16 floats each, and the velocity; the ledger agrees to 2 %
awk 'function padded(n) { return 16 * int((n + 15) / 16) }
    BEGIN { f = 2 * padded(785 * 785) - padded(785 * 785) + 2 * padded(65 * 65) + 2 * padded(64 * 64) + padded(100)
        p = padded(784 * 64) + padded(64 * 64) + padded(640) + padded(2 * 64) + padded(10); printf "%.1f\n", 4 * (2 * f + p) / 1048576 }' > want
predicted=$(sed -n 's/^memory: .* optimizer \([0-9.]*\),.*/\1/p' kfac)
[ "$predicted" = "$(cat want)" ] || fail "predicts $predicted MiB of state, by formula $(cat want)"
awk '/ MiB at its peak/ { gsub(/[(+%]/, ""); seen = 1; if ($7 > 2 || $7 < -2) { print "peak", $7, "% off"; exit 1 } } END { exit !seen }' kfac || { cat kfac; fail "the peak"; }

# twelve steps at a stretch, and seven and five from a checkpoint
small=(--hidden 16 --layers 2 --batch 16 --steps 12 --log-every 0 --optimizer kfac --lr 0.02 --schedule constant --warmup 0)
for options in "" "--inverse-every 3 --accumulate 2 --lookahead 4" "--dtype bf16" "--dtype fp16 --inverse-every 5 --recompute block"; do
    read -ra more <<< "$options"
    run whole "${small[@]}" "${more[@]}" --checkpoint whole.state
    run part "${small[@]}" "${more[@]}" --steps 7 --checkpoint part.state
    run rest "${small[@]}" "${more[@]}" --checkpoint part.state --resume part.state
    cmp -s whole.state part.state || fail "$options: the resumed run ends elsewhere"
done
# each number matters
run whole "${small[@]}" --checkpoint whole.state
for options in "--damping 0.3" "--factor-decay 0.5" "--inverse-every 3" "--kl-clip 1e-5" "--momentum 0.5"; do
    read -ra more <<< "$options"
    run other "${small[@]}" "${more[@]}" --checkpoint other.state
    ! cmp -s whole.state other.state || fail "$options changes nothing"
done

. "$SRC/tests/e2e/kit/refuse_common.sh"
for model in gpt2-tiny llama-tiny moe-tiny; do
    refuse 4 'optimizer kfac: only for models whose layers are all linear' $model --data "$SRC/LICENSE" --steps 1 --optimizer kfac
done
refuse 4 'optimizer kfac: only for models whose layers are all linear' resnet-tiny --steps 1 --optimizer kfac
refuse 2 'kfac needs whole tensors' mlp --optimizer kfac --zero 1
refuse 2 'kfac has a state of whole tensors' mlp --optimizer kfac --checkpoint x --checkpoint-async
refuse 4 'not with this model, optimizer' mlp --optimizer kfac --freeze 1
refuse 2 'line-search: not with these options' mlp --optimizer kfac --line-search 2
refuse 2 'damping 0: ' mlp --optimizer kfac --damping 0
refuse 2 'inverse-every 0: ' mlp --optimizer kfac --inverse-every 0
"$TRAIN" mlp "${small[@]}" --optimizer momentum --resume whole.state > err 2>&1 && fail "another optimizer's checkpoint"
grep -q '^hint: give --optimizer kfac' err || { cat err; fail "another optimizer's checkpoint: no hint"; }

# several ranks, where there is an MPI for them
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if mpirun -np 2 --oversubscribe "$TRAIN" mlp "${small[@]}" --optimizer sgd --steps 1 > out 2> err && grep -q '2 ranks' out; then
    mpirun -np 2 --oversubscribe "$TRAIN" mlp "${small[@]}" > out 2> err
    code=$?
    [ $code != 0 ] && grep -q 'optimizer kfac: not for several ranks' err && grep -q '^hint: ' err || { cat out err; fail "two ranks: exit $code"; }
fi
exit 0
