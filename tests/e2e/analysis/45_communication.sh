#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Two ranks over MPI: bytes of the gradients, books of transfer and waiting; one rank of two alone gets no advice about the link
# (45_communication_timing.sh: overlap, a slowed rank, a slowed link).
set -u
# shellcheck source=tests/e2e/kit/communication_common.sh
. "$(dirname "$0")/../kit/communication_common.sh"
go --no-overlap
books || fail "books of a run without overlap"
bytes 4 || fail "bytes of fp32 gradients"
check 'x["overlap_pct"] < 1' 'f is None or "--no-overlap" in f["action"] or "rank" in f["action"]' || fail "no overlap"
go --dtype bf16
books || fail "books of a run in bf16"
bytes 2 || fail "bytes of bf16 gradients"
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
