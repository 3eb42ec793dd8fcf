#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# Device times, steps, step budgets, why devices do not compute and communication that blocks, of every shared trace, against brute-force
# scripts; the unions of the Nsight exports against the recorded ones. No nanosecond may differ.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
traces_for_script
every_trace "$SRC/tests/e2e/traces/device_exact.py"

# What an independent reading of the Nsight exports found; nothing overlaps there, so that a memset adds to the compute kernels.
python3 - "$traces/expected.json" << 'END' > out 2>&1 || fail "Nsight unions: $(tail -n 20 out)"
import decimal, json, sys
nsys = json.load(open(sys.argv[1]))["nsys"]
assert len(nsys) == 2
for name, x in nsys.items():
    report = json.load(open(name + ".report"), parse_float=decimal.Decimal)
    rows = {str(d["device"]): d for d in report["devices"]}
    assert set(rows) == set(x["devices"]) and len(rows) == 2
    for key, want in x["devices"].items():
        d = {k: int(v * 1000) for k, v in rows[key].items() if k.endswith("_us") and isinstance(v, (int, decimal.Decimal))}
        got = (d["span_us"], d["busy_us"], d["idle_us"], d["comm_us"], d["copy_us"], d["compute_us"], d["comm_us"] - d["exposed_comm_us"])
        assert got == (want["span_ns"], want["busy_union_ns"], want["idle_ns"], want["nccl_union_ns"], want["memcpy_union_ns"],
                       want["compute_union_ns"] + want["memset_union_ns"], want["nccl_compute_overlap_ns"]), (name, key, got, want)
        assert rows[key]["ops"] == want["n_kernels"] + want["n_memcpy"] + want["n_memset"]
print("14 unions of 2 exports are the same")
END
tail -n 1 out

# The script must notice: each of these changes one number of a report.
spoil hta_trace_filter_2ranks_rank1.json.gz \
    "a nanosecond of idle time" 'd = r["devices"][0]; d["idle_us"] = round(d["idle_us"] + 0.001, 3)' \
    "exposed communication" 'd = r["devices"][0]; d["exposed_comm_us"] -= 0.001' \
    "overlap" 'r["devices"][0]["overlap_pct"] *= 1 + 1e-9' \
    "a step" 'r["steps"]["counted"] += 1' \
    "the median" 'r["steps"]["median_ms"] += 0.000001' \
    "the host step" 'r["steps"]["host_median_ms"] = r["steps"]["median_ms"]' \
    "a class of the budget" 'r["budget_by_device"][0]["host_pct"] += 1e-6' \
    "a device" 'r["devices"].append(dict(r["devices"][0], device=7, ops=0))' \
    "a nanosecond of launch-starved time" 'd = r["devices"][0]; d["absent_launch_starved_us"] = round(d["absent_launch_starved_us"] + 0.001, 3)' \
    "time that changed its part" 'x = r["compute_absent"][0]; x["blocked_us"] -= 1; x["dispatch_us"] += 1' \
    "what occupied the device" 'r["compute_absent"][0]["occupied"]["blocked"]["communication_us"] += 1' \
    "communication that blocks" 'r["devices"][0]["blocking_comm_us"]["inferred"] += 1' \
    "a cause" 'r["compute_absent"][0]["causes"][0]["us"] += 1' \
    "time behind a wait" 'r["compute_absent"][0]["after_wait_us"] += 1'
