#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Timelines of all workers of a pipelined job: rows, losses, hostile files; the even step, the slow stage and the slow rank
# against a schedule computed here, and against the results that the authors of public timelines published.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
public=${TACHO_TRACES:-$SRC/../shared/traces}/formats
[ -d "$public" ] && public=$(cd "$public" && pwd)
work_folder
export XDG_CACHE_HOME=$PWD/cache

python3 "$here/workers.py" write made.json made.truth || fail "the timeline was not written"
"$TACHO" import made.json -o made.tacho 2> err || fail "import: $(cat err)"
grep -q 'made.tacho: 1 file, [0-9]* events, 0 lost' err || fail "$(cat err)"
"$TACHO" report made.tacho --json > made.report || fail "report"
python3 "$here/workers.py" check made.report made.truth || fail "the even step of a made timeline"
[ "$("$TACHO" sql made.tacho "SELECT count(*) FROM process" --csv | tail -n 1 | tr -d '\r')" = 6 ] || fail "not six workers"
gzip -k made.json
"$TACHO" report made.json.gz --full > out 2> err || fail "gzip: $(cat err)"
grep -q 'PIPELINE_IMBALANCE: the stages of the pipeline are uneven: stage 2' out || fail "$(head -n 20 out)"

# damage: what is whole is read, the rest is counted; nothing is made up
head -c 20000 made.json > cut.json
"$TACHO" import cut.json -o cut.tacho 2> err || fail "a cut timeline: $(cat err)"
grep -q 'truncated at the end' err || fail "the cut is not said: $(cat err)"
python3 "$here/workers.py" damage made.json bad.json
"$TACHO" import bad.json -o bad.tacho 2> err || fail "a damaged timeline: $(cat err)"
"$TACHO" sql bad.tacho "SELECT reason, count FROM loss ORDER BY reason" --csv | tr -d '\r' > losses
diff - losses << 'END' || fail "losses"
reason,count
duration below 0 (kept as 0),1
"event is malformed: no time, place or step",4
operation of a kind that tacho does not know,1
operation of a thread without a name,1
END
"$TACHO" report bad.tacho > out 2>&1 || fail "the report of a damaged timeline: $(cat out)"
printf '[{"ph":"X","name":"forward-compute","pid":0,"tid":0,"ts":1,"dur":1,"args":{"step":1,"model_chunk":0,"mb_id":0,"seq_id":0}}]' > bare.json
"$TACHO" import bare.json -o bare.tacho 2> err
[ $? = 3 ] || fail "a timeline without names of threads: $(cat err)"
grep -q '^tacho: bare.json: a timeline of workers that does not name its threads' err || fail "$(cat err)"
grep -q '^hint: ' err || fail "no hint"
printf '[{"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"PP rank 0, TP rank 0, compute"}}]' > empty.json
"$TACHO" import empty.json -o empty.tacho 2> err
[ $? = 3 ] || fail "a timeline without operations: $(cat err)"

# public truth: two jobs of production, with what their authors computed
[ -f "$public/straggler_timeline-ST.json.gz" ] || { echo "made timelines; no public ones in $public"; exit 0; }
for job in ST SE; do
    "$TACHO" report "$public/straggler_timeline-$job.json.gz" --json > $job.report 2> err || fail "$job: $(cat err)"
    python3 "$here/workers.py" public $job.report "$public" $job || fail "$job disagrees with its authors"
done
