#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stray writes of a target into its pool (tests/unit/collector/test_col_scribble.c), $ROUNDS rounds: the collector lives, the file is
# finished and can be read, what is missing is named. With a build under sanitizers, under these.
# timeout: 3600
set -u
cd "${TMPDIR:-/tmp}" || exit 1
rounds=${ROUNDS:-150}
ROUNDS=$rounds SEED=${SEED:-$((RANDOM * 32768 + RANDOM + 1))} "$BUILD/tests/unit/collector/test_col_scribble" > log 2>&1
rc=$?
[ $rc = 0 ] || { grep -v '^# round' log | head -n 40; grep '^# round' log | tail -n 1; }
[ $rc = 0 ] && result="ok, each loss named" || result=FAILED
echo "hostile: scribbling | $(grep -c '^# round' log) rounds | $result"
[ $rc = 0 ]
