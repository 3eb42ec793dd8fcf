#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Logs whose steps begin anew with each epoch, and times that are what has passed, with known steps and times.
set -u
# shellcheck source=tests/e2e/kit/import_common.sh
. "$(dirname "$0")/../kit/import_common.sh"
make_files log_places.py
python3 "$here/log_places.py" check made "$TACHO" || fail "a log"
"$TACHO" sql made/evaluated.tacho "SELECT value FROM run WHERE key = 'steps.marked_by'" --csv | grep -q 'one of up to 10 steps timed' ||
    fail "which steps were timed is not said"
"$TACHO" report made/without_numbers.log > out 2> err
[ $? = 3 ] || fail "lines without the number of a step: $(cat out err)"
grep -q 'no line has the number of a step' err || fail "$(cat err)"
exit 0
