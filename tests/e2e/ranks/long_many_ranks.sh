#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 1800
# 512 synthetic ranks of some 2,000 events each: a report within 60 s and 2 GB, the slow rank named, the missing one too.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
command -v python3 > /dev/null || { echo "needs python3 to write the ranks"; exit 77; }
[ -x /usr/bin/time ] || { echo "needs /usr/bin/time for the memory"; exit 77; }
work_folder
rows=$(MANY_FOLDER=$PWD "$SRC/tests/bench/many_ranks.sh" "${BUILD:?}") || { echo "$rows"; fail "many_ranks.sh"; }
echo "$rows"
[ "$(grep -c 'within$' <<< "$rows")" = 4 ] || fail "a budget was missed"
echo "note: $(head -1 <<< "$rows" | tr '\t' ' ')"
