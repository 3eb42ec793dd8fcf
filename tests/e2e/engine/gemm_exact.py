# SPDX-License-Identifier: Apache-2.0
"""Compares what a substitute cuBLAS logged (tests/targets/fake_cublas.c) with the ranges of domain cublas in a .tacho file.

    gemm_exact.py LOG RUN [TYPE]     TYPE: what fp32 products of the default compute type run in (fp32)

Each call must be one range with its name, FLOPs, bytes, type and shape; prints what differs and exits with 1."""
import collections
import json
import os
import sqlite3
import sys

BITS = {0: 32, 1: 64, 2: 16, 3: 8, 4: 64, 10: 32, 14: 16, 28: 8}
COMPLEX = {4}
TYPES = {1: "fp64", 2: "fp16", 14: "bf16", 28: "fp8", 3: "int8"}
GROUPED = ("cublasSgemmGroupedBatched", "cublasDgemmGroupedBatched", "cublasGemmGroupedBatchedEx")


def main(log, run, fp32="fp32"):
    want, groups, plain = collections.Counter(), collections.Counter(), collections.Counter()
    group_lines = collections.Counter()
    with_c = {}
    for line in open(log):
        pid, name, *numbers = line.split()
        ta, tb, m, n, k, batch, a, b, c, how = map(int, numbers)
        pid = int(pid)
        if name == "inner":
            continue
        if m < 0:
            plain[pid, name] += 1
            continue
        flops = m * n * k * batch * (8 if a in COMPLEX else 2)
        dtype = TYPES.get(a)
        if a == 0:
            no_tf32 = os.environ.get("NVIDIA_TF32_OVERRIDE") == "0"
            # the old interface has no handle that could be asked
            dtype = "tf32" if how == 77 and not no_tf32 else "fp32" if name == "cublasSgemm" else fp32
        if name.startswith(GROUPED):
            groups[pid, name] += flops
            group_lines[pid, name] += 1
            continue
        read = written = None
        if a in BITS and b in BITS and c in BITS:
            written = m * n * batch * BITS[c] // 8
            read = (m * k * BITS[a] + k * n * BITS[b]) * batch // 8
        text = f"{name} {dtype or ('complex' if a in COMPLEX else '?')} {'NTC'[ta]}{'NTC'[tb]} {m}x{n}x{k}" + (f" x{batch}" if batch != 1 else "")
        key = (pid, text, flops, written, dtype, ta, tb, m, n, k, batch, a, b, c, how)
        want[key] += 1
        with_c[key] = read
    db = sqlite3.connect(f"file:{run}?mode=ro", uri=True)
    got, sums, counts, bare = collections.Counter(), collections.Counter(), collections.Counter(), collections.Counter()
    bad = []
    rows = db.execute(
        """SELECT process.pid, name.text, flops, model_flops, bytes_read, bytes_written, dtype, detail.kind, payload, dur
        FROM slice JOIN string name ON name.id = slice.name JOIN string cat ON cat.id = slice.category AND cat.text = 'cublas'
        JOIN track ON track.id = slice.track JOIN process ON process.id = track.process LEFT JOIN detail ON detail.id = slice.detail"""
    )
    for pid, name, flops, model, read, written, dtype, kind, payload, dur in rows:
        if dur is None:
            bad.append(f"{name}: not closed")
        if flops is None:
            bare[pid, name] += 1
            continue
        p = json.loads(payload)
        if kind != "matrix" or model != flops:
            bad.append(f"{name}: kind {kind}, {model} model FLOPs of {flops}")
        if name.startswith(GROUPED):
            sums[pid, name] += flops
            counts[pid, name] += 1
            if "m" in p:
                bad.append(f"{name}: a shape for several")
            continue
        key = (pid, name, flops, written, dtype, p["transa"], p["transb"], p["m"], p["n"], p["k"], p["batch"])
        key += (p["a_type"], p["b_type"], p["c_type"], p["compute"])
        got[key] += 1
        # C is read or not: linked_gemm's first two calls, of one shape, are one of each, which the script counts
        if key in with_c and (read is None) != (with_c[key] is None):
            bad.append(f"{name}: {read} bytes read")
        elif key in with_c and read is not None and read not in (with_c[key], with_c[key] + written):
            bad.append(f"{name}: {read} bytes read, not {with_c[key]} and perhaps {written}")
    for what, a, b in (("missing", want, got), ("too many", got, want)):
        for key, count in (a - b).items():
            bad.append(f"{what} {count}: {key}")
    if groups != sums:
        bad.append(f"groups: {groups} logged, {sums} recorded")
    if {key: n // 2 for key, n in group_lines.items()} != dict(counts):
        bad.append(f"calls with groups: {group_lines} lines, {counts} recorded")
    if plain != bare:
        bad.append(f"without shape: {plain} logged, {bare} recorded")
    print("\n".join(bad[:20]))
    print(f"{sum(want.values())} products, {sum(counts.values())} with groups, {sum(bare.values())} without shape")
    return 1 if bad or not want else 0


sys.exit(main(*sys.argv[1:]))
