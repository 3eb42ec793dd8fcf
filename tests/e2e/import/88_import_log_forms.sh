#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Logs as their producers write them: bars that are smoothed or resumed, with known steps and times.
set -u
# shellcheck source=tests/e2e/kit/import_common.sh
. "$(dirname "$0")/../kit/import_common.sh"
make_files log_forms.py
python3 "$here/log_forms.py" check made "$TACHO" || fail "a log"
"$TACHO" report made/smoothed.log > out 2> err || fail "$(cat err)"
tr '\n' ' ' < out | tr -s ' ' | grep -q 'smoothed by its progress bar except in sum' || fail "what the speeds are is not said: $(cat out)"
marked_by() { "$TACHO" sql "made/$1.tacho" "SELECT value FROM run WHERE key = 'steps.marked_by'" --csv | tail -n 1 | tr -d '\r"'; }
[ "$(marked_by keras_3_lines_validate)" = 'log of Keras, means of up to 200 steps each, validation included' ] || fail "a validation is not mentioned"
case $(marked_by keras_3_short_steps) in *', rounded by up to '[1-9]*' %') ;; *) fail "rounding is not mentioned" ;; esac

# TensorBoard: what cannot be steps is named; two runs are no ranks; a program that resumes begins another file
steps() { # INPUT WANTED: steps, first, last, processes, longest
    rm -f steps.tacho
    "$TACHO" import "made/$1" -o steps.tacho 2> err || fail "$1: $(cat err)"
    found=$("$TACHO" sql steps.tacho 'SELECT count(*), min("index"), max("index"), count(DISTINCT process), max("end" - start) FROM step' --csv |
        tail -n 1 | tr -d '\r')
    [ "$found" = "$2" ] || fail "$1: not '$2' but '$found'"
}
refused 3 unnumbered 'without the numbers of its steps' 'global_step=step'
refused 3 single 'with one value of each tag' 'at every step'
refused 3 curves 'without a scalar' 'add_scalars writes each curve into a folder'
refused 2 runs 'runs/b/.*a run of TensorBoard beside another one, .*runs/a/' 'give one of the two folders'
# the hyperparameters of a run and single values are no other run, and curves of add_scalars are part of the one above them
for folder in hparams pairs; do
    steps $folder 59,1,59,1,500000000
    "$TACHO" sql steps.tacho "SELECT sum(count) FROM loss WHERE reason LIKE '%nothing was read%'" --csv | grep -q '^2' ||
        fail "$folder: what was left out is not mentioned"
done
steps ranks 118,1,59,2,500000000
steps checked 59,1,59,1,500000000
"$TACHO" sql steps.tacho "SELECT reason FROM loss" --csv | grep -q 'nothing was read' || fail "the evaluation is not mentioned"
steps again 108,1,109,1,500000000
steps together 59,1,59,1,500000000
"$TACHO" sql steps.tacho "SELECT reason FROM loss" --csv | grep -q 'at the same time as another file' || fail "the other process is not mentioned"
steps run-a-tag-loss.csv 390,1,390,1,50000000
exit 0
