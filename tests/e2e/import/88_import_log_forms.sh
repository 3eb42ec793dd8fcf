#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Logs as their producers write them: bars that are smoothed or resumed, with known steps and times.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
work_folder
export XDG_CACHE_HOME=$PWD/cache
python3 "$here/log_forms.py" make made || fail "the files were not made"
python3 "$here/log_forms.py" check made "$TACHO" || fail "a log"
"$TACHO" report made/smoothed.log > out 2> err || fail "$(cat err)"
tr '\n' ' ' < out | tr -s ' ' | grep -q 'smoothed by its progress bar except in sum' || fail "what the speeds are is not said: $(cat out)"
marked_by() { "$TACHO" sql "made/$1.tacho" "SELECT value FROM run WHERE key = 'steps.marked_by'" --csv | tail -n 1 | tr -d '\r"'; }
[ "$(marked_by keras_3_lines_validate)" = 'log of Keras, means of up to 200 steps each, validation included' ] || fail "a validation is not mentioned"
case $(marked_by keras_3_short_steps) in *', rounded by up to '[1-9]*' %') ;; *) fail "rounding is not mentioned" ;; esac
exit 0
