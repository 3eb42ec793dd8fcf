#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The build: out of tree with an absolute O=, nothing rebuilt when nothing changed, rebuilt when a flag, a header or the compiler
# changed, clang as well as gcc. Uses the smallest product (libtacho.so).
set -eu
tree=$(git ls-files 2> /dev/null | head -n 3; find . -maxdepth 1 | sort)
o=$(mktemp -d)
so=$o/libtacho.so
[ ! -d "$BUILD/nvtx" ] || cp -R "$BUILD/nvtx" "$o/nvtx" # a machine without CUDA toolkit, maybe without network by now
unset SAN

build() {
    make O="$o" "$@" "$so" > "$o/log" 2>&1 || {
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
build CC=gcc DEBUG=1 CFLAGS=-DSOMETHING -W profiler/wire.h
[ "$(compiled)" -gt 0 ] || { echo "nothing compiled after wire.h changed"; exit 1; }
if command -v clang > /dev/null; then
    build CC=clang
    expect "$all" "with another compiler"
    note=" and clang"
fi
# the injectable library needs libc only, and cannot be unloaded
needed=$(readelf -d "$so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v -E '^(libc|ld-linux.*|libpthread|libdl)\.so' || true)
[ -z "$needed" ] || { echo "libtacho.so needs $needed"; exit 1; }
readelf -d "$so" | grep -q NODELETE || { echo "libtacho.so can be unloaded"; exit 1; }

[ "$tree" = "$(git ls-files 2> /dev/null | head -n 3; find . -maxdepth 1 | sort)" ] || { echo "the build wrote into the tree"; exit 1; }
echo "note: $all files, gcc${note:-}"
