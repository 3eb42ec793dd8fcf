#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Shapes of matrix products without cuBLAS and without a GPU: a program that is linked with a substitute that logs its calls. Each
# logged call is one range, with the same shape; results and return codes are what they are without tacho.
set -u
[ -z "${SAN:-}" ] || { echo "a sanitizer's runtime must be loaded before everything else, and LD_PRELOAD is this test's"; exit 77; }
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
command -v sqlite3 > /dev/null || { echo "sqlite3 is not here"; exit 77; }
fail=0
bad() {
    echo "$1: $2"
    fail=1
}

# the substitutes have the versioned symbols of the real ones
nvtx=$(sed -n 's/^NVTX_CFLAGS := //p' "$BUILD/config.mk")
# shellcheck disable=SC2206
flags=(-std=c11 -O1 -g -D_GNU_SOURCE -fPIC -I"$SRC/include" $nvtx)
cat > "$TMPDIR/cublas.map" << MAP
libcublas.so.13 { global: cublas*; local: *; };
MAP
cat > "$TMPDIR/lt.map" << MAP
libcublasLt.so.13 { global: cublas*; local: *; };
MAP
# shellcheck disable=SC2086 # CC may be several words, as in "ccache gcc"
build() { $CC "${flags[@]}" "$@" || exit 1; }
sources=$SRC/tests/targets
mkdir "$TMPDIR/lib" "$TMPDIR/python"
build -DFAKE_LT -shared -fvisibility=hidden "$sources/fake_cublas.c" -Wl,--version-script="$TMPDIR/lt.map" \
    -Wl,-soname,libcublasLt.so.13 -o "$TMPDIR/lib/libcublasLt.so.13" -ldl
build -shared -fvisibility=hidden "$sources/fake_cublas.c" -Wl,--version-script="$TMPDIR/cublas.map" -Wl,-soname,libcublas.so.13 \
    -o "$TMPDIR/lib/libcublas.so.13" "$TMPDIR/lib/libcublasLt.so.13" -Wl,-rpath,"$TMPDIR/lib" -ldl
# shellcheck disable=SC2054
link=("$TMPDIR/lib/libcublas.so.13" "$TMPDIR/lib/libcublasLt.so.13" -lpthread -ldl -Wl,-rpath,"$TMPDIR/lib")
build "$sources/linked_gemm.c" -o "$TMPDIR/linked" "${link[@]}"
# as in Python: a library out of the global scope brings cuBLAS with it
build -DGEMM_PLUGIN -shared "$sources/linked_gemm.c" -o "$TMPDIR/plugin.so" "${link[@]}"
cat > "$TMPDIR/host.c" << 'C'
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *h = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!h)
        return printf("%s\n", dlerror()), 9;
    return ((int (*)(int, char **))(uintptr_t)dlsym(h, "gemm_main"))(argc - 1, argv + 1);
}
C
build "$TMPDIR/host.c" -o "$TMPDIR/host" -ldl
cd "$TMPDIR" || exit 1

# pair NAME TYPE COMMAND...: without and with tacho
pair() {
    local name=$1 type=$2
    shift 2
    FAKE_LOG=$TMPDIR/$name.alone.log "$@" > "$name.alone" || bad "$name" "fails by itself"
    FAKE_LOG=$TMPDIR/$name.log "$TACHO" run --gemm-shapes --no-hook --no-peak --no-counters --overhead 0 -o "$name.tacho" -- "$@" \
        > "$name.out" 2> "$name.err" || { bad "$name" "status $? under tacho"; cat "$name.err"; }
    diff <(sort "$name.alone") <(sort "$name.out") > "$name.diff" || { bad "$name" "results differ under tacho"; head -n 5 "$name.diff"; }
    diff <(cut -d' ' -f2- "$name.alone.log" | sort) <(cut -d' ' -f2- "$name.log" | sort) > "$name.diff" ||
        { bad "$name" "other calls arrive under tacho"; head -n 5 "$name.diff"; }
    python3 "$SRC/tests/e2e/engine/gemm_exact.py" "$name.log" "$name.tacho" "$type" || bad "$name" "shapes differ"
}
ask() { sqlite3 -readonly "$1.tacho" "$2"; }

pair plain fp32 ./linked
[ "$(grep -c ' 13 ' plain.out)" -ge 3 ] || bad plain "no errors to pass through"
grep -q '^[0-9]* inner' plain.log || bad plain "no inner call"
rows=$(ask plain "SELECT group_concat(bytes_read, ' ') FROM (SELECT bytes_read FROM slice JOIN detail ON detail.id = detail
    JOIN string ON string.id = name WHERE text = 'cublasSgemm_v2 fp32 NT 16x32x48' ORDER BY slice.id)")
[ "$rows" = "11264 9216" ] || bad plain "bytes read with C and without: $rows"
pair local fp32 ./host ./plugin.so
pair threads fp32 ./linked --threads 6 --rounds 40
pair forks fp32 ./host ./plugin.so --threads 2 --rounds 5 --fork 4
[ "$(ask forks "SELECT count(DISTINCT process) FROM track JOIN slice ON slice.track = track.id")" = 5 ] || bad forks "not five processes"
pair tf32 tf32 ./linked --math 3
export NVIDIA_TF32_OVERRIDE=0
pair override fp32 ./linked --math 3
unset NVIDIA_TF32_OVERRIDE
# more shapes than there are names: ranges go on, under the function's name
"$TACHO" run --gemm-shapes --no-hook --no-peak --no-counters --overhead 0 -o many.tacho -- \
    env FAKE_LOG="$TMPDIR/many.log" ./linked --rounds 250 > many.out 2> many.err || bad many "fails"
