#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The library that is loaded into targets runs with glibc 2.28 when the portable build makes it. What the normal compiler made is
# only looked at: it is for machines like this one.
set -u
[ -z "${SAN:-}" ] || { echo "the portable build has no sanitizers"; exit 77; }
newest() { objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -n 1; }
echo "as built here: glibc $(newest "$LIBTACHO")"
timeout 1200 .ci/dist --agent "$BUILD" > "$TMPDIR/log" 2>&1
rc=$?
case $rc in
0) ;;
3 | 124)
    tail -n 3 "$TMPDIR/log"
    echo "the compiler of the portable build could not be had"
    exit 77
    ;;
*)
    cat "$TMPDIR/log"
    exit 1
    ;;
esac
library=$BUILD/dist/tree/libtacho.so
version=$(newest "$library")
[ "$(printf '%s\n2.28\n' "$version" | sort -V | tail -n 1)" = 2.28 ] || { echo "wants glibc $version"; exit 1; }
# it exports what the other one does, and records
exports() { nm -D --defined-only "$1" | awk '{ print $3 }' | sort; }
diff <(exports "$LIBTACHO") <(exports "$library") || { echo "other functions than the normal build's"; exit 1; }
cd "$TMPDIR" || exit 1
record() { # NAME LIBRARY
    TACHO_LIBRARY=$2 "$TACHO" run --no-hook --no-peak --overhead 0 -o "$1.tacho" -- "$BUILD/tests/targets/target_events" --threads 2 --fork 1 > out 2>&1 ||
        { cat out; exit 1; }
}
record x "$library"
record y "$LIBTACHO"
if command -v sqlite3 > /dev/null; then
    rows() { sqlite3 -readonly "$1" 'SELECT count(*) FROM slice'; }
    [ "$(rows x.tacho)" = "$(rows y.tacho)" ] && [ "$(rows x.tacho)" -gt 0 ] || { echo "$(rows x.tacho) slices, not $(rows y.tacho)"; exit 1; }
fi
echo "note: glibc $version"
