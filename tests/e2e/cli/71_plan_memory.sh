#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# What tacho plan says of memory holds for the engine with a limited address space: limits far from what is needed, and the words for them. The
# table of probabilities is tests/bench/plan_memory.py's with more points.
set -u
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder plan-memory
[ -z "${SAN:-}" ] || { echo "a sanitizer takes addresses of its own"; exit 77; }
python3 "$SRC/tests/bench/plan_memory.py" "$BUILD" 4 1 clear > table || fail "$(cat table)"
awk -F'|' '$2 ~ /below 2/ { low = $3 * ($5 == 0) } $2 ~ /above 98/ { high = $3 * ($5 == $3) } END { exit !(low >= 1 && high >= 1 && low + high == 4) }' table ||
    fail "not four runs that are certain: $(cat table)"
echo ok
