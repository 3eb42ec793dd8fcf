#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# What `make cuda` needs and makes, where there is a CUDA toolkit: the declarations of cuBLASLt and NCCL are those of their headers; no kernel spills,
# and registers are those of the snapshot; so is the machine code, where `make cuda-sass` has made it readable (BLESS=1 writes both anew).
set -u
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
header=${CUDA_HOME:-/usr/local/cuda}/include
if [ -f "$header/cublasLt.h" ]; then
    ${CXX:-g++} -std=c++17 -fsyntax-only -w -I"$SRC" -isystem "$header" "$SRC/tests/gpu/blas_declared.cpp" || exit 1
    echo "blas.h agrees with $header/cublasLt.h"
fi
if [ -f "$header/nccl.h" ]; then
    ${CXX:-g++} -std=c++17 -fsyntax-only -w -I"$SRC" -isystem "$header" "$SRC/tests/gpu/nccl_declared.cpp" || exit 1
    echo "nccl.h agrees with $header/nccl.h"
fi
if ls "$BUILD"/cuda/*.sass > /dev/null 2>&1; then
    python3 "$SRC/tests/gpu/sass.py" "$BUILD/cuda" "$SRC/tests/gpu/sass.tsv" ${BLESS:+--bless} || exit 1
fi
exec python3 "$SRC/tests/gpu/registers.py" "$BUILD/cuda" "$SRC/tests/gpu/registers.tsv" ${BLESS:+--bless}
