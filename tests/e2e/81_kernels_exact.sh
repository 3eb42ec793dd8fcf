#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
# Kernels, launches, copies and synchronise calls of every shared trace against a brute-force script: no number may differ.
set -u
# shellcheck source=tests/e2e/report_common.sh
. "$(dirname "$0")/report_common.sh"
traces=${TACHO_TRACES:-$SRC/../shared/traces}
if [ ! -d "$traces" ]; then
    echo "no shared traces: $traces is not there (TACHO_TRACES names another folder)"
    exit 77
fi
if ! command -v python3 > /dev/null; then
    echo "needs python3 for the brute-force script"
    exit 77
fi
traces=$(cd "$traces" && pwd)
work_folder
export XDG_CACHE_HOME=$PWD/cache
check=$SRC/tests/e2e/kernels_exact.py
compared=0
for trace in "$traces"/*.json.gz "$traces"/*.sqlite.gz; do
    name=$(basename "$trace")
    [ -f "$trace" ] || continue
    "$TACHO" report "$trace" --json > report.json 2> err || fail "$name: report: $(cat err)"
    python3 "$check" "$trace" report.json > out 2>&1 || fail "$name: $(tail -n 20 out)"
    echo "$name: $(tail -n 1 out)"
    compared=$((compared + 1))
done
[ "$compared" -ge 10 ] || fail "only $compared traces in $traces"

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
