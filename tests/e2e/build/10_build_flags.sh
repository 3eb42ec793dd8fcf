#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# The build: out of tree with an absolute O=, nothing rebuilt when nothing changed, rebuilt when a flag, a header or the compiler
# changed, clang as well as gcc. Counts the files of a small product; long_build_flags.sh counts those of libtacho.so.
set -eu
tree=$(git ls-files 2> /dev/null | head -n 3; find . -maxdepth 1 | sort)
o=$(mktemp -d)
product=${PRODUCT:-libtacho_gemm.so}
[ ! -d "$BUILD/nvtx" ] || cp -R "$BUILD/nvtx" "$o/nvtx" # a machine without CUDA toolkit, maybe without network by now
sanitized=${SAN:-}
unset SAN

build() { # no C++ is in it, and the probe of simdjson takes long
    make O="$o" CXX=true "$@" "$o/$product" > "$o/log" 2>&1 || {
        cat "$o/log"
        exit 1
    }
}
compiled() { grep -c '^  CC' "$o/log" || true; }
expect() { # COUNT WHEN
    [ "$(compiled)" = "$1" ] || {
        echo "$(compiled) files compiled instead of $1 $2"
        cat "$o/log"
        exit 1
    }
}

build CC=gcc
all=$(compiled)
[ "$all" -gt 0 ] || { echo "nothing was compiled"; exit 1; }
build CC=gcc
expect 0 "when nothing changed"
build CC=gcc DEBUG=1
expect "$all" "after DEBUG=1"
build CC=gcc DEBUG=1 CFLAGS=-DSOMETHING
expect "$all" "after CFLAGS"
header=profiler/gemm/gemm.h
[ "$product" != libtacho.so ] || header=profiler/wire.h
build CC=gcc DEBUG=1 CFLAGS=-DSOMETHING -W "$header"
[ "$(compiled)" -gt 0 ] || { echo "nothing compiled after $header changed"; exit 1; }
if command -v clang > /dev/null; then
    quick=DEBUG=1
    [ "$product" != libtacho.so ] || quick=
    build CC=clang ${quick:+"$quick"}
    expect "$all" "with another compiler"
    note=" and clang"
    product=libtacho.so
    build CC=clang ${quick:+"$quick"}
fi
# the injectable library needs libc only, and cannot be unloaded: the one of this build (a sanitizer's needs more), and clang's
for so in "$LIBTACHO" "$o/libtacho.so"; do
    [ -e "$so" ] || continue
    [ -z "$sanitized" ] || [ "$so" != "$LIBTACHO" ] || continue
    needed=$(readelf -d "$so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v -E '^(libc|ld-linux.*|libpthread|libdl)\.so' || true)
    [ -z "$needed" ] || { echo "$so needs $needed"; exit 1; }
    readelf -d "$so" | grep -q NODELETE || { echo "$so can be unloaded"; exit 1; }
done

[ "$tree" = "$(git ls-files 2> /dev/null | head -n 3; find . -maxdepth 1 | sort)" ] || { echo "the build wrote into the tree"; exit 1; }
echo "note: $all files, gcc${note:-}"
