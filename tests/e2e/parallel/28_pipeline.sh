#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Pipelines over MPI, with stages of ZeRO: after 20 steps the checkpoint of every layout equals, byte by byte, that of one rank that adds the same
# micro-batches in order; what each rank sends, counted by MPI's profiling interface, equals the formula; the activations in flight are
# those of the schedule; a run is continued with another layout; the analyzer sees stages and micro-batches.
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
train=("$TRAIN" gpt2-tiny --layers 4 --channels 36 --heads 3 --data "$SRC/LICENSE" --seq 16 --batch 2 --seed 3 --log-every 1 --steps 20)

# sent REPLICAS STAGES MICRO-BATCHES STEPS ORDERED ZERO: "BYTES MESSAGES" of every rank by the formula. Chunks of reduce-scatter and all-gather
# as in 28_zero.sh, but that with ZeRO 3 the first stage gathers unit 0 for each forward pass and once a step, to hand the word embedding on; a
# boundary has 2 x 16 x 36 floats, the word embedding 256 x 36.
sent() {
    awk -v dp="$1" -v pp="$2" -v micro="$3" -v steps="$4" -v ordered="$5" -v zero="$6" -v l=4 -v c=36 'function chunk(n, r) { r %= dp; return int(n * (r + 1) / dp) - int(n * r / dp) }
        BEGIN { for (s = 0; s < pp; s++) for (r = 0; r < dp; r++) { bytes = messages = 0
            blocks = int(l * (s + 1) / pp) - int(l * s / pp); delete n
            n[0] = (s == 0) * (256 + 128) * c + (s == pp - 1) * 2 * c
            for (i = 1; i <= blocks; i++) n[blocks > 1 ? i : 0] += 12 * c * c + 13 * c
            for (i in n) if (dp > 1 && n[i]) { reduces = ordered || zero > 1 ? steps * micro : steps
                gathers = zero < 3 ? steps : s > 0 || i > 0 ? 2 * steps * micro : (blocks > 1 ? 1 : 2) * steps * micro + steps
                bytes += 4 * (reduces * (n[i] - chunk(n[i], r)) + gathers * (n[i] - chunk(n[i], r + 1))); messages += (reduces + gathers) * (dp - 1) }
            sides = (s > 0) + (s < pp - 1); bytes += sides * steps * micro * 2 * 16 * c * 4; messages += sides * steps * micro
            ties = s == 0 ? steps : s == pp - 1 ? steps * (ordered || zero > 1 ? micro : 1) : 0; bytes += ties * 256 * c * 4; messages += ties
            print bytes, messages } }'
}

"${train[@]}" --accumulate 4 --all-reduce ordered --checkpoint one > out || wrong "one rank"
for case in "dp2.pp2 4 2 gpipe 1" "pp3 3 4 1f1b 1" "dp2.pp2 4 2 gpipe 3" "dp2.pp2 4 2 1f1b 3" "pp4 4 4 1f1b 3 --recompute block"; do
    read -r layout ranks micro schedule zero recompute <<< "$case"
    counted "$ranks" --layout "$layout" --pipeline "$schedule" --accumulate "$micro" --all-reduce ordered --zero "$zero" $recompute --checkpoint many
    cmp one many || wrong "$layout, $schedule, zero $zero: other weights than one rank's"
    grep -q 'by formula' out && ! grep 'by formula' out | grep -v 'sent \([0-9]*\) bytes in \([0-9]*\) messages; by formula \1 in \2$' ||
        wrong "$layout, zero $zero: counted, by formula: $(grep formula out)"
done
for case in "1 3 4 1 1" "2 2 3 0 1" "2 2 3 0 3" "2 4 2 1 3"; do
    read -r dp pp micro ordered zero <<< "$case"
    counted $((dp * pp)) --layout "dp$dp.pp$pp" --accumulate "$micro" --steps 2 --zero "$zero" --all-reduce "$([ "$ordered" = 1 ] && echo ordered || echo ring)"
    cat $(seq -f 'sent.%g' 0 $((dp * pp - 1))) > counts
    sent "$dp" "$pp" "$micro" 2 "$ordered" "$zero" | diff counts - > d || wrong "dp$dp.pp$pp, zero $zero: counted, by formula: $(cat d)"
done
# not in order, the tied embedding's two gradients are added last: the losses of one rank to rounding
"${train[@]}" --accumulate 4 > alone
counted 2 --layout pp2 --accumulate 4
grep -Eq "^pipeline: passes of a step [0-9.]+ ms, bubble -?[0-9.]+ %; by simulation with each step's mean passes [0-9.]+ ms, [0-9.]+ %" out ||
    wrong "no times of the pipeline: $(cat out)"
