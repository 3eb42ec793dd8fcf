#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# Kernels, launches, copies and synchronise calls of every shared trace against a brute-force script: no number may differ.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
traces_for_script
every_trace "$SRC/tests/e2e/traces/kernels_exact.py"

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
    mine = json.load(open(file + ".json.gz.report"))["launches"]
    sums = round(mine["delay_mean_us"] * mine["matched"], 3)
    for what, a, b in [("calls", mine["matched"], launch["n"]), ("sum of delays", sums, launch["launch_delay_sum"]),
                       ("median delay", mine["delay_median_us"], launch["launch_delay_median"]), ("queue", mine["queue_max"], queue)]:
        if a != b:
            wrong += 1
            print(f"{file}: {what}: tacho {a}, HTA {b}")
sys.exit(wrong > 0)
END

# The script must notice: each of these changes one number of a report.
spoil hta_critical_path_alexnet_rank0.json.gz \
    "a nanosecond of a sum" 'k = r["kernels"][0]; k["total_us"] = round(k["total_us"] + 0.001, 3)' \
    "the population deviation" 'k = next(k for k in r["kernels"] if k["count"] > 9 and k["sd_us"]); k["sd_us"] *= ((k["count"] - 1) / k["count"]) ** 0.5' \
    "a launch" 'r["launches"]["matched"] -= 1' \
    "the delay" 'r["launches"]["delay_p95_us"] *= 1.0001' \
    "a queue" 'r["launches"]["queue_max"] += 1' \
    "bytes" 'r["copies"][0]["bytes"] += 1' \
    "exposed time" 'r["copies"][0]["exposed_us"] += 0.001' \
    "idle time of a synchronise call" 's = r["syncs"][0]; s["idle_us"] = s["idle_us"] + 0.001'
