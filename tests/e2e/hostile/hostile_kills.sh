#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 at random moments of the target, of the collector and of both, in turn: every range that the target's journal holds is in
# the file, once.
# timeout: 3600
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
. "$SRC/tests/e2e/kit/collector_kills.sh"
rounds=${ROUNDS:-24}
failed=0
for ((i = 1; i <= rounds; i++)); do
    bad=0
    case $((i % 3)) in
    0) target_killed $i ;;
    1) collector_killed $i ;;
    2) both_killed $i ;;
    esac
    failed=$((failed + bad))
done
echo "hostile: kill -9 of target, collector, both | $rounds rounds | $failed of them lost, doubled or spoilt something"
[ "$failed" = 0 ]