lines() { sed -n 's/^step *\([0-9]*\).*loss \([0-9.]*\)  norm \([0-9.]*\).*/\1 \2 \3/p' "$1"; }
paste -d ' ' <(lines alone) <(lines out) | awk '{ d = $2 - $5; e = $3 - $6; if ($1 != $4 || d * d > 1e-6 || e * e > 1e-5) bad = 1 } END { exit bad || NR != 20 }' ||
    wrong "pp2: other losses: $(paste <(lines alone) <(lines out) | tail -n 3)"

# ---- a run is continued with another layout, and evaluated
flat=(--lr 1e-3 --min-lr 1e-3 --all-reduce ordered --eval-every 10)
"${train[@]}" "${flat[@]}" --accumulate 4 --checkpoint one > out || wrong "one rank, 20 steps"
counted 2 "${flat[@]}" --layout pp2 --accumulate 4 --steps 10 --checkpoint half --recompute block
for zero in 2 3; do
    counted 4 "${flat[@]}" --layout dp2.pp2 --zero $zero --accumulate 2 --resume half --checkpoint rest
    cmp one rest || wrong "dp2.pp2 with zero $zero continues pp2 with other bits"
done
diff <(grep '^evaluation after step 19' out | sed 's/, .*//') <("${train[@]}" "${flat[@]}" --accumulate 4 --resume half --checkpoint rest | grep '^evaluation' | sed 's/, .*//') ||
    wrong "evaluations differ"
cmp one rest || wrong "one rank continues pp2 with other bits"

# ---- what is held: within 2 % of the prediction, 8 micro-batches in flight or 2
large=("$TRAIN" gpt2-tiny --layers 6 --channels 128 --heads 4 --data "$SRC/LICENSE" --seq 64 --batch 2 --steps 1 --workers 0 --layout pp2 --accumulate 8)
for schedule in gpipe 1f1b; do
    mpirun -np 2 --oversubscribe "${large[@]}" --pipeline $schedule > out 2> err || wrong "$schedule: $(cat err)"
    sed -n 's/.*predicted:.*activations \([0-9.]*\),.*/\1/p; s/^memory:.*(\([-+][0-9.]*\) % of what was predicted).*/\1/p' out | tr '\n' ' '
done > held
# floats of a micro-batch: 128 tokens of 128 channels, 3 blocks of 15 and the stream of 4, statistics; 10 more that all share
awk -v n=128 -v c=128 '{ one = 4 * (n * c * 49 + 3 * n * 4 + 3 * n * 4); shared = 4 * 10 * n * c
    want[1] = (8 * one + shared) / 1048576; want[3] = (2 * one + shared) / 1048576
    for (i = 1; i <= 4; i++) { d = i % 2 ? ($i - want[i]) / want[i] * 100 : $i; if (d > 2 || d < -2) bad = 1 } } END { exit bad || NF != 4 }' held ||
    wrong "activations, and percent off: $(cat held)"
# and with ZeRO: parameters of one unit beside the shard
rm held
for zero in 2 3; do
    mpirun -np 4 --oversubscribe "${large[@]}" --layout dp2.pp2 --accumulate 4 --zero $zero > out 2> err || wrong "zero $zero: $(cat err)"
    awk '/ MiB at its peak/ { p = $7; gsub(/[(+]/, "", p); seen = 1 } END { exit !seen || p > 2 || p < -2 }' out || wrong "zero $zero: memory: $(grep memory out)"
    sed -n 's/.*predicted: parameters \([0-9.]*\).*/\1/p' out >> held
done
awk '{ p[NR] = $1 } END { exit !(NR == 2 && p[2] < 0.9 * p[1]) }' held || wrong "zero 3 holds as many parameters as zero 2: $(cat held)"

# ---- what the analyzer sees
if [ -x "$TACHO" ]; then
    "$TACHO" run -o pipe.tacho -- mpirun -np 2 --oversubscribe "${train[@]}" --layout pp2 --accumulate 4 --steps 6 > out 2> err || wrong "recorded: $(cat err)"
    "$TACHO" report --json pipe.tacho > report.json 2> err || wrong "report: $(cat err)"
    grep -q '"stages": *2,' report.json && grep -q '"micro_batches": *4,' report.json || wrong "the report sees no two stages: $(grep -A 3 '"pipeline"' report.json)"
fi

# ---- what does not go together is said
refused() { # WORDS ARGUMENTS
    "${train[@]}" "${@:2}" > out 2> err
    [ $? = 2 ] && grep -q "$1" err && grep -q '^hint: ' err || wrong "${*:2}: $(cat err)"
}
refused 'needs 2 ranks, there is 1' --layout pp2
refused 'not understood' --layout pp2.pp2
refused 'nonsense: unknown' --pipeline nonsense
exit $bad
