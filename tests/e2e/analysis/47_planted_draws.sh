#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# A leak, an operation that could be in place, a collector that pauses every 50 steps, calls of the allocator inside of steps and a
# graph break, planted into traces and snapshots by draws: each is named in all of them, and where nothing is planted nothing is.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
work_folder
export XDG_CACHE_HOME=$PWD/cache
python3 "$here/planted.py" "$TACHO" drawn "${ROUNDS:-20}" "${SEED:-1}" || fail "a cause was not named, or one that was not planted"
exit 0
