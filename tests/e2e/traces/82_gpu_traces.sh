#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# What the shared traces do not hold, from the file to the report: DeepEP, communication by copy engines, graphs recorded as a
# whole or not at all, gradient accumulation, a folder of ranks, a user's table of classes, a trace without markers.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
if ! command -v python3 > /dev/null; then
    echo "needs python3 to write the traces"
    exit 77
fi
work_folder
export XDG_CACHE_HOME=$PWD/cache

cat > traces.py << 'END'
# Kineto traces of a few events, times in us.
import json, sqlite3

class Trace:
    def __init__(self, rank=None):
        self.events, self.id, self.rank = [], 0, rank
    def host(self, name, start, end, category="cpu_op", correlation=None, tid=11):
        args = {} if correlation is None else {"correlation": correlation}
        self.events.append(dict(ph="X", cat=category, name=name, pid=10, tid=tid, ts=start, dur=end - start, args=args))
    def device(self, name, start, end, category="kernel", stream=7, correlation=None):
        args = dict(stream=stream, device=0, **({} if correlation is None else {"correlation": correlation}))
        self.events.append(dict(ph="X", cat=category, name=name, pid=0, tid=stream, ts=start, dur=end - start, args=args))
    def op(self, name, launch, start, end, category="kernel", stream=7, call="cudaLaunchKernel"):
        self.id += 1
        self.host(call, launch, launch + 1, "cuda_runtime", self.id)
        self.device(name, start, end, category, stream, self.id)
    def write(self, file):
        head = {"schemaVersion": 1, "traceEvents": self.events}
        if self.rank is not None:
            head["distributedInfo"] = {"rank": self.rank, "world_size": 2, "backend": "nccl"}
        json.dump(head, open(file, "w"))

GEMM = "ampere_sgemm_128x64_nn"
t = Trace()  # 32 dispatches of an expert-parallel library on a stream of their own, 27 of 32 us under compute
for i in range(32):
    t.op(GEMM, 100 * i, 100 * i + 10, 100 * i + 90)
    t.op("void deep_ep::internode::dispatch<true, 8>(int4*)" if i % 2 else "void dpsk::ep::internode::combine<true, 8>(int4*)",
         100 * i + 2, 100 * i + 63, 100 * i + 95, stream=27)
t.write("deepep.json")

t = Trace()  # an all-gather by copy engine: its copies lie in the range of the collective, on the compute stream
for i in range(10):
    t.op(GEMM, 100 * i, 100 * i + 10, 100 * i + 50)
    t.host("record_param_comms", 100 * i + 20, 100 * i + 40)
    t.op("Memcpy DtoD (Device -> Device)", 100 * i + 25, 100 * i + 50, 100 * i + 70, "gpu_memcpy", call="cudaMemcpyAsync")
    t.op("Memcpy HtoD (Pageable -> Device)", 100 * i + 60, 100 * i + 70, 100 * i + 75, "gpu_memcpy", call="cudaMemcpyAsync")
t.write("copy_engine.json")

t = Trace()  # between kernels runs a graph that left no record: a quarter of the span looks idle
for i in range(13):
    t.op(GEMM, 100 * i, 100 * i + 5, 100 * i + 79)
    t.host("hipGraphLaunch", 100 * i + 10, 100 * i + 12, "cuda_runtime", 1000 + i)
t.op(GEMM, 1301, 1305, 1379)
t.write("unseen.json")

t = Trace()  # two micro-steps an update
for i in range(12):
    t.host(f"ProfilerStep#{i}", 100 * i, 100 * i + 100, "user_annotation")
    t.op(GEMM, 100 * i + 5, 100 * i + 20, 100 * i + 90)
    if i % 2:
        t.host("Optimizer.step#AdamW.step", 100 * i + 80, 100 * i + 90, "user_annotation")
t.write("accumulation.json")

for rank in (0, 1):
    t = Trace(rank)
    for i in range(6):
        t.host(f"ProfilerStep#{i}", 100 * i, 100 * i + 100, "user_annotation")
        t.op(GEMM, 100 * i + 5, 100 * i + 20, 100 * i + (60 if rank else 90))
    import os
    os.makedirs("ranks", exist_ok=True)
    t.write(f"ranks/rank{rank}.json")

