#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# train without tacho on real text: the loss falls, the held-out text gets likelier, the timers' JSON adds up and agrees with the lines.
set -u
dir=$(mktemp -d)
data=()
[ -d /usr/share/common-licenses ] || data=(--data "$SRC/LICENSE")
"$TRAIN" gpt2-tiny --steps 60 --layers 2 --batch 4 --seq 64 --accumulate 2 --log-every 1 --eval-every 30 --workers 2 "${data[@]}" \
    --timers "$dir/timers" > "$dir/out" || exit 1
loss() { sed -n "s|^$1.*loss \([0-9.]*\).*|\1|p" "$dir/out"; }
first=$(loss 'step *0/') last=$(loss 'step *59/')
eval1=$(loss 'evaluation after step 29') eval2=$(loss 'evaluation after step 59')
echo "loss $first -> $last, held out $eval1 -> $eval2"
awk -v a="$first" -v b="$last" -v c="$eval1" -v d="$eval2" 'BEGIN { exit !(a > 5 && b < 3.7 && d < c) }' || { echo "FAIL: it does not learn"; exit 1; }

# classes of each step sum to the step; 60 steps; with TIMING, under 2 % of all steps' time is without a class
tr '{' '\n' < "$dir/timers" | awk -F'[:,}]' -v timing="${TIMING:-}" '
/"wall_ns"/ {
    split("", v)
    for (i = 1; i < NF; i += 2) { gsub(/"/, "", $i); v[$i] = $(i + 1) }
    if (v["wall_ns"] != v["compute_ns"] + v["input_ns"] + v["host_ns"] + v["unattributed_ns"]) bad++
    wall += v["wall_ns"]; loose += v["unattributed_ns"]; steps++
    # 6 N tokens and causal attention 6 L C T (T + 1) a sequence: 2 layers, 128 channels, 256 words, 2 x 4 sequences of 64
    if (v["model_flops"] + 0 != 6 * (12 * 2 * 128 * 128 + 256 * 128) * 512 + 6 * 2 * 128 * 64 * 65 * 8) wrong++
}
END {
    printf "%d steps, %.3f %% without a class\n", steps, 100 * loose / wall
    if (wrong) { print "FAIL: model FLOPs"; exit 1 }
    if (bad || steps != 60 || (timing != "" && loose > 0.02 * wall)) { print "FAIL: the classes do not add up"; exit 1 }
}' || exit 1
