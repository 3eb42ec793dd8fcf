#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Seeds of fuzz_text. usage: fuzz_text.sh TRACES SEEDS
set -eu
mkdir -p "$2"
tables=$PWD/analyzers/device/classes.tsv
cd "$2"
printf '\0001000 20 py::f:/x.py\n1020 400 jit_avx512\n400 10 a b\n' > map
printf '\003comm=0.5x,loader.workers=8,op:attention=80%%,launch=graph,sync=0,rank:3:backward=0.5x,ranks=even' > edits
{ printf '\004'; head -c 20000 "$tables"; } > classes
printf '\004matrix\tgemm|^cutlass_[a-z]{2,3}\tbf16\tyes\tremark\n-\tfp8\tfp8\t-\n' > some
printf '\006{"schema":"tacho-calibration/1","libraries":"fuzz","cpu":"x","cores":2,"memory_bytes":1,"measured_at":"2026-01-01T00:00:00Z","ceilings":[{"resource":"memory","dtype":"","unit":"B/s","value":1e10,"median":1e10,"worst":9e9,"repeats":3,"how":"x"}]}' > ceilings
printf '\005# x\ntheme = dark\nglyphs = ascii\nmouse = on\nview = ops\n' > settings
# a small library and an object file, with symbols and unwind tables
echo 'int f(int x) { return x + 1; } int g(int (*h)(int), int x) { return h(x) + f(x); }' > x.c
if "${CC:-cc}" -g0 -O1 -shared -fPIC -nostdlib -o x.so x.c 2> /dev/null; then
    { printf '\001'; cat x.so; } > symbols
    { printf '\002'; cat x.so; } > unwind
fi
rm -f x.c x.so
