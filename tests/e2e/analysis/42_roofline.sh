#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The roofline of real runs against a brute-force script: each point's FLOPs, bytes and time, each roof and word; the ridge between a small
# and a large shape of one operator; recomputation in FLOPs; what the findings say when a setting is made or undone. Ceilings are put into
# copies of the files, so that nothing depends on this machine.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
command -v sqlite3 > /dev/null || { echo "sqlite3 is not here"; exit 77; }
work_folder
export XDG_CACHE_HOME=$PWD/cache # never calibrated

# run NAME OPTION...: a recording without ceilings
run() {
    local name=$1
    shift
    "$TACHO" run -o "$name.tacho" --overhead 0 --no-peak --no-counters -- "$TRAIN" gpt2-tiny --layers 2 --channels 128 --heads 4 --steps 14 \
        --log-every 0 "$@" > log 2>&1 || { cat log; fail "$name: the run failed"; }
}
# with NAME COPY SQL: a copy with ceilings
with() {
    cp "$1.tacho" "$2.tacho" && sqlite3 "$2.tacho" "INSERT INTO ceiling(device, resource, dtype, value, source) VALUES $3" || fail "no copy of $1"
    "$TACHO" report "$2.tacho" --json > "$2.json" || fail "no report of $2"
}
has() { python3 -c 'import json,sys; r=json.load(open(sys.argv[1])); sys.exit(sys.argv[2] not in [f["id"] for f in r["findings"]])' "$1.json" "$2"; }

run small --batch 1 --seq 1
run large --batch 8 --seq 64
"$TACHO" report large.tacho --json > bare.json || fail "no report"
grep -q '"/roofline/points": ".*tacho calibrate' bare.json || fail "a machine that was never calibrated: no reason, or no fix"
grep -q '"/utilization/mfu_measured": ".*tacho calibrate' bare.json || fail "mfu_measured without a roof: no fix"

cat > exact.py << 'PY'
import json, sqlite3, sys
report, db = json.load(open(sys.argv[1])), sqlite3.connect(sys.argv[2])
ceiling = {}
for resource, dtype, value in db.execute("SELECT resource, dtype, value FROM ceiling"):
    ceiling[resource, dtype or ""] = max(value, ceiling.get((resource, dtype or ""), 0))
dram = max(ceiling[x, ""] for x in ("bandwidth", "bandwidth_read", "bandwidth_update") if (x, "") in ceiling)
left_out = {(e["index"]) for e in report["trust"]["steps_excluded"]}
steps = [(a, b) for i, a, b in db.execute('SELECT "index", start, "end" FROM step') if i not in left_out]
assert len(steps) == report["steps"]["detailed"] == 12, (len(steps), report["steps"])
calls = {}
rows = """SELECT text, dtype, pass, kind, flops, bytes_read + bytes_written, start, dur FROM slice JOIN detail ON detail.id = detail
          JOIN string ON string.id = name WHERE schema = 'tacho.work' AND flops > 0"""
for name, dtype, what, kind, flops, moved, start, dur in db.execute(rows):
    if moved and any(a <= start < b for a, b in steps):
        calls.setdefault((name, dtype, what), []).append((flops / moved, flops, moved, dur, kind))
want = {}
for key, list_ in calls.items():
    first = None
    for c in sorted(list_):
        if first is None or c[0] > 1.02 * first:
            first = c[0]
        p = want.setdefault((*key, first), [0, 0, 0, 0, c[4]])
        for i, v in enumerate((1, c[1], c[2], c[3])):
            p[i] += v
have = report["roofline"]["points"]
assert len(have) == len(want), (len(have), len(want))
for p in have:
    key = next(k for k in want if k[:3] == (p["name"], p["dtype"], p["pass"]) and want[k][1] == p["flops"] and want[k][2] == p["bytes"])
    count, flops, moved, ns, kind = want.pop(key)
    assert (p["count"], p["flops"], p["bytes"], round(p["time_us"] * 1000)) == (count, flops, moved, ns), (p, count, flops, moved, ns)
    product = kind in ("matrix", "attention", "convolution")
    peak = ceiling["flops", p["dtype"] if product else "fp32"]
    intensity, achieved = flops / moved, flops / ns * 1e9
    roof = min(peak, intensity * dram)
    assert abs(p["attainable_flops_per_s"] / roof - 1) < 1e-9, p
    level = None
    if achieved > intensity * dram:
        bound = "cached"
        level = next((l for l in ("l3", "l2", "l1") if ("bandwidth_" + l, "") in ceiling and achieved <= intensity * ceiling["bandwidth_" + l, ""]), None)
    else:
        bound = "memory" if intensity * dram < peak else "compute"
        level = "dram" if bound == "memory" else None
    assert (p["bound"], p["level"]) == (bound, level), (p, bound, level)
    assert p["achieved_flops_per_s"] <= p["attainable_flops_per_s"] * (1 + 1e-12) or p["bound"] == "cached", p
