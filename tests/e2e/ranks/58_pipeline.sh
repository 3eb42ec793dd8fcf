#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# A pipeline of the engine, whose sends do not wait for their receivers, is replayed: the stage whose passes sleep six times as long as the
# others' is named, with what even stages would bring. Nothing is compared that a busy machine could turn round.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
command -v mpirun > /dev/null || { echo "no mpirun"; exit 77; }
command -v python3 > /dev/null || { echo "needs python3 to read the report"; exit 77; }
"$TRAIN" --help all | grep -q -- --simulate-compute || { echo "train was built without MPI"; exit 77; }
work_folder
mpi_environment
export XDG_CACHE_HOME=$PWD/cache
"$TACHO" run -o run.tacho --no-peak --overhead 0 -- mpirun -np 3 --bind-to none --oversubscribe "$TRAIN" gpt2-tiny --steps 9 --layers 3 --channels 32 \
    --heads 2 --batch 1 --seq 16 --data "$data" --log-every 0 --workers 0 --layout pp3 --accumulate 4 \
    --simulate-compute forward=0.002,backward=0.004,stage1=6 > log 2>&1 || { cat log; fail "the run failed"; }
"$TACHO" report run.tacho --json > json 2> err || { cat err; fail "no report"; }
python3 - << 'END' || fail "$("$TACHO" report run.tacho --full)"
import json
report = json.load(open("json"))
ranks, findings = report["ranks"], {x["id"]: x for x in report["findings"]}
even, found = ranks["even"], findings["PIPELINE_IMBALANCE"]
assert ranks["pipeline"]["stages"] == 3 and ranks["pipeline"]["micro_batches"] == 4, ranks["pipeline"]
assert even["slow_stage"] == 1 and even["slow_stage_excess_pct"] > 50, even
# the stage alone works for 4 x 36 ms; the replay has no time that the step did not have
assert 144 < even["recorded_ms"] < report["steps"]["max_ms"] and even["ideal_ms"] < even["recorded_ms"], even
assert "stage 1 has" in found["claim"] and found["gain_pct"]["low"] > 2, found
END
