#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The kills of 55_ranks_kills.sh again and again: no step that a rank finished is missing from the file, and none is there twice.
# timeout: 3600
set -u
rounds=${ROUNDS:-2}
failed=0
for ((i = 1; i <= rounds; i++)); do
    bash "$SRC/tests/e2e/ranks/55_ranks_kills.sh" "$BUILD" || failed=$((failed + 1))
done
echo "hostile: kill -9 among several ranks | $rounds rounds | $failed of them lost, doubled or spoilt something"
[ "$failed" = 0 ]
