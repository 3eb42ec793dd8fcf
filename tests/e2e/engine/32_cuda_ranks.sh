#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# Two ranks of train --device cuda on the substitute runtime and NCCL (tests/gpu/shim): the run of one rank with two micro-batches; captured
# steps print what launched ones do; a rank without data ends both; what is not there is said.
# shellcheck disable=SC2154 # variables of collector_common.sh
set -u
[ -z "${SAN:-}" ] || { echo "the other build does this"; exit 77; }
. "$(dirname "$0")/../kit/ranks_common.sh"
has_mpirun || { echo "needs Open MPI's mpirun"; exit 77; }
export OMP_NUM_THREADS=1 LT_CUDA_LIBRARY=$BUILD/tests/cuda/libtrain_cuda.so LT_CUBLASLT=$BUILD/tests/cuda/libcublasLt.so.13
export LT_NCCL=$BUILD/tests/cuda/libnccl.so.2
train=("$TRAIN" gpt2-tiny --layers 2 --data "$SRC/LICENSE" --seq 32 --batch 1 --seed 3 --log-every 1 --workers 0 --device cuda)
ranks=(mpirun -np 2 "${train[@]}")
"${ranks[@]}" --steps 1 > out 2> err || { grep -q 'without MPI' err && { echo "train was built without MPI"; exit 77; }; wrong "first: $(cat err)"; }
lines() { sed -n 's/^step *\([0-9]*\).*loss \([0-9.]*\)  norm \([0-9.]*\).*/\1 \2 \3/p' "$1"; }

"${train[@]}" --steps 5 --accumulate 2 --eval-every 5 --eval-batches 2 > alone || wrong "alone"
SHIM_LAUNCHES=launches "${ranks[@]}" --steps 5 --eval-every 5 --eval-batches 2 > both 2> err || wrong "two ranks: $(cat err)"
"${ranks[@]}" --steps 5 --eval-every 5 --eval-batches 2 --no-graph > launched || wrong "without graphs"
[ "$(lines both | wc -l)" = 5 ] || wrong "not one line a step: $(cat both)"
paste -d ' ' <(lines alone) <(lines both) | awk '{ d = $2 - $5; e = $3 - $6; if ($1 != $4 || d * d > 1e-6 || e * e > 1e-5) bad = 1 } END { exit bad || NR != 5 }' ||
    wrong "two ranks differ from one: $(paste <(lines alone) <(lines both) | tail -n 3)"
paste -d ' ' <(sed -n 's/^evaluation.*loss \([0-9.]*\).*/\1/p' alone) <(sed -n 's/^evaluation.*loss \([0-9.]*\).*/\1/p' both) |
    awk '{ d = $1 - $2; if (d * d > 1e-6) bad = 1 } END { exit bad || NR != 1 }' || wrong "evaluations differ"
diff <(lines both) <(lines launched) > /dev/null || wrong "a captured step differs from a launched one"
# gradients travel piece by piece, as backward finishes them, and the loss with them
sums=$(sed -n 's/^all_reduce //p' launches)
[ "${sums:-0}" -ge 50 ] || wrong "only ${sums:-no} sums in five steps"
# two micro-batches on each of two ranks are four of one
"${train[@]}" --steps 3 --accumulate 4 > alone.4 || wrong "four alone"
"${ranks[@]}" --steps 3 --accumulate 2 > both.4 || wrong "two by two"
paste -d ' ' <(lines alone.4) <(lines both.4) | awk '{ d = $2 - $5; if ($1 != $4 || d * d > 1e-6) bad = 1 } END { exit bad || NR != 3 }' ||
    wrong "two by two differ from four: $(paste <(lines alone.4) <(lines both.4))"

# what the device does not do, and a library that is not there
"${ranks[@]}" --steps 1 --zero 1 > out 2> err
[ $? = 4 ] && grep -q 'no --zero' err || wrong "ZeRO is not refused: $(cat err)"
LT_NCCL=/nowhere/libnccl.so LD_LIBRARY_PATH='' "${ranks[@]}" --steps 1 > out 2> err
code=$?
[ $code = 4 ] || [ $code = 0 ] || wrong "without NCCL: exit code $code: $(cat err)" # the loader may know another one
[ $bad = 0 ]
