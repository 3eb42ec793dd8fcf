#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
# That the tests of the CUDA kernels see what they are for: with any one of the kernels' barriers taken out, one of them must fail.
# $BARRIERS: a pattern of FILE:LINE, only these.
set -u
[ -z "${SAN:-}" ] || { echo "the other build does this"; exit 77; }
cd "$TMPDIR" || exit 1
fail=0 barriers=0
flags=(-std=gnu++17 -O0 -g -U_FORTIFY_SOURCE -fPIC -fvisibility=hidden -w -I"$TMPDIR" -I"$SRC/tests/gpu/shim" -I"$SRC" -I"$SRC/include")
mkdir -p libtrain/cuda whole broken && cp "$SRC"/libtrain/cuda/* libtrain/cuda/ || exit 1
compile() { ${CXX:-g++} "${flags[@]}" -x c++ -c -o "$1/$(basename "$2" .cu).o" "$2"; }
# the library of the objects in a folder passes the tests of the operations
passes() {
    ${CXX:-g++} -shared -Wl,-rpath,"$BUILD/tests/cuda" -o libtrain_cuda.so "$1"/*.o -L"$BUILD/tests/cuda" -lcudart_shim -ldl || exit 1
    LT_CUDA_LIBRARY=$TMPDIR/libtrain_cuda.so timeout 200 "$BUILD/tests/unit/libtrain/test_lt_cuda" 'ops_*' > log 2>&1
}
for file in libtrain/cuda/*.cu; do compile whole "$file" || exit 1; done
passes whole || { echo "FAIL: without a change"; tail -5 log; exit 1; }
while IFS=: read -r file line _; do
    [[ $file:$line =~ ${BARRIERS:-.} ]] || continue
    cp "$file" kept
    cp whole/* broken/
    sed -i "${line}s/__syncthreads();//" "$file"
    # the barriers of the header are those of sums and maxima over a block: what uses them is compiled anew
    case $file in *.h) users=(libtrain/cuda/classifier.cu libtrain/cuda/optimizer.cu) ;; *) users=("$file") ;; esac
    for user in "${users[@]}"; do compile broken "$user" || exit 1; done
    barriers=$((barriers + 1))
    if passes broken; then
        echo "FAIL: $file:$line: nobody misses this barrier"
        fail=1
    fi
    cp kept "$file"
done < <(grep -n '__syncthreads();' libtrain/cuda/*.cu libtrain/cuda/*.h)
echo "$barriers barriers taken out, one at a time"
[ -n "${BARRIERS:-}" ] || [ "$barriers" -ge 9 ] || exit 1
exit $fail
