#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Device times, steps and step budgets of every shared trace against a brute-force script; the unions of the Nsight exports against
# the recorded ones. No nanosecond may differ.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
traces_for_script
every_trace "$SRC/tests/e2e/traces/gpu_exact.py"

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
trace=hta_trace_filter_2ranks_rank1.json.gz
spoil $trace "a nanosecond of idle time" 'd = r["devices"][0]; d["idle_us"] = round(d["idle_us"] + 0.001, 3)'
spoil $trace "exposed communication" 'd = r["devices"][0]; d["exposed_comm_us"] -= 0.001'
spoil $trace "overlap" 'r["devices"][0]["overlap_pct"] *= 1 + 1e-9'
spoil $trace "a step" 'r["steps"]["counted"] += 1'
spoil $trace "the median" 'r["steps"]["median_ms"] += 0.000001'
spoil $trace "the host step" 'r["steps"]["host_median_ms"] = r["steps"]["median_ms"]'
spoil $trace "a class of the budget" 'r["budget_by_device"][0]["host_pct"] += 1e-6'
spoil $trace "a device" 'r["devices"].append(dict(r["devices"][0], device=7, ops=0))'
