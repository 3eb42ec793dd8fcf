#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Logs of training programs as text and as event files of TensorBoard, dumps of the NCCL Inspector, execution traces of Chakra: made
# files have known answers; the shared graph is compared with what Python reads of it.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
public=${TACHO_TRACES:-$SRC/../shared/traces}/formats
[ -d "$public" ] && public=$(cd "$public" && pwd)
work_folder
export XDG_CACHE_HOME=$PWD/cache
python3 "$here/logs.py" make made || fail "the files were not made"

# text: steps, their time, tokens and samples, and the series of every form
python3 "$here/logs.py" check made "$TACHO" || fail "a log"
"$TACHO" report made/megatron.log > out 2> err || fail "$(cat err)"
tr '\n' ' ' < out | grep -q 'STEPS ONLY: a step lasts 2.5 s .*means of up to 10 steps' || fail "$(cat out)"
[ "$("$TACHO" sql made/restart.tacho "SELECT max(\"end\" - start) FROM step" --csv | tail -n 1 | tr -d '\r')" = 500000000 ] ||
    fail "the hole before a restart became a step"
[ "$("$TACHO" sql made/swift_json.tacho "SELECT min(\"end\" - start), max(\"end\" - start) FROM step" --csv | tail -n 1 | tr -d '\r')" = \
    2499990000,3500010000 ] || fail "the mean since the start hides how long each step took"
"$TACHO" import made/rounded.log -o rounded.tacho 2> err || fail "$(cat err)"
[ "$("$TACHO" sql rounded.tacho "SELECT count(*), min(\"end\" - start) > 2.3e9, max(\"end\" - start) < 3.7e9 FROM step" --csv | tail -n 1 |
    tr -d '\r')" = 1000,1,1 ] || fail "digits that the mean does not have made long and short steps"
"$TACHO" import made/nan.log -o nan.tacho 2> err || fail "$(cat err)"
[ "$("$TACHO" sql nan.tacho "SELECT count(value), count(*) FROM counter" --csv | tail -n 1 | tr -d '\r')" = 6,10 ] || fail "a loss of NaN"
refused() { # STATUS FILE WORDS
    "$TACHO" report "$2" > out 2> err
    [ $? = "$1" ] || fail "$2: not exit status $1: $(cat out err)"
    { grep -q '^hint: ' err && grep -q -- "$3" err; } || fail "$2: $(cat err)"
}
refused 3 made/untimed.log 'a log of steps that has no times'
refused 3 made/prose.txt 'not a trace'
refused 3 made/loads.log 'not a trace'
refused 3 made/unnumbered.log 'Hugging Face Trainer without the numbers of its steps'
refused 3 made/untimed.tsv 'a log of steps that has no times'
refused 3 made/bracket.txt 'not a trace that tacho can read'
refused 3 made/bars.log 'a log of steps that has no times'
refused 4 made/main.log 'its steps have no times'
refused 4 made/log.txt 'its steps have no times'
refused 3 made/none.tfevents 'without a scalar'
refused 3 made/untimed.json 'have no durations'

# beside a trace of the same program a log is no rank of it
mkdir both
cp made/plain.log both
printf '%s' '{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","ts":1.5,"dur":2,"pid":1,"tid":1}]}' > both/rank0.json
"$TACHO" import both -o both.tacho 2> err || fail "$(cat err)"
grep -q ': 1 file,' err || fail "the log became a rank: $(cat err)"

# logs of two programs are no ranks of one
mkdir two
cp made/deepspeed.log made/llmc.log two
refused 2 two 'a log of llm.c beside one of DeepSpeed'

# ... but a file of settings beside it does not hide it
mkdir alone
cp made/json_lines.log alone/metrics.jsonl
printf '%s' '{"hidden_size": 64}' > alone/config.json
"$TACHO" import alone -o alone.tacho 2> err || fail "$(cat err)"
[ "$("$TACHO" sql alone.tacho "SELECT count(*) FROM step" --csv | tail -n 1 | tr -d '\r')" = 49 ] || fail "the log of a folder: $(cat err)"

# event files: tags are series, steps have the time between their values; damage costs what comes after it
"$TACHO" import made/events.out.tfevents.1.node -o events.tacho 2> err || fail "$(cat err)"
[ "$("$TACHO" sql events.tacho "SELECT count(*), min(\"end\" - start), max(\"end\" - start) FROM step" --csv | tail -n 1 | tr -d '\r')" = \
    39,500000000,500000000 ] || fail "steps of the event file"
[ "$("$TACHO" sql events.tacho "SELECT t.name, count(*), min(value), max(value) FROM counter c JOIN track t ON t.id = c.track GROUP BY t.id
    ORDER BY t.id" --csv | tail -n +2 | tr -d '\r' | tr '\n' ' ')" = 'train/loss,40,1.5625,4 throughput,40,1024,1024 lr,40,0.5,0.5 ' ] ||
    fail "series of the event file"
"$TACHO" import made/cut.tfevents -o cut.tacho 2> err || fail "$(cat err)"
grep -q 'truncated at the end' err || fail "a cut is not mentioned: $(cat err)"

# the Inspector: who is late, the bus bandwidth, what it dropped
"$TACHO" report made/inspector --json > i.json 2> err || fail "$(cat err)"
python3 - << 'END' || fail "collectives of the Inspector"
import json, sys
rows = json.load(open("i.json"))["communication"]["collectives"]
row = rows[0]
sys.exit(0 if len(rows) == 1 and row["count"] == row["matched"] == 120 and row["ranks"] == 4 and abs(row["transfer_ms"] - 1) < 1e-9 and
         abs(row["waiting_ms"] - 0.225) < 1e-9 and abs(row["bus_bytes_per_s"] / (2**20 / 1e-3 * 1.5) - 1) < 1e-9 else str(rows))
END
"$TACHO" import made/marker.log -o marker.tacho 2> err || fail "$(cat err)"
[ "$("$TACHO" sql marker.tacho "SELECT count(*), sum(dur), max(start + dur) - 1748030377748202000 FROM slice" --csv | tail -n 1 |
    tr -d '\r')" = 18,15150000,2000000000 ] || fail "operations without times"
"$TACHO" sql marker.tacho "SELECT count FROM loss WHERE reason LIKE '%ring was full%'" --csv | grep -q '^3' || fail "what was dropped"

# Chakra: placed by dependencies and lanes; a cycle is a loss
"$TACHO" import made/graph.et -o graph.tacho 2> err || fail "$(cat err)"
"$TACHO" sql graph.tacho "SELECT n.text, start, dur, coalesce(d.collective, ''), coalesce(d.bytes, '') FROM slice s JOIN string n ON n.id = s.name
    LEFT JOIN detail d ON d.id = s.detail ORDER BY start, n.text" --csv | tail -n +2 | tr -d '\r' > rows
diff - rows << 'END' || fail "the nodes of a made graph"
host op,0,100000,"",""
gemm,100000,300000,"",""
gemm2,400000,50000,"",""
nccl,400000,200000,all_reduce,4096
END
"$TACHO" sql graph.tacho "SELECT reason FROM loss" --csv | grep -q "dependency cycle" || fail "a cycle is not mentioned"
[ -f "$public/chakra_json_trace.tar.gz" ] || { echo "made files; no public ones in $public"; exit 0; }
tar xzf "$public/chakra_json_trace.tar.gz" || exit 1
for graph in jsonData/*.json; do
    "$TACHO" import "$graph" -o "$graph.tacho" 2> err || fail "$graph: $(cat err)"
    python3 "$here/logs.py" chakra "$graph" "$graph.tacho" || fail "$graph"
done
exit 0
