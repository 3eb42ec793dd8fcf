#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Memory snapshots of an allocator that is known to the byte: what is read of them, the replay, and what other settings would have given.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
work_folder
export XDG_CACHE_HOME=$PWD/cache PYTHONPYCACHEPREFIX=$PWD/python
python3 "$here/allocator_cases.py" "$TACHO" || fail "the allocator"
