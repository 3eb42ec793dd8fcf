#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# timeout: 900
# clang accepts every C source under the build's own warnings, which are errors: it knows some that gcc does not. Nothing is compiled.
set -u
command -v clang > /dev/null || { echo "needs clang (.ci/deps --dev installs it)"; exit 77; }
[ -z "${SAN:-}" ] || { echo "the other build does this"; exit 77; }
o=$TMPDIR/o
mkdir "$o" && ln -s "$BUILD/gen" "$o/gen" || exit 1
[ ! -d "$BUILD/nvtx" ] || cp -R "$BUILD/nvtx" "$o/nvtx" # a machine without CUDA toolkit, maybe without network by now
make -n O="$o" CC=clang CXX=true all unit-programs 2> "$TMPDIR/err" | grep -E '^ *clang .* -c -o [^ ]+ [^ ]+\.c$' | sed -E 's/-MMD -MP -c -o [^ ]+/-fsyntax-only/' | sort -u > "$TMPDIR/commands"
count=$(wc -l < "$TMPDIR/commands")
[ "$count" -ge 800 ] || { echo "only $count sources would be compiled: $(tail -n 3 "$TMPDIR/err")"; exit 1; }
xargs -P "$(nproc)" -d '\n' -n 1 sh -c < "$TMPDIR/commands" > "$TMPDIR/said" 2>&1 || { head -n 40 "$TMPDIR/said"; exit 1; }
echo "$count sources"
