#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
# Kernels, launches, copies and synchronise calls of every shared trace against a brute-force script: no number may differ.
set -u
# shellcheck source=tests/e2e/report_common.sh
. "$(dirname "$0")/report_common.sh"
traces_for_script
check=$SRC/tests/e2e/kernels_exact.py
compared=0
for trace in "$traces"/*.json.gz "$traces"/*.sqlite.gz; do
    name=$(basename "$trace")
    [ -f "$trace" ] || continue
    "$TACHO" report "$trace" --json > report.json 2> err || fail "$name: report: $(cat err)"
    cp report.json "$name.json"
    python3 "$check" "$trace" report.json > out 2>&1 || fail "$name: $(tail -n 20 out)"
    echo "$name: $(tail -n 1 out)"
    compared=$((compared + 1))
done
[ "$compared" -ge 10 ] || fail "only $compared traces in $traces"

# HTA on the traces where it drops nothing, rounds nothing and meets no graph: calls, sum of delays and longest queue, to the us.
# A value that the reference lacks is an error (KeyError).
python3 - "$traces/expected.json" << 'END' || fail "HTA"
import json, sys
files = json.load(open(sys.argv[1]))["files"]
wrong = 0
for name, file, rank in [("hta_trace_filter_2ranks", "hta_trace_filter_2ranks_rank0", "0"),
                         ("hta_trace_filter_2ranks", "hta_trace_filter_2ranks_rank1", "1"),
                         ("hta_critical_path_alexnet", "hta_critical_path_alexnet_rank0", "0"),
                         ("hta_critical_path_simple_add", "hta_critical_path_simple_add_rank0", "0"),
                         ("kineto_tb_resnet50_num_workers_0_steps16-21", "kineto_tb_resnet50_num_workers_0_steps16-21_rank0", "0"),
                         ("kineto_tb_resnet50_num_workers_4_steps16-21", "kineto_tb_resnet50_num_workers_4_steps16-21_rank0", "0")]:
    hta = files[name]["hta_include_last"]
    launch = hta["cuda_kernel_launch_stats"][rank]
    queue = max(q["max"] for q in hta["queue_length_summary"] if str(q["rank"]) == rank)
    mine = json.load(open(file + ".json.gz.json"))["launches"]
    sums = round(mine["delay_mean_us"] * mine["matched"], 3)
    for what, a, b in [("calls", mine["matched"], launch["n"]), ("sum of delays", sums, launch["launch_delay_sum"]),
                       ("median delay", mine["delay_median_us"], launch["launch_delay_median"]), ("queue", mine["queue_max"], queue)]:
        if a != b:
            wrong += 1
            print(f"{file}: {what}: tacho {a}, HTA {b}")
sys.exit(wrong > 0)
END

# The script must notice: each of these changes one number of the last report.
spoil() { # WHAT PYTHON: the statement changes r, the report
    python3 - "$2" << 'END' || fail "could not spoil: $1"
import json, sys
r = json.load(open("report.json"))
exec(sys.argv[1])
json.dump(r, open("spoilt.json", "w"))
END
    python3 "$check" "$trace" spoilt.json > out 2>&1 && fail "not noticed: $1"
    grep -q 'brute force' out || fail "$1: the script died: $(tail -n 3 out)"
}
trace=$traces/hta_ns_resolution_rank0.json.gz
"$TACHO" report "$trace" --json > report.json || fail "report"
spoil "a nanosecond of a sum" 'k = r["kernels"][0]; k["total_us"] = round(k["total_us"] + 0.001, 3)'
spoil "the population deviation" 'k = next(k for k in r["kernels"] if k["count"] > 9 and k["sd_us"]); k["sd_us"] *= ((k["count"] - 1) / k["count"]) ** 0.5'
spoil "a launch" 'r["launches"]["matched"] -= 1'
spoil "the delay" 'r["launches"]["delay_p95_us"] *= 1.0001'
spoil "a queue" 'r["launches"]["queue_max"] += 1'
spoil "bytes" 'r["copies"][0]["bytes"] += 1'
spoil "exposed time" 'r["copies"][0]["exposed_us"] += 0.001'
spoil "idle time of a synchronise call" 's = r["syncs"][0]; s["idle_us"] = s["idle_us"] + 0.001'
