#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Operators as a graph: execution traces with tensors against a count by brute force and with planted work that need not be; chains of
# ranges with tacho.work, and ranges that name the memory of their operands, as the engine's do; graphs as DOT and SVG.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
command -v sqlite3 > /dev/null || { echo "needs the program sqlite3"; exit 77; }
work_folder
export XDG_CACHE_HOME=$PWD/cache TACHO_HISTORY=off
python3 "$here/dataflow_exact.py" "$TACHO" drawn "${ROUNDS:-20}" "${SEED:-1}" || fail "a graph is not what was drawn"

python3 "$here/dataflow_exact.py" "$TACHO" run "$((${ROUNDS:-20} / 5))" "${SEED:-1}" "$BUILD/tests/targets/target_operands" ||
    fail "the graph of a run is not what was drawn"

figure() { # FILE EXPRESSION: of `flow`, the dataflow of its JSON report
    "$TACHO" report "$1" --json --fields dataflow > report.json 2> err || fail "$1: $(cat err)"
    python3 -c "
import json, sys
flow = json.load(open('report.json'))['dataflow']
rows = flow['fusion']['candidates']
sys.exit(0 if $2 else json.dumps(flow))" || fail "$1: not: $2"
}

# chains of ranges: each one candidate of a step; where one operator is left, none
chain() { # NAME FUSED ROWS COLUMNS
    "$TACHO" run -o "$1-$2-$3.tacho" -- "$BUILD/tests/targets/target_fusion" "$1" "$2" "$3" "$4" 6 > out 2> err || fail "$1: $(cat out err)"
}
chain residual_norm unfused 512 8192
figure residual_norm-unfused-512.tacho "[r['operators'] for r in rows] == ['residual, rmsnorm'] and rows[0]['count_per_step'] == 1"
figure residual_norm-unfused-512.tacho "rows[0]['saved_bytes_per_step'] == 2 * 4 * 512 * 8192 and rows[0]['known_by'] == 'size'"
chain residual_norm fused 512 8192
figure residual_norm-fused-512.tacho "not rows"
chain multiply_add_relu unfused 512 8192
figure multiply_add_relu-unfused-512.tacho "rows[0]['length'] == 3 and rows[0]['saved_bytes_per_step'] == 4 * 4 * 512 * 8192"
chain gemm_relu unfused 512 8192
figure gemm_relu-unfused-512.tacho "[r['operators'] for r in rows] == ['gemm, relu']"
chain bias_relu unfused 2 1024
# 8 KiB: in every cache, if its size is known; nothing is predicted
cat > calibrated.sql << 'END'
DELETE FROM ceiling;
INSERT INTO ceiling(device, resource, dtype, value, source) VALUES ('cpu', 'bandwidth', '', 1e10, 'measured'),
 ('cpu', 'cache_l2', '', 1048576, 'measured');
END
cp bias_relu-unfused-2.tacho small.tacho
sqlite3 small.tacho < calibrated.sql 2> err || fail "the ceilings were not written: $(cat err)"
figure small.tacho "rows[0]['lives_in'] == 'cache' and rows[0]['gain_ms'] == 0 and rows[0]['saved_bytes_per_step'] == 0"
# 16 MiB, by a memory somewhat faster than the loops here: their bytes come from memory, on any processor. What others did here meanwhile
# must not look like work beside the bytes: both operators take as long for a byte as the fastest one did
cp residual_norm-unfused-512.tacho large.tacho
sqlite3 large.tacho > out 2> err << 'END' || fail "the times were not written: $(cat err)"
CREATE TEMP TABLE operator AS SELECT string.id AS name, operands FROM string
    JOIN (SELECT 'residual' AS text, 3 AS operands UNION SELECT 'rmsnorm', 2) USING (text);
CREATE TEMP TABLE fastest AS SELECT min(dur / operands) AS ns FROM slice JOIN operator USING (name);
UPDATE slice SET dur = operator.operands * fastest.ns FROM operator, fastest WHERE operator.name = slice.name;
END
reached=$("$TACHO" report large.tacho --json --fields dataflow | python3 -c "
import json, sys
row = json.load(sys.stdin)['dataflow']['fusion']['candidates'][0]
print(1.7 * row['bytes_per_step'] / (row['ms_per_step'] / 1e3))")
sed "s/1e10/$reached/" calibrated.sql > faster.sql
sqlite3 large.tacho < faster.sql
figure large.tacho "rows[0]['lives_in'] == 'memory' and 0 < rows[0]['gain_low_ms'] <= rows[0]['gain_ms'] <= rows[0]['gain_high_ms']"
"$TACHO" report large.tacho --section=dataflow > out 2> err || fail "the section: $(cat err)"
grep -q 'residual, rmsnorm' out || fail "the section has no candidate: $(cat out)"

# the engine names its tensors: forward, backward and update of a block, each by what it reads
"$TACHO" run -o engine.tacho --overhead 0 --no-peak --no-counters -- "$TRAIN" gpt2-tiny --layers 2 --steps 6 --batch 2 --seq 32 --log-every 0 \
    > out 2> err || fail "the engine: $(cat out err)"
figure engine.tacho "flow['edges'] > flow['operators'] > 30 and flow['inferred_edges'] == 0 and 'memory' in flow['source']"
figure engine.tacho "0 < flow['live_bound_bytes'] <= flow['pool_bytes'] <= 1.15 * flow['live_bound_bytes'] < flow['tensor_bytes']"
figure engine.tacho "0 < flow['longest_path_us'] <= flow['two_streams_us'] <= flow['serial_us'] and not flow['dead'] and not flow['repeated']"
figure engine.tacho "{'residual.forward, layernorm.forward'} <= {r['operators'] for r in rows} and {r['known_by'] for r in rows} == {'tensor'}"
"$TACHO" sql engine.tacho "SELECT count(DISTINCT correlation), count(correlation), count(*) FROM slice JOIN detail d ON d.id = slice.detail
    WHERE schema = 'tacho.work'" > out
"$TACHO" sql engine.tacho "SELECT count(*) FROM detail WHERE schema = 'tacho.work'" > details
[ "$(grep -o '[0-9]*' details | tail -n 1)" -lt 40 ] || fail "the operands are in the details: $(cat details)"

# graphs
"$TACHO" export drawn/0.json --format dot -o graph.dot 2> err || fail "dot: $(cat err)"
grep -q 'n0 -> n1 \[.*style=solid' graph.dot || fail "no edge: $(head -n 5 graph.dot)"
"$TACHO" export drawn/0.json --format svg -o graph.svg 2> err || fail "svg: $(cat err)"
python3 -c "
import xml.dom.minidom as dom
boxes = dom.parse('graph.svg').getElementsByTagName('g')
lines = sum(' -> ' in line for line in open('graph.dot'))
paths = dom.parse('graph.svg').getElementsByTagName('path')
assert len(boxes) == sum('fillcolor' in line for line in open('graph.dot')) and len(paths) == lines, (len(boxes), len(paths), lines)
" || fail "the picture has not what the graph has"
"$TACHO" export residual_norm-unfused-512.tacho --format dot 2> err | grep -q 'style=dashed' || fail "an inferred edge is not dashed"
"$TACHO" export residual_norm-unfused-512.tacho --format dot --steps 2:2 2> err | grep -q 'step 2"' || fail "not step 2"
"$TACHO" export drawn/0.json --format dot --within nothing > out 2> err
[ $? = 3 ] && grep -q '^hint: ' err || fail "a range that is not there: $(cat err)"
"$TACHO" export drawn/0.json --format csv --within x > out 2> err
[ $? = 2 ] || fail "--within of a table"
exit 0
