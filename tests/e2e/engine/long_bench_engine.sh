#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make bench-engine on a machine without peers: one line for each that is missing, and tacho beside the limit, which it does not beat.
set -u
cd "$SRC" || exit 1
[ -x "$BUILD/tests/bench/lt_limit" ] || { echo "needs $BUILD/tests/bench/lt_limit ('make bench-engine' builds it)"; exit 77; }
out=$(REPEATS=1 BENCH_SEQ=16 BENCH_DTYPES=fp32 TORCH_PYTHON=/nonexistent LLMC_DIR=/nonexistent OPENBLAS_LIB=/nonexistent tests/bench/engine.sh "$BUILD" 2>&1)
echo "$out"
fail() { echo "FAIL: $*"; exit 1; }
[ "$(grep -c '^bench-engine: no ' <<< "$out")" = 2 ] || fail "not one line for each missing peer"
[ "$(grep -c ' x 12$' <<< "$out")" = 12 ] && [ "$(grep -c ' x 1$' <<< "$out")" = 3 ] || fail "not all products of a step"
# limit, tacho: tokens/s x ms/step = 4 samples of 16 tokens; GFLOP/s from them; tacho's share is limit / tacho
awk '$1 == "fp32" && $2 == 16 {
    ms = $6; ok = $4 * ms > 63e3 && $4 * ms < 65e3
    flops = 64 * (6 * (12 * 12 * 768 * 768 + 50257 * 768) + 6 * 12 * 768 * 17)
    ok = ok && $7 > 0.99 * flops / ms * 1e-6 && $7 < 1.01 * flops / ms * 1e-6
    if (!ok) { print "FAIL: " $0; bad = 1 }
    rows++; share[$3] = $8; time[$3] = ms
} END { want = 100 * time["limit"] / time["tacho"]; exit bad || rows != 2 || share["tacho"] < want - 0.2 || share["tacho"] > want + 0.2 }' <<< "$out" || fail "the table"
grep -q '^limit fp32 T=16: products [0-9.]* ms + attention [0-9.]* ms + AdamW [0-9.]* ms' <<< "$out" || fail "what the limit is made of"
