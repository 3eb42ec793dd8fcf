# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts about communication: sourced, not run. Two ranks over MPI and claims about their report.
# shellcheck shell=bash
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/report_common.sh"
train_with_ranks

# go OPTIONS...: two ranks, their report in ./json
go() {
    rm -f run.tacho
    "$TACHO" run -o run.tacho --no-peak --overhead 0 -- mpirun -np 2 --bind-to none --oversubscribe "$TRAIN" gpt2-tiny --steps 25 --layers 2 \
        --channels 128 --heads 2 --batch 2 --seq 128 --data "$data" --log-every 0 --workers 1 "$@" > log 2>&1 || { cat log; fail "the run failed"; }
    "$TACHO" report run.tacho --json > json || fail "no report"
}
# what holds for a report, in Python: j the report, x its communication, r its ranks, f EXPOSED_COMM or None, s STRAGGLER or None
check() {
    python3 - "$@" << 'END'
import json, sys
j = json.load(open("json"))
x = j["communication"]
r = x and {k["rank"]: k for k in x["ranks"]}
f = ([f for f in j["findings"] if f["id"] == "EXPOSED_COMM"] or [None])[0]
s = ([f for f in j["findings"] if f["id"] == "STRAGGLER"] or [None])[0]
b = j["budget_ns"]
for claim in sys.argv[1:]:
    if not eval(claim):
        print("not so:", claim, json.dumps(x), f and f["action"])
        sys.exit(1)
END
}

# parameters of GPT-2: V C + T C, 12 C^2 + 13 C a layer, 2 C
parameters=$((256 * 128 + 128 * 128 + 2 * (12 * 128 * 128 + 13 * 128) + 2 * 128))
books() { # what must hold in any run
    check 'x["missing"] is None and x["matched"] == x["calls"] > 0' 'sorted(r) == [0, 1]' \
        'all(abs(x["collectives"][i]["bytes_max_over_mean"] - 1) < 1e-9 for i in range(len(x["collectives"])))' \
        'abs(x["exposed_ms"] * b["steps"] * 1e6 - b["exposed_comm"]) <= 1e-6 * b["exposed_comm"] + 1' \
        'all(k["exposed_transfer_ms"] + k["exposed_waiting_ms"] <= k["exposed_ms"] * (1 + 1e-9) for k in r.values())' \
        'all(k["exposed_ms"] <= k["total_ms"] * (1 + 1e-9) for k in r.values())' \
        'abs(r[0]["waiting_ms"] - r[1]["caused_ms"]) < 1e-6 and abs(r[1]["waiting_ms"] - r[0]["caused_ms"]) < 1e-6' \
        'abs(r[0]["transfer_ms"] - r[1]["transfer_ms"]) < 1e-6' 'x["blocking_ms"]["proven"] == x["exposed_ms"]'
}
bytes() { # BYTES A PARAMETER
    check "[k['bytes_per_step'] for k in x['collectives'] if k['name'] == 'all_reduce'] == [$1 * $parameters]" \
        '[k["bus_bytes_per_s"] / k["algorithm_bytes_per_s"] for k in x["collectives"] if k["name"] == "all_reduce"] == [1.0]'
}
