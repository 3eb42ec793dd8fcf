#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Local steps whose rounds are pairs or a parameter server, over MPI: what a rank sends, counted by MPI's profiling interface, equals the formula;
# the loss falls as with one mean at the end; a server without delay is the mean; delays keep to their bound; memory is what was predicted.
# shellcheck disable=SC2154 # variables of ranks_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
train=("$TRAIN" gpt2-tiny --layers 2 --channels 36 --heads 3 --data "$SRC/LICENSE" --seq 16 --batch 4 --seed 3 --log-every 1 --steps 12
    --optimizer sgd --lr 0.1 --min-lr 0.1 --warmup 0 --clip 0 --weight-decay 0)
near() { python3 "$SRC/tests/e2e/parallel/weights_near.py" "$1" "$2" "$3" || wrong "$4"; }
refused() { # WORDS ARGUMENTS
    "${train[@]}" "${@:2}" > out 2> err
    [ $? = 2 ] && grep -q "$1" err && grep -q '^hint: ' err || wrong "${*:2}: $(cat err)"
}
# pairs: a rank of three rests in every third round, and at the end all take the mean; a server: rank 0 sends a sum to each, the others a move
last() { sed -n 's/^step *11.*loss \([0-9.]*\).*/\1/p' out; }
counted 3 --local-steps 12
near_loss=$(last)
bytes=$(cat sent.0 sent.1 sent.2 | awk '{ b += $1 } END { print b / 4 }') # the ranks of a ring of three send 4 times the array together
counted 3 --local-steps 3 --local-kind gossip --log-every 20
grep -q '^parameters: rank 0 sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' out || wrong "gossip: $(grep formula out)"
awk '{ b += $1; m += $2 } END { print b, m }' sent.0 sent.1 sent.2 > counts
echo "$((bytes * (2 * 3 + 4))) $((2 * 3 + 4 * 3))" | diff counts - > d || wrong "gossip: counted, by formula: $(cat d)"
awk -v got="$(last)" -v want="$near_loss" 'BEGIN { exit !(got > 0 && got - want < 0.05 && want < 5.3) }' || wrong "gossip: loss $(last), of one mean at the end $near_loss"
for delay in 0 2; do
    counted 3 --local-steps 2 --local-kind server --max-delay $delay --log-every 20 --checkpoint served
    grep -q '^parameters: rank 0 sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' out || wrong "server: $(grep formula out)"
    printf '%s\n' "$((bytes * 6 * 2)) 12" "$((bytes * 6)) 6" "$((bytes * 6)) 6" > want
    cat sent.0 sent.1 sent.2 | diff want - > d || wrong "server, delay $delay: by formula, counted: $(cat d)"
    awk -v bound=$delay '/^server: weights were at most [0-9]* of [0-9]* rounds behind/ { ok = $6 <= bound && $8 == bound } END { exit !ok }' out || wrong "server: $(grep ^server out)"
    awk -v got="$(last)" -v want="$near_loss" 'BEGIN { exit !(got > 0 && got - want < 0.05) }' || wrong "server: loss $(last), of one mean at the end $near_loss"
    [ $delay = 0 ] || continue
    counted 3 --local-steps 2 --checkpoint mean2
    near mean2 served 1e-6 "a server without delay is not the mean"
done
# a signal stops all ranks with the same weights
mpirun -np 2 "${train[@]}" --steps 90000 --local-steps 3 --local-kind server --max-delay 2 --log-every 40 --checkpoint stopped > out 2> err &
job=$!
until_line() { for ((i = 0; i < 200; i++)); do grep -q "$1" out && return 0; sleep 0.05; done; return 1; }
until_line '^step *40' || wrong "server: no step 40: $(cat err)"
kill -TERM $job
wait $job
[ -s stopped ] || wrong "server: a signal left no checkpoint: $(tail -n 3 out err)"
for memory in gossip server; do
    mpirun -np 2 --oversubscribe "$TRAIN" gpt2-tiny --layers 8 --channels 128 --heads 4 --data "$SRC/LICENSE" --seq 16 --batch 1 --steps 2 --workers 0 \
        --local-steps 1 --local-kind $memory > out 2> err || wrong "$memory: $(cat err)"
    awk '/ MiB at its peak/ { p = $7; gsub(/[(+]/, "", p); seen = 1 } END { exit !seen || p > 2 || p < -2 }' out || wrong "$memory: memory: $(grep memory out)"
done
refused 'ranks sum their gradients in each step' --local-kind gossip
refused 'no outer step of --local-kind server' --local-steps 4 --local-kind server --outer-momentum 0.9
refused 'unknown' --local-steps 4 --local-kind ring
exit $bad
