#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two ranks with one computing thread each: what overlap does to exposed communication and to the step. Pairs of runs, with and without
# overlap, interleaved. Rows of four columns separated by tabs: what, measured, budget, verdict.
# usage: tests/bench/parallel.sh BUILD        environment: BENCH_PAIRS (default 5)
set -u
train=${1:?BUILD}/train
pairs=${BENCH_PAIRS:-5}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMP_NUM_THREADS=1
command -v mpirun > /dev/null && mpirun -np 2 true 2> /dev/null || { printf 'overlap of 2 ranks\tno mpirun here\t\tskipped\n'; exit 0; }

run() { # KEY OPTIONS...
    local key=$1
    shift
    mpirun --bind-to none -np 2 "$train" gpt2-tiny --timers "$work/$key" "$@" > "$work/out" 2> "$work/err" || { cat "$work/err" >&2; exit 1; }
}
compare() { # NAME STEPS OPTIONS...
    local name=$1 steps=$2
    shift 2
    for ((i = 0; i < pairs; i++)); do
        run "behind.$i" --steps "$steps" --no-overlap "$@"
        run "beside.$i" --steps "$steps" "$@"
    done
    python3 - "$work" "$pairs" "$name" << 'PY'
import json, statistics as st, sys
work, pairs, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def medians(key):
    """Median step and median time in communication, ms, mean over the two ranks; the first steps are left out."""
    wall, comm = [], []
    for end in ("", ".1"):
        steps = json.load(open("%s/%s%s" % (work, key, end)))["steps"][3:]
        wall.append(st.median(s["wall_ns"] for s in steps) / 1e6)
        comm.append(st.median(s["comm_ns"] for s in steps) / 1e6)
    return st.mean(wall), st.mean(comm)
behind = [medians("behind.%d" % i) for i in range(pairs)]
beside = [medians("beside.%d" % i) for i in range(pairs)]
step = [st.median(x[0] for x in y) for y in (behind, beside)]
comm = [st.median(x[1] for x in y) for y in (behind, beside)]
change = st.median(100 * (b[0] / a[0] - 1) for a, b in zip(behind, beside))
# noise floor: how far runs of the same kind lie from their own median, in the median; 2 % at least
noise = max(2, *(100 * st.median(abs(x[0] / m - 1) for x in y) for y, m in ((behind, step[0]), (beside, step[1]))))
print("overlap of 2 ranks, %s: exposed\t%.2f ms -> %.2f ms of a step\tfalls\t%s"
      % (name, comm[0], comm[1], "ok" if comm[1] < comm[0] else "OVER"))
print("overlap of 2 ranks, %s: step\t%.1f ms -> %.1f ms, %+.1f %% in the median pair\t< %.1f %%\t%s"
      % (name, step[0], step[1], change, noise, "ok" if change < noise else "OVER"))
PY
}
compare "0.8 M fp32" 120 --seq 128 --batch 8 --bucket-mib 1
compare "0.8 M bf16" 120 --seq 128 --batch 8 --bucket-mib 1 --dtype bf16
compare "10.9 M fp32" 25 --layers 6 --channels 384 --heads 6 --seq 128 --batch 4
compare "10.9 M bf16" 25 --layers 6 --channels 384 --heads 6 --seq 128 --batch 4 --dtype bf16
