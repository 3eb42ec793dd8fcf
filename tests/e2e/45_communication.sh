#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two ranks over MPI: bytes of the gradients, overlap, transfer and waiting. A slowed rank shows as waiting on the other one and is named, a
# slowed link as transfer; one rank of two alone gets no advice about the link.
# timeout: 400
set -u
# shellcheck source=tests/e2e/report_common.sh
. "$(dirname "$0")/report_common.sh"
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
go --no-overlap
books || fail "books of a run without overlap"
bytes 4 || fail "bytes of fp32 gradients"
check 'x["overlap_pct"] < 1' 'f is None or "--no-overlap" in f["action"] or "rank" in f["action"]' || fail "no overlap"
go --dtype bf16
books || fail "books of a run in bf16"
bytes 2 || fail "bytes of bf16 gradients"
overlapped() {
    go --bucket-mib 0.25
    books && bytes 4 && check 'x["overlap_pct"] > 5' '[k["calls_per_step"] for k in x["collectives"] if k["name"] == "all_reduce"][0] > 3'
}
attempt 3 overlapped
# a rank that sleeps 200 ms in each step: the other one waits for it, about as long
slow_rank() {
    go --slow-rank 1=0.2
    books && check 'r[0]["waiting_ms"] > 150' 'r[1]["waiting_ms"] < 0.5 * r[0]["waiting_ms"]' 'r[1]["caused_ms"] > 150' \
        'x["waiting_ms"] > 1.5 * x["transfer_ms"]' 's is not None and "rank 1" in s["action"] and s["method"].startswith("replay of")' \
        's["gain_pct"]["expected"] > 100' \
        'f is None or ("transfer" in f["claim"] and f["gain_pct"]["high"] < s["gain_pct"]["expected"])' # the waiting is the rank's, not the link's
}
attempt 3 slow_rank
# the same messages 60 times: transfer on both, and no rank is blamed
slow_link() {
    go --slow-link 60
    books && check 'x["transfer_ms"] > 1.5 * x["waiting_ms"]' 'abs(r[0]["transfer_ms"] - r[1]["transfer_ms"]) < 1e-6' \
        'f is not None and "transfer" in f["claim"] and "rank 1" not in f["action"] and "rank 0" not in f["action"]'
}
attempt 3 slow_link
"$TACHO" report run.tacho > text || fail "no text"
grep -q '^Communication .* exposed: .* transfer, .* waiting for other ranks' text || fail "no line Communication"
grep -q '^Communication of each rank' text || fail "no table of the ranks"
[ "$(tr -s ' \n' ' ' < text | grep -o '[0-9]* (first)' | wc -l)" = 1 ] || fail "steps left out are named once a rank"
grep -q '^ rank 1 ' text || fail "no row of rank 1"
# one rank of two: no split, no advice about the link
rm -f alone-*.tacho
mpirun -np 1 --bind-to none --oversubscribe "$TACHO" run -o alone-0.tacho --no-peak --overhead 0 -- "$TRAIN" gpt2-tiny --steps 25 --layers 2 --channels 128 \
    --heads 2 --batch 2 --seq 128 --data "$data" --log-every 0 --no-overlap --slow-link 20 : \
    -np 1 "$TRAIN" gpt2-tiny --steps 25 --layers 2 --channels 128 --heads 2 --batch 2 --seq 128 --data "$data" --log-every 0 --no-overlap \
    --slow-link 20 > log 2>&1 || { cat log; fail "the run of which one rank is recorded failed"; }
"$TACHO" report alone-0.tacho --json > json || fail "no report of one rank"
check 'x["waiting_ms"] is None and x["transfer_ms"] is None' '"rank 1 of 2 is not in the file" in x["missing"]' 'x["matched"] == 0' \
    '"rank 1 of 2" in j["absent"]["/communication/waiting_ms"]' 'f is not None and "record every rank" in f["action"]' \
    'not any(word in f["action"] for word in ("bucket", "overlap"))' || fail "one rank alone"
