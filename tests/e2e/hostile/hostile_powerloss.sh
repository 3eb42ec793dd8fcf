#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Loss of power at 1,000 moments of a recording, its end and its publication (ROUNDS): what is on the disk opens without damage, and its
# newest row is no older than the documented window. tests/unit/store/test_store_powerloss.c says how the states are made.
# timeout: 900
set -u
states=${ROUNDS:-1000} out=${TMPDIR:-/tmp}/out
POWERLOSS_STATES=$((states / 2)) POWERLOSS_SEED=${SEED:-1} "$BUILD/tests/unit/store/test_store_powerloss" > "$out" 2>&1
rc=$?
result=ok
[ $rc = 0 ] || { cat "$out"; result=failed; }
echo "hostile: power loss | $states rounds | $result"
exit $rc
