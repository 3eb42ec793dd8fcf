#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Who sends to whom in a report, beside what MPI's profiling interface counts between the same ranks: a star (parameter server) to the byte, a
# ring to rounding of its chunks, a pipeline's chain; text, markdown and HTML have the matrix, JSON its links.
# shellcheck disable=SC2154 # variables of ranks_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
. "$SRC/tests/e2e/kit/sends_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
train=("$TRAIN" gpt2-tiny --layers 4 --channels 36 --heads 3 --data "$SRC/LICENSE" --seq 16 --batch 4 --seed 3 --log-every 0 --steps 12 --workers 0)
# recorded RANKS ARGUMENTS: the same run, counted and then recorded; its report in ./json
recorded() {
    counted "$@"
    rm -f run.tacho
    "$TACHO" run -o run.tacho --no-peak --overhead 0 -- mpirun -np "$1" --oversubscribe "${train[@]}" "${@:2}" > log 2>&1 || wrong "tacho run: $(cat log)"
    "$TACHO" report run.tacho --json > json || wrong "no report"
}
# claims, in Python: t the matrix, link[from, to] its links as (bytes, messages, recorded bytes) a step, sent[from, to] what MPI counted a step
check() {
    python3 - "$@" << 'END' || wrong "$*"
import glob, json, sys
t = json.load(open("json"))["communication"]["traffic"]
link = {(k["from"], k["to"]): (k["bytes_per_step"], k["messages_per_step"], k["recorded_bytes_per_step"]) for k in t["links"]}
sent = {}
for path in glob.glob("sent.*.peers"):
    for line in open(path):
        to, b, m = map(int, line.split())
        sent[int(path.split(".")[1]), to] = (b / 12, m / 12)
for claim in sys.argv[1:]:
    if not eval(claim):
        print("not so:", claim, link, sent, {k: t[k] for k in t if k != "links"})
        sys.exit(1)
END
}
recorded 3 --local-steps 1 --local-kind server --max-delay 0
check 'sorted(k for k in link if link[k][2] > 0) == sorted(sent) == [(0, 1), (0, 2), (1, 0), (2, 0)]' \
    'all(link[k][2] == sent[k][0] for k in sent)' 't["ranks"] == 3 and t["ranks_a_row"] == 1'
"$TACHO" report run.tacho --section traffic > text
grep -q 'Who sends to whom, [KMG]*i*[bB]y*t*e*s* a step' text && grep -q 'from 0 .*to 1\|to 0 *to 1 *to 2' text && grep -q 'rank 0 to 1' text || wrong "text: $(cat text)"
"$TACHO" report run.tacho --html -o page.html > log 2>&1 || wrong "html: $(cat log)"
grep -q 'one row per rank that sends' page.html || wrong "html: no matrix"
recorded 3 --all-reduce ring
check 'sorted(link) == sorted(sent) == [(0, 1), (1, 2), (2, 0)]' 'all(abs(link[k][0] - sent[k][0]) < 200 for k in sent)' 'all(link[k][2] == 0 for k in link)'
recorded 2 --layout pp2 --accumulate 4
check 'all(0 < link[k][2] <= sent[k][0] for k in sent)' 'link[0, 1][2] == 4 * 4 * 16 * 36 * 4' 'link[1, 0][2] == 4 * 4 * 16 * 36 * 4'
exit $bad
