#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 of the target at a random moment, 50 times; of the collector, 50 times; of both, 50 times.
# timeout: 1800
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/collector_common.sh"
. "$SRC/tests/e2e/collector_kills.sh"
for ((i = 1; i <= ${KILLS:-50}; i++)); do
    target_killed $i
    collector_killed $i
    both_killed $i
done
exit $bad