logged=$(grep -v -e inner -e 'Grouped' many.log | wc -l)
groups=$(grep -c Grouped many.log)
ranges=$(ask many "SELECT count(*) FROM slice JOIN string ON string.id = category WHERE text = 'cublas'")
[ "$ranges" = $((logged + groups / 2)) ] || bad many "$ranges ranges of $logged calls and $groups groups"
sum=$(awk '$2 != "inner" && $5 > 0 { s += $5 * $6 * $7 * $8 * ($9 == 4 ? 8 : 2) } END { printf "%.0f", s }' many.log)
have=$(ask many "SELECT sum(flops) FROM slice JOIN detail ON detail.id = detail JOIN string ON string.id = category WHERE text = 'cublas'")
[ "$sum" = "$have" ] || bad many "$have FLOPs of $sum"
[ "$(ask many "SELECT count(DISTINCT text) FROM slice JOIN string ON string.id = name")" -lt 8300 ] || bad many "names are not bounded"

# with the kernels that the products launch, on the substitute driver: the report's FLOPs are those of the calls
FAKE_KERNELS=1 FAKE_LOG=$TMPDIR/gpu.log LD_LIBRARY_PATH=$BUILD/tests/fake \
    "$TACHO" run --gemm-shapes --no-hook --no-peak --no-counters --overhead 0 -o gpu.tacho -- ./linked --rounds 8 > gpu.out 2> gpu.err || bad gpu "fails"
"$TACHO" report --json --peak 1e15 gpu.tacho > gpu.json || bad gpu "no report"
python3 - gpu.log gpu.json << 'PY' || bad gpu "the report's FLOPs are not those of the calls"
import collections, json, sys
flops, kernels = collections.Counter(), collections.Counter()
for line in open(sys.argv[1]):
    if "\t" in line: # of the substitute CUPTI
        continue
    _, name, *numbers = line.split()
    ta, tb, m, n, k, batch, a, b, c, how = map(int, numbers)
    kernels[name] += name != "inner"
    if m > 0:
        flops[name] += m * n * k * batch * (8 if a == 4 else 2)
r = json.load(open(sys.argv[2]))
rows, u = r["attribution"]["rows"], r["utilization"]
assert len(rows) >= 20, len(rows)
whole = [x for x in rows if "Grouped" in x["name"]] # names without shape: all calls of the function are one row
assert len(whole) >= 4
for x in whole:
    assert (x["flops"], x["kernels"]) == (flops[x["name"]], kernels[x["name"]]), x
for x in rows:
    if x not in whole and " " in x["name"]:
        op, dtype, t, shape, *batch = x["name"].split()
        m, n, k = map(int, shape.split("x"))
        each = 2 * m * n * k * int(batch[0][1:] if batch else 1)
        assert x["flops"] == each * x["count"] * (4 if dtype == "complex" else 1), x
steps = r["steps"]["counted"]
assert steps >= 4 and 0 < u["hardware_flops"] <= sum(flops.values()) and u["hardware_flops"] > sum(flops.values()) * steps / 8 * 0.9, u
assert u["hfu"] > 0 and abs(u["hfu"] - u["mfu"]) < 1e-12 and u["flop_coverage_pct"] > 95, u
PY
[ "$(ask gpu "SELECT count(*) FROM track WHERE kind = 'thread'")" = 1 ] || bad gpu "a thread has two tracks"
# an environment of the user's own stays; without tacho the library does nothing
printf '#include <stdio.h>\n__attribute__((constructor)) static void hello(void) { fprintf(stderr, "mine\\n"); }\n' > mine.c
build -shared mine.c -o mine.so
LD_PRELOAD=$TMPDIR/mine.so FAKE_LOG=$TMPDIR/mine.log "$TACHO" run --gemm-shapes --no-hook --no-peak -o mine.tacho -- ./linked > mine.out 2>&1
grep -q '^mine$' mine.out || bad preload "LD_PRELOAD of the user is gone"
[ "$(ask mine "SELECT count(*) > 40 FROM slice JOIN string ON string.id = category WHERE text = 'cublas'")" = 1 ] || bad preload "nothing recorded"
FAKE_LOG=$TMPDIR/bare.log LD_PRELOAD=$BUILD/libtacho_gemm.so ./linked > bare.out || bad bare "fails without tacho"
diff <(sort bare.out) <(sort plain.alone) > bare.diff || bad bare "results differ without tacho"

# NVIDIA's own declarations, and names that its libraries export, where they are
cuda=${CUDA_HOME:-/usr/local/cuda}
if [ -f "$cuda/include/cublas_v2.h" ]; then
    build -isystem "$cuda/include" -DWITH_CUBLAS "$sources/linked_gemm.c" -o real_headers "${link[@]}"
    pair headers fp32 ./real_headers
else
    echo "note: no cublas_v2.h here: the prototypes were not compared with NVIDIA's"
fi
nm -D --defined-only "$BUILD/libtacho_gemm.so" | awk '$2 == "T" { print $3 }' | sort > wrapped
[ "$(wc -l < wrapped)" = 35 ] || bad names "$(wc -l < wrapped) wrapped functions, not 35"
for library in "$cuda"/lib64/libcublas.so "$cuda"/lib/libcublas.so; do
    [ -f "$library" ] && [ -f "${library%.so}Lt.so" ] || continue
    { nm -D --defined-only "$library"; nm -D --defined-only "${library%.so}Lt.so"; } | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u > exported
    missing=$(comm -23 <({ cat wrapped; printf 'cublasGetMathMode\ncublasGetPointerMode_v2\ncublasLtMatmulDescGetAttribute\ncublasLtMatrixLayoutGetAttribute\n'; } | sort) exported)
    [ -z "$missing" ] || bad names "$library does not export $missing"
    break
done
exit $fail
