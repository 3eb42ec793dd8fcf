#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# How the tree reads: no words that the field does not use, in documents, messages and reports; names, comments and lengths of the
# sources within their limits. And the check of words fails where such a word is planted.
set -u
command -v python3 > /dev/null || { echo "needs the program python3"; exit 77; }
python3 tests/lint/words.py || exit 1
mkdir -p "$TMPDIR/tree/room"
plant() { # FILE TEXT
    printf '%s\n' "$2" > "$TMPDIR/tree/$1"
    if python3 tests/lint/words.py "$TMPDIR/tree" > "$TMPDIR/out"; then
        echo "not found in $1: $2"
        exit 1
    fi
    rm "$TMPDIR/tree/$1"
}
plant page.md 'These steps are left out.'
plant room/message.c 'const char *text = "is no " "edit";'
printf '/* left out */ int left_out;\n' > "$TMPDIR/tree/room/quiet.c"
python3 tests/lint/words.py "$TMPDIR/tree" > /dev/null || { echo "a comment or a name counts as a message"; exit 1; }
python3 tests/lint/reading.py
status=$?
[ $status = 77 ] && echo "note: how the sources read was not measured (no ctags)" && exit 0
exit $status
