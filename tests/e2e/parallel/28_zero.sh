#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# ZeRO over MPI: after 20 steps the checkpoint of every stage equals, byte by byte, that of one rank that adds the same micro-batches in
# the order of ranks; what each rank sends, counted by MPI's profiling interface, equals the formula; what the engine holds is what
# was predicted; a run is continued with another stage and number of ranks.
# shellcheck disable=SC2154 # variables of ranks_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
train=("$TRAIN" gpt2-tiny --layers 3 --channels 36 --heads 3 --data "$SRC/LICENSE" --seq 16 --batch 1 --seed 3 --log-every 1 --steps 20)

# sent STAGE KIND RANKS MICRO-BATCHES STEPS: "BYTES MESSAGES" of every rank by the formula, from the shape alone. A unit of n elements
# is cut at n r / N, rounded down; a reduce-scatter sends all but the own chunk, an all-gather all but that of the next rank.
sent() {
    awk -v stage="$1" -v kind="$2" -v ranks="$3" -v micro="$4" -v steps="$5" -v l=3 -v c=36 'function chunk(n, r) { r %= ranks; return int(n * (r + 1) / ranks) - int(n * r / ranks) }
        BEGIN { n[0] = (256 + 128 + 2) * c; for (i = 1; i <= l; i++) n[i] = 12 * c * c + 13 * c
            reduces = stage > 1 || kind == "ordered" ? steps * micro : steps; gathers = stage == 3 ? 2 * steps * micro : steps
            for (r = 0; r < ranks; r++) { bytes = 0
                for (i = 0; i <= l; i++) bytes += 4 * (reduces * (n[i] - chunk(n[i], r)) + gathers * (n[i] - chunk(n[i], r + 1)))
                print bytes, (reduces + gathers) * (l + 1) * (ranks - 1) } }'
}

"${train[@]}" --accumulate 4 --all-reduce ordered --checkpoint one > out || wrong "one rank"
for case in "1 4 1" "2 2 2" "3 2 2"; do
    read -r stage ranks micro <<< "$case"
    counted "$ranks" --zero "$stage" --all-reduce ordered --accumulate "$micro" --checkpoint many
    cmp one many || wrong "zero $stage, $ranks ranks: other weights than one rank's"
    said=$(sed -n 's/^[a-z]*: rank 0 sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$/\1 \2/p' out |
        awk '{ bytes += $1; messages += $2 } END { print bytes, messages, NR }')
    [ "$said" = "$(sent "$stage" ordered "$ranks" "$micro" 20 | head -n 1) 2" ] || wrong "zero $stage, $ranks ranks: says $said"
done
# without a checkpoint, which collects the optimizer's state, all that is sent is counted; the chunks are uneven
for case in "1 ring 3 2" "2 ring 2 2" "3 ordered 3 1"; do
    read -r stage kind ranks micro <<< "$case"
    counted "$ranks" --zero "$stage" --all-reduce "$kind" --accumulate "$micro" --steps 2
    cat $(seq -f 'sent.%g' 0 $((ranks - 1))) > counts
    sent "$stage" "$kind" "$ranks" "$micro" 2 | diff counts - > d || wrong "zero $stage ($kind), $ranks ranks: counted, by formula: $(cat d)"
done

