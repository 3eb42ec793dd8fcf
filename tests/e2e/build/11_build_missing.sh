#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# wide: yes
# What is missing: something required stops the build with what to do; something optional costs one line.
# shellcheck disable=SC2016  # dollars for another program
set -eu
o=$(mktemp -d)
[ ! -d "$BUILD/nvtx" ] || cp -R "$BUILD/nvtx" "$o/nvtx"

# no compiler
rc=0
CC="$o/no-such-cc" .ci/probe "$o" > "$o/mk" 2> "$o/err" || rc=$?
[ $rc = 3 ] && grep -q 'no working C compiler' "$o/err" && grep -q '^hint: ' "$o/err" || { cat "$o/err"; exit 1; }

# a compiler that does not see some libraries: the real one behind a filter
without() { # LIBRARY...
    printf '#!/bin/sh\nfor word; do case $word in' > "$o/cc"
    printf ' %s) exit 1 ;;' "$@" >> "$o/cc"
    printf ' esac; done\nexec %s "$@"\n' "${CC:-gcc}" >> "$o/cc"
    chmod +x "$o/cc"
    rc=0
    CC="$o/cc" .ci/probe "$o" > "$o/mk" 2> "$o/err" || rc=$?
}
real_cxx=${CXX:-g++}
export CXX=true # simdjson takes the compiler a second each time, and is there; the case without it follows
for library in sqlite3 jansson cmocka openblas zlib; do
    case $library in
    zlib) without -lz ;;
    openblas) without -lopenblas -ldnnl ;; # either of the two will do for matrix products
    *) without "-l$library" ;;
    esac
    [ $rc = 3 ] || { echo "without $library: exit status $rc"; exit 1; }
    grep -q "tacho: $library: .*not found" "$o/err" && grep -q 'hint: .*make deps' "$o/err" || { cat "$o/err"; exit 1; }
done
# one file is C++: no compiler for it, or no simdjson
rc=0
CXX="$o/no-such-cxx" .ci/probe "$o" > "$o/mk" 2> "$o/err" || rc=$?
[ $rc = 3 ] && grep -q 'tacho: simdjson .*not found' "$o/err" && grep -q 'hint: .*make deps' "$o/err" || { cat "$o/err"; exit 1; }

# package names exist for the systems we name
.ci/deps --list | grep -q '^required: .' || { echo "no package names for this system"; exit 77; }

# without any optional part everything still builds and runs; without oneDNN too, where the machine has a CBLAS to fall back on
without -lpfm -ldnnl -fopenmp -lncursesw -ldw -lmpi -lmicrohttpd
if [ $rc != 0 ]; then
    echo "no CBLAS on this machine: built with oneDNN"
    without -lpfm -fopenmp -lncursesw -ldw -lmpi -lmicrohttpd
fi
[ $rc = 0 ] || { cat "$o/err"; exit 1; }
[ "$(grep -c 'no libpfm' "$o/err")" = 1 ] && ! grep -q HAVE_PFM "$o/mk" || { cat "$o/err"; exit 1; }
[ "$(grep -c 'no OpenMP' "$o/err")" = 1 ] || { cat "$o/err"; exit 1; }
sanitized=${SAN:-}
unset SAN
[ -z "${OPTIMISED:-}$sanitized" ] || export CXX=$real_cxx # else the one C++ file, which no optional part concerns, is that of the build
# without optimisation, which is much quicker; long_build_missing.sh builds as a user does
# shellcheck disable=SC2206  # a list of words
build=(make O="$o" CC="$o/cc" CXX="$CXX" ${OPTIMISED:-DEBUG=1 CFLAGS=-g0 CXXFLAGS=-g0})
if [ -z "${OPTIMISED:-}$sanitized" ]; then
    # What no optional part concerns would be compiled to the same objects again: they are those of the build. Compiled is each
    # file that is made from one in which a word of an optional part stands.
    "${build[@]}" "$o/flags" "$o/config.mk" "$o/gen/schema.inc" > "$o/log" 2>&1 || { cat "$o/log"; exit 1; }
    grep -rlE 'HAVE_[A-Z]|_OPENMP|omp\.h|[Pp]ragma.*omp' --include='*.[ch]' --include='*.cpp' \
        libtrain workloads cli reports analyzers tui profiler store include > "$o/concerned"
    grep -q '^libtrain/ops/' "$o/concerned" && grep -q '^profiler/' "$o/concerned" || { echo "no file names an optional part"; exit 1; }
    mkdir -p "$o/obj"
    (cd "$BUILD/obj" && find . -name '*.d' ! -path './tests/*' -exec grep -LFf "$o/concerned" {} + | sed 's/d$/o/' | xargs cp --parents -t "$o/obj")
fi
"${build[@]}" all > "$o/log" 2>&1 || {
    tail -n 30 "$o/log"
    exit 1
}
compiled=$(grep -c '^  CC' "$o/log")
[ "$compiled" -ge 30 ] || { echo "only $compiled files compiled"; exit 1; }
"$o/train" gpt2-tiny --layers 1 --batch 1 --seq 16 --steps 3 > "$o/log" 2>&1 || { cat "$o/log"; exit 1; }
(cd "$o" && ./tacho run -o plain -- true) > "$o/log" 2>&1 || { cat "$o/log"; exit 1; }
echo "note: $compiled files compiled"