assert not any("counting error" in x for x in report["trust"]["problems"]), report["trust"]["problems"]
print(len(have), "points:", sorted({p["bound"] for p in have}))
PY

# peak 2 TFLOP/s, 250 GB/s: the ridge is at 8 FLOP/byte, whatever the machine
roofs="('cpu','flops','fp32',2e12,'measured: test'), ('cpu','bandwidth','',2e11,'measured: test'), ('cpu','bandwidth_update','',2.5e11,'measured: test')"
caches="('cpu','bandwidth_l3','',1e8,'measured: test'), ('cpu','bandwidth_l2','',1e9,'measured: test'), ('cpu','bandwidth_l1','',1e13,'measured: test')"
slow="('cpu','flops','fp32',2e12,'measured: test'), ('cpu','bandwidth','',1e6,'measured: test'), $caches"
for name in small large; do
    with $name $name-fast "$roofs"
    with $name $name-slow "$slow"
    for copy in fast slow; do
        python3 exact.py $name-$copy.json $name.tacho 2> err > /dev/null && fail "the check passes without the ceilings"
        python3 exact.py $name-$copy.json $name-$copy.tacho || fail "$name-$copy: a point is not where it should be"
    done
done

# one operator on both sides of the ridge
python3 - << 'PY' || fail "matmul.forward does not cross the ridge"
import json
side = {}
for run in ("small", "large"):
    for p in json.load(open(run + "-fast.json"))["roofline"]["points"]:
        if p["name"] == "matmul.forward":
            side.setdefault(run, []).append((p["intensity"], p["bound"]))
print(side)
assert all(i < 8 and b in ("memory", "cached") for i, b in side["small"])
assert all(i > 8 and b == "compute" for i, b in side["large"])
PY

# above the peak: told, not hidden
with large large-wrong "('cpu','flops','fp32',1e3,'measured: test'), ('cpu','bandwidth','',1e12,'measured: test')"
grep -q 'counting error: .* of the peak of its arithmetic' large-wrong.json || fail "points above the peak: trust says nothing"
grep -q '"bound": "impossible"' large-wrong.json || fail "points above the peak are not in the table"

# recomputation: the same model FLOPs, and exactly its own FLOPs more are executed
run block --batch 8 --seq 64 --recompute block
"$TACHO" report block.tacho --json --peak 1e15 > block.json || fail "no report"
"$TACHO" report large.tacho --json --peak 1e15 > plain.json || fail "no report"
python3 - << 'PY' || fail "FLOPs of recomputation"
import json
a, b = (json.load(open(n + ".json"))["utilization"] for n in ("plain", "block"))
again = b["recomputed_flops_per_step"]
assert a["recomputed_flops_per_step"] == 0 and again > 0
assert b["model_flops_per_step"] == a["model_flops_per_step"] and b["palm_flops_per_step"] == a["palm_flops_per_step"]
assert b["hardware_flops_per_step"] == a["hardware_flops_per_step"] + again
ratio = b["hfu"] / b["mfu"]
assert abs(ratio - (a["hardware_flops_per_step"] + again) / a["model_flops_per_step"]) < 1e-12, ratio
print("HFU / MFU", ratio, "of it recomputed", again / b["model_flops_per_step"])
PY

# findings: there with the cause, gone without it
products="('cpu','gemm','fp32',1e12,'measured: test'), ('cpu','gemm','bf16',1.9e12,'measured: test'), ('cpu','flops','bf16',4e12,'measured: test')"
run half --batch 8 --seq 64 --dtype bf16
with large large-found "$roofs, $products"
with half half-found "$roofs, $products"
with block block-found "$roofs, $products"
with small small-found "$roofs, $products"
has large-found LOW_PRECISION || fail "products in fp32 where bf16 is twice as fast: no LOW_PRECISION"
has half-found LOW_PRECISION && fail "LOW_PRECISION of a run in bf16"
# beside other programs the gain spans what they took, and may begin below the floor of a finding
has block-found RECOMPUTE || has block-found OTHER_PROGRAMS || fail "recomputation with room in memory: no RECOMPUTE"
has large-found RECOMPUTE && fail "RECOMPUTE without recomputation"
has small-found SMALL_BATCH || fail "one row a product: no SMALL_BATCH"
grep -q '"/utilization/mfu_measured"' half-found.json && fail "no mfu_measured with roofs of both types"
"$TACHO" report large-found.tacho --full > text || fail "no text"
grep -q '^Roofline' text || fail "no roofline in the text"
grep -q '^Ceilings .*DRAM 250 GB/s' text || fail "no ceilings in the text"
exit 0