t = Trace()
t.op(GEMM, 0, 10, 20)
t.op("company_secret_collective", 5, 20, 40)
t.write("secret.json")

db = sqlite3.connect("graphs.sqlite")  # nsys profile --cuda-graph-trace=graph: 40 of 100 us are graphs
db.executescript("""
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1, 'ampere_sgemm_128x64_nn'), (2, 'cudaGraphLaunch_v10000'), (3, 'cudaLaunchKernel_v7000');
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.25.0');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER,
  blockX INTEGER, blockY INTEGER, blockZ INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER,
  returnValue INTEGER);
""")
pid = 4242 << 24
db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 31000, 0, 1, 7, 1, ?, 1, 1, 1, 1, 1, 32, 1, 1)", (pid,))
db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (41000, 81000, 0, 1, 7, 2, ?, 5, 6)", (pid,))
db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (91000, 101000, 0, 1, 7, 3, ?, 1, 1, 1, 1, 1, 32, 1, 1)", (pid,))
for k, name in ((1, 3), (2, 2), (3, 3)):
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, 0)", (k * 100, k * 100 + 50, pid | 4242, k, name))
db.commit()
END
python3 traces.py || fail "could not write the traces"

# have FILE KEY VALUE...: fields of the first device
have() {
    local trace=$1 want got
    shift
    [ -f "$trace.report" ] || "$TACHO" report "$trace" --json > "$trace.report" 2> err || fail "$trace: $(cat err)"
    while [ $# -gt 0 ]; do
        got=$(python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); print(eval(sys.argv[2], {"r": r, "d": r["devices"][0]}))' "$trace.report" "$2") || fail "$trace: $1"
        want=$3
        [ "$got" = "$want" ] || fail "$trace: $1 is $got, not $want"
        shift 3
    done
    echo "$trace: right"
}
have deepep.json "communication" "d['comm_us']" 1024.0 \
    "of it exposed" "d['exposed_comm_us']" 160.0 \
    "overlap" "d['overlap_pct']" 84.375 \
    "compute" "d['compute_us']" 2560.0
have copy_engine.json "communication" "d['comm_us']" 200.0 \
    "copies" "d['copy_us']" 50.0 \
    "exposed communication" "d['exposed_comm_us']" 200.0
have unseen.json "idle time" "d['idle_us']" 0.0 \
    "opaque time" "round(100 * d['opaque_us'] / d['span_us'], 2)" 24.6 \
    "opaque us" "d['opaque_us']" 338.0 \
    "the reason" "sum('13 launches of graphs left no record' in p for p in r['trust']['problems'])" 1
have graphs.sqlite "opaque time" "d['opaque_us']" 40.0 \
    "idle time" "d['idle_us']" 20.0 \
    "compute" "d['compute_us']" 40.0 \
    "busy" "d['busy_us']" 80.0 \
    "the hint" "sum('--cuda-graph-trace=node' in p for p in r['trust']['problems'])" 1
have accumulation.json "steps" "r['steps']['count']" 6 \
    "their length" "r['steps']['median_ms']" 0.2
have ranks "devices" "[d['rank'] for d in r['devices']]" "[0, 1]" \
    "the worst" "[d['rank'] for d in r['budget_by_device'] if d['worst']]" "[1]" \
    "mean compute" "round(r['budget']['compute_pct'], 9)" 55.0
have secret.json "steps" "r['steps']['source']" None \
    "unknown kernels" "r['trust']['capture']['unknown_kernels']" 1 \
    "compute" "d['compute_us']" 30.0
printf 'comm\t^company_secret\n' > mine.tsv
"$TACHO" report secret.json --json --classes mine.tsv > mine.report || fail "with a table"
python3 -c 'import json; d = json.load(open("mine.report"))["devices"][0]; assert d["comm_us"] == 20 and d["compute_us"] == 10, d' || fail "the table does not count"
printf 'com\t^company_secret\n' > mine.tsv
"$TACHO" report secret.json --json --classes mine.tsv > mine.report 2> err && fail "a wrong table is taken"
grep -q 'line 1' err || fail "a wrong table: $(cat err)"
