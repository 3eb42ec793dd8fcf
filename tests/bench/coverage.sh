#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Which lines of libtacho.so the tests run: the library built for gcov beside a build that is complete, the scripts that load it run with
# it, lines of each file and of all. Processes that are killed or leave by _exit count nothing, so the true share is a little higher.
# Exit status 1 below 85 %. Not 32_agent_library: it lists what the library exports, which is more here.
# usage: tests/bench/coverage.sh BUILD [REGEX]      REGEX: of the scripts
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:?BUILD}
scripts=${2:-'test_agent|e2e/(29|30|31|33|34|35|36|37|38|50|51|52|53|55|57)_'}
work=$(mktemp -d "${TMPDIR:-/tmp}/tacho-coverage-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # a test runs as another user too
cp "$build/config.mk" "$work/" 2> /dev/null
make -s O="$work" CFLAGS="--coverage -fprofile-update=atomic" LDFLAGS=--coverage "$work/libtacho.so" > "$work/log" 2>&1 || { tail "$work/log"; exit 1; }
find "$work" -name '*.gcda' -delete
cp -a "$build" "$work/with" || exit 1
cp "$work/libtacho.so" "$work/with/libtacho.so" || exit 1
tests/run "$work/with" "$scripts" | grep -v '^pass'
for f in profiler/agent/*.c; do
    gcov -n -o "$work/obj/profiler/agent" "$f" 2> /dev/null | grep -A 1 "^File '$f'" | sed -n 's/^Lines executed:\([0-9.]*\)% of \([0-9]*\)$/\1 \2/p' | sed "s|^|$f |"
done | awk '{ printf "%-36s %6.2f %% of %d lines\n", $1, $2, $3; ran += $2 * $3 / 100; all += $3 }
    END { printf "%-36s %6.2f %% of %d lines\n", "all", all ? 100 * ran / all : 0, all; exit !all || ran < 0.85 * all }'