# ---- what a rank holds, of a larger model: within 2 % of the prediction, whose parts are ZeRO's: optimizer 8 P / N bytes from stage 1
# on; gradients 4 P / N from stage 2 on and parameters 4 P / N in stage 3, and beside these the units that are in use
large=("$TRAIN" gpt2-tiny --layers 12 --channels 128 --heads 4 --data "$SRC/LICENSE" --seq 16 --batch 1 --steps 2 --workers 0)
unit=$((12 * 128 * 128 + 13 * 128)) outer=$(((256 + 128 + 2) * 128))
p=$((12 * unit + outer))
for stage in 1 2 3; do
    mpirun -np 2 --oversubscribe "${large[@]}" --zero $stage > out 2> err || wrong "zero $stage: $(cat err)"
    awk -v stage=$stage -v p=$p -v unit=$unit -v outer=$outer 'function near(got, want) { d = got / (want / 1048576) - 1; if (d > 0.02 + 0.05 / got || d < -0.02 - 0.05 / got) { print "got", got, "want", want / 1048576; bad = 1 } }
        / MiB predicted:/ { for (i = 1; i < NF; i++) got[$i] = $(i + 1) + 0 }
        / MiB at its peak/ { peak = $7; gsub(/[(+]/, "", peak); seen = 1 }
        END { near(got["optimizer"], 8 * p / 2)
            near(got["gradients"], stage == 1 ? 4 * p : 2 * p + 4 * (outer + 2 * unit))
            near(got["parameters"], stage < 3 ? 4 * p : 2 * p + 4 * 2 * unit)
            if (!seen || peak > 2 || peak < -2) { print "peak", peak, "% off"; bad = 1 }
            exit bad }' out > differs || wrong "zero $stage: $(cat differs out)"
done

# ---- a run is continued by another number of ranks in another stage, and by one rank
flat=(--lr 1e-3 --min-lr 1e-3 --all-reduce ordered)
"${train[@]}" "${flat[@]}" --accumulate 2 --checkpoint one > out || wrong "one rank, 20 steps"
mpirun -np 2 --oversubscribe "${train[@]}" "${flat[@]}" --steps 10 --zero 3 --checkpoint half > out 2> err || wrong "half: $(cat err)"
"${train[@]}" "${flat[@]}" --accumulate 2 --resume half --checkpoint rest > out || wrong "rest by one rank"
cmp one rest || wrong "one rank continues zero 3 with other bits"
mpirun -np 2 --oversubscribe "${train[@]}" "${flat[@]}" --zero 2 --resume half --checkpoint rest > out 2> err || wrong "rest: $(cat err)"
cmp one rest || wrong "zero 2 continues zero 3 with other bits"

# ---- evaluations see whole parameters
"${train[@]}" "${flat[@]}" --accumulate 2 --eval-every 10 | grep '^evaluation' | sed 's/, .*//' > want
mpirun -np 2 --oversubscribe "${train[@]}" "${flat[@]}" --zero 3 --eval-every 10 2> err | grep '^evaluation' | sed 's/, .*//' | diff want - ||
    wrong "evaluations of zero 3 differ from one rank's"
[ "$(wc -l < want)" = 2 ] || wrong "no two evaluations: $(cat want)"

# ---- blocks that are made again in groups: a micro-batch turns to some units three times, and a rank keeps the order of all turns
list=("$TRAIN" llama-tiny --layers 24 --channels 32 --heads 4 --groups 2 --hidden 40 --data "$SRC/LICENSE" --seq 16 --batch 1 --seed 3 --steps 3
    --all-reduce ordered --recompute block --recompute-every 0)
"${list[@]}" --accumulate 2 --checkpoint one > out || wrong "groups, one rank"
mpirun -np 2 --oversubscribe "${list[@]}" --zero 3 --checkpoint many > out 2> err || wrong "groups: $(cat err)"
cmp one many || wrong "groups: other weights than one rank's"
{ grep -q 'by formula' out && ! grep 'by formula' out | grep -qv 'sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$'; } || wrong "groups: $(cat out)"

# ---- what does not go together is said
refused() { # WORDS ARGUMENTS
    "${train[@]}" "${@:2}" > out 2> err
    [ $? = 2 ] && grep -q "$1" err && grep -q '^hint: ' err || wrong "${*:2}: $(cat err)"
}
refused 'needs whole tensors' --zero 1 --optimizer muon
refused 'no reduce-scatter' --zero 2 --all-reduce tree
refused 'whole layer' --zero 2 --clip-by layer
refused 'not with' --zero 2 --uneven 0=1
"$TRAIN" mlp --data "$work/none" --zero 3 --steps 1 > out 2> err && wrong "mlp --zero 3 runs"
exit $bad
