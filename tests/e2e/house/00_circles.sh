#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# No circle of files or folders among the objects of this build; and the lint that looks for them fails on each
# kind of circle, on a folder that is too large, and without a build.
set -u
lint=tests/lint/circles.py
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
if ! python3 $lint "$BUILD" "$SRC"; then
    echo "the linker sees a circle (above): move what the piece calls into a file below it (CONTRIBUTING.md)"
    exit 1
fi

tree=$TMPDIR/tree
mkdir -p "$tree/low" "$tree/high" "$tree/build/obj/low" "$tree/build/obj/high"
object() { # FILE TEXT: a source of the tree and its object
    printf '%s\n' "$2" > "$tree/$1.c"
    ${CC:-gcc} -c -o "$tree/build/obj/$1.o" "$tree/$1.c" || exit 1
}
expect() { # STATUS PATTERN
    out=$(python3 $lint "$tree/build" "$tree" 2>&1)
    rc=$?
    if [ $rc != "$1" ] || ! grep -q "$2" <<< "$out"; then
        printf 'expected status %s and "%s", got %s:\n%s\n' "$1" "$2" $rc "$out"
        exit 1
    fi
}
expect 2 "no objects"
object low/kit 'int kit(void) { return 1; }'
object low/piece 'int kit(void); int piece(void) { return kit(); }'
object high/table 'int piece(void); int table(void) { return piece(); }'
expect 0 "3 objects, 0 circles of files, 0 of folders, 0 of includes"
for way in "low high" "high low"; do echo "#include \"${way#* }/face.h\"" > "$tree/${way% *}/face.h"; done
expect 1 "by includes: high low"
rm "$tree"/*/face.h
object low/kit 'int piece(void); int kit(void) { return piece(); }'
expect 1 "circle of files: low/kit.c low/piece.c"
object low/kit 'int other(void); int kit(void) { return other(); }'
object high/other 'int other(void) { return 1; }'
expect 1 "1 of folders,"
object low/kit 'int kit(void) { return 1; }'
for i in $(seq 41); do : > "$tree/low/more$i.h"; done
expect 1 "low: 43 source files"
