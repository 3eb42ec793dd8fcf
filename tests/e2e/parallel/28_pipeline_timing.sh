#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# The bubble that is measured: of two real stages, and of two whose compute is waiting, a step takes within 3 % what the schedule's
# simulation gives with the stages' measured passes, and within 8 % what the closed form gives with the times that were asked for. Eight stages
# on two cores are no measurement: they took 3 to 8 % more.
# shellcheck disable=SC2154 # variables of ranks_common.sh
# shellcheck disable=SC2086 # options that are lists of words
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
export OMP_NUM_THREADS=1
train=("$TRAIN" gpt2-tiny --channels 32 --heads 4 --data "$SRC/LICENSE" --seq 16 --batch 1 --seed 3 --steps 12 --log-every 0)

# beside WHAT LIMIT MEASURED WANTED: within LIMIT percent
beside() {
    awk -v what="$1" -v limit="$2" -v got="$3" -v want="$4" 'BEGIN { d = 100 * (got / want - 1); printf "note: %s: %s ms, wanted %s ms (%+.2f %%)\n", what, got, want, d; exit !(d <= limit && d >= -limit) }' ||
        wrong "$1: $3 ms instead of $4"
}
stages=2 micro=8
for schedule in gpipe 1f1b interleaved zb-h1; do
    mpirun -np $stages --oversubscribe "${train[@]}" --layers 16 --layout pp$stages --accumulate $micro --pipeline $schedule \
        --simulate-compute forward=0.02,backward=0.04 > out 2> err || wrong "$schedule: $(cat err)"
    read -r measured simulated < <(sed -n 's/^pipeline: passes of a step \([0-9.]*\) ms, .* passes \([0-9.]*\) ms, .*/\1 \2/p' out)
    # F = B = W = 20 ms
    form=$(awk -v p=$stages -v m=$micro -v s=$schedule 'BEGIN { b = s == "zb-h1" ? 20 : s == "interleaved" ? 30 : 60; print m * 60 + (p - 1) * b }')
    beside "$stages stages, $schedule, by simulation" 3 "$measured" "$simulated"
    beside "$stages stages, $schedule, by the closed form" 8 "$measured" "$form"
done
# two stages that really compute, a core each
mpirun -np 2 "${train[@]}" --layers 8 --channels 256 --seq 128 --batch 4 --layout pp2 --accumulate 8 > out 2> err || wrong "real: $(cat err)"
read -r measured simulated < <(sed -n 's/^pipeline: passes of a step \([0-9.]*\) ms, .* passes \([0-9.]*\) ms, .*/\1 \2/p' out)
beside "two real stages, 1f1b" 3 "$measured" "$simulated"
exit $bad
