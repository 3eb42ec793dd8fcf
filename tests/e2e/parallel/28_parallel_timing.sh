#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# Two ranks of the reference engine, one of which sleeps 50 ms in each step: the other one waits as long.
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
mpirun -np 2 "$TRAIN" gpt2-tiny --layers 2 --channels 64 --data "$SRC/LICENSE" --seq 64 --batch 4 --seed 3 --steps 10 --slow-rank 1=0.05 \
    --timers times > out 2> err || { grep -q 'without MPI' err && { echo "train was built without MPI"; exit 77; }; wrong "it failed: $(cat err)"; }
python3 - << 'PY' || wrong "the other rank does not wait"
import json
assert all(s["wall_ns"] >= 50e6 for s in json.load(open("times"))["steps"])
waited = sorted(s["comm_ns"] for s in json.load(open("times"))["steps"])[5]
print("note: the other rank waits %.1f ms in the median step for one that sleeps 50 ms" % (waited / 1e6))
assert waited > 25e6
PY
# shellcheck disable=SC2154 # ranks_common.sh sets it
[ $bad = 0 ]
