#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 1800
# The loss after STEPS (500) steps with compressed gradients beside the one without, over SEEDS (5) seeds of weights and samples: mean of the
# last 50 steps, the band of the seeds, and that of the differences of the same seeds, which differ more from each other than codecs do. What a
# codec loses comes later, so the means lie within three bands. randk comes latest: of its elements one waits for 20 steps. Its loss is printed,
# and lies within three bands after three times as many steps (randk:3).
# shellcheck disable=SC2154 # variables of ranks_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
export OMP_NUM_THREADS=1
steps=${STEPS:-500}
for run in none bf16 int8 1bit topk randk randk:3 powersgd; do
    codec=${run%:*} times=1
    [ "$run" = "$codec" ] || times=${run#*:}
    for ((seed = 1; seed <= ${SEEDS:-5}; seed++)); do
        mpirun -np 2 "$TRAIN" gpt2-tiny --layers 2 --channels 36 --heads 3 --data "$SRC/LICENSE" --seq 16 --batch 4 --lr 3e-3 --log-every 1 --steps $((times * steps)) \
            --seed "$seed" --compress "$codec" --density 0.05 --compress-after 20 > out 2> err || wrong "$run, seed $seed: $(cat err)"
        sed -n 's/^step *\([0-9]*\).*loss \([0-9.]*\) .*/\1 \2/p' out | tail -n 50 | awk -v c="$run" -v seed=$seed '{ s += $2 } END { if (NR) print c, s / NR, seed }' >> losses
    done
done
awk '{ n[$1]++; s[$1] += $2; q[$1] += $2 * $2 } END { for (c in n) { m = s[c] / n[c]; printf "%s %.4f %.4f\n", c, m, sqrt((q[c] / n[c] - m * m) * n[c] / (n[c] - 1)) } }' losses | sort > table
sed 's/^/note: loss, deviation over seeds: /' table
awk '$1 == "none" { plain[$3] = $2 } { n[$1]++; d = $2 - plain[$3]; s[$1] += d; q[$1] += d * d }
    END { for (c in n) if (n[c] > 1 && c != "none") { m = s[c] / n[c]; v = (q[c] - n[c] * m * m) / (n[c] - 1)
        printf "note: above none with the same seed, deviation: %s %+.4f %.4f\n", c, m, sqrt(v > 0 ? v : 0) } }' losses | sort
awk '$1 == "none" { m = $2; d = $3 } { row[$1] = $2 } END { for (c in row) if (c != "randk" && row[c] - m > 3 * d) { print c, row[c], "without", m, "deviation", d; bad = 1 } exit bad }' table > worse ||
    wrong "$(cat worse)"
exit $bad
