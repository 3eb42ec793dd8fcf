#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 3600
# Causes planted in runs of several ranks and drawn by a seed (SEED, 1), with effects log-uniform from 3 to 50 % of the step: DRAWS (40)
# of eight ranks whose compute is waiting: a slow rank, beside others or in a pipeline, a slow stage of a pipeline or of a rank's step, a
# slow link, uneven batches, ranks that take turns;
# REAL (20) of two ranks that compute; HEALTHY (20) of eight in which nothing is wrong, or ranks of a pipeline take turns. 57 of 60 are named right, and no healthy run is
# accused.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
command -v mpirun > /dev/null || { echo "no mpirun"; exit 77; }
"$TRAIN" --help all | grep -q -- --simulate-compute || { echo "train has no --simulate-compute"; exit 77; }
work_folder
mpi_environment
export XDG_CACHE_HOME=$PWD/cache OMP_NUM_THREADS=1
python3 "$SRC/tests/e2e/ranks/causes.py" --tacho "$TACHO" --train "$TRAIN" --data "$data" --seed "${SEED:-1}" \
    --draws "${DRAWS:-40}" --real "${REAL:-20}" --healthy "${HEALTHY:-20}"
