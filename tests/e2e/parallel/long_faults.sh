#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kills of a random rank (KILLS, 30) in random strategies: the job ends within 5 s with the right name, and a run that is resumed from
# the named checkpoint ends with the weights of one that was not interrupted. Calls that a random rank leaves out or makes with half of
# its bytes (PLANTED, 30): the right rank and call are named. SEED (1).
# timeout: 1800
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/faults_common.sh"
RANDOM=${SEED:-1}
strategies=("2 --all-reduce ring --bucket-mib 0.05" "3 --all-reduce library --bucket-mib 0.05" "4 --all-reduce ordered --bucket-mib 0.05" "2 --zero 1" "2 --zero 2" "3 --zero 3" "2 --layout pp2 --accumulate 4"
    "2 --layout pp2 --accumulate 4 --pipeline interleaved" "2 --layout pp2 --accumulate 4 --pipeline zb-h1" "2 --layout tp2" "4 --layout tp2.pp2 --accumulate 2"
    "4 --layout dp2.tp2 --sequence-parallel" "4 --layout dp2.pp2 --accumulate 2")
draw() { read -r ranks options <<< "${strategies[$((RANDOM % ${#strategies[@]}))]}"; }
slowest=0
for ((i = 0; i < ${KILLS:-30}; i++)); do
    draw
    killed "$ranks" $((RANDOM % ranks)) $options
    awk -v t="$took" 'BEGIN { exit t > 5 }' || wrong "$options: the job ended $took s after the kill"
    slowest=$(awk -v a="$slowest" -v b="$took" 'BEGIN { print (a > b ? a : b) }')
    mpirun -np "$ranks" "${train[@]}" $options --steps $((steps + 4)) --resume saved --checkpoint rest > out 2> err || wrong "$options: no resume: $(cat err)"
    mpirun -np "$ranks" "${train[@]}" $options --steps $((steps + 4)) --checkpoint whole > out 2> err || wrong "$options: $(cat err)"
    cmp rest whole || wrong "$options: a resumed run ends with other weights"
done
echo "note: ${KILLS:-30} kills, the slowest job ended after $slowest s"
for ((i = 0; i < ${PLANTED:-30}; i++)); do
    draw
    kind=skip
    [ $((RANDOM % 2)) = 0 ] || kind=halve
    planted "$ranks" $kind $((2 + RANDOM % 8)):$((RANDOM % ranks)):$((RANDOM % 4)) $options
done
echo "note: ${PLANTED:-30} calls left out or halved"
exit $bad
