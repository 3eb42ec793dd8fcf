#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# Two ranks over MPI: overlap; a slowed rank shows as waiting on the other one and is named, a slowed link as transfer.
set -u
# shellcheck source=tests/e2e/kit/communication_common.sh
. "$(dirname "$0")/../kit/communication_common.sh"
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
"$TACHO" report run.tacho --full > text || fail "no text"
grep -q '^Communication .* exposed: .* transfer, .* waiting for other ranks' text || fail "no line Communication"
grep -q '^Communication of each rank' text || fail "no table of the ranks"
[ "$(tr -s ' \n' ' ' < text | grep -o '[0-9]* (first)' | wc -l)" = 1 ] || fail "steps left out are named once a rank"
grep -q '^ rank 1 ' text || fail "no row of rank 1"
