#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 5400
# 200 signals at moments drawn by a seed, to programs of PyTorch, their loader workers, their launchers and the recorder: everything
# ends, the exit status is that of the death, and each update of the program's own journal has ended a step of the file, once.
# $ROUNDS: other than 200. $KILLS_SEED: other moments.
set -u
[ -z "${SAN:-}" ] || { echo "sanitizers are not loaded into python"; exit 77; }
out=$TMPDIR/kills.jsonl
"$SRC/tests/frameworks/kills.py" "$BUILD" --rounds "${ROUNDS:-200}" --seed "${KILLS_SEED:-20261126}" --out "$out"
