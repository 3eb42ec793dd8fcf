#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What no file of the tree may hold: notes to oneself, unfinished merges, paths of somebody's home, blanks at line ends; and what
# each source must: its licence line. usage: tests/lint/marks.sh [ROOT]
set -u
cd "${1:-"$(dirname "$0")/../.."}" || exit 2
sources=$(find .ci analyzers cli docs include libtrain planner profiler reports store tests tui workloads Makefile -type f \
    \( -name '*.[ch]' -o -name '*.sh' -o -name '*.sql' -o -name Makefile -o -path '.ci/*' -o -path tests/run \) \
    ! -path tests/lint/marks.sh)
texts=$(find . -maxdepth 1 -name '*.md'; find docs tui tests -name '*.md')
bad=0
none() { # WHAT PATTERN FILES
    # shellcheck disable=SC2086  # one word a file
    if grep -nIE "$2" /dev/null $3; then
        echo "marks: $1 (above)"
        bad=1
    fi
}
none "note to oneself" '\b(TODO|FIXME|XXX|HACK)\b' "$sources $texts"
none "unfinished merge" '^(<<<<<<<|>>>>>>>) ' "$sources $texts"
none "path of a home folder" '/(home|Users)/[a-z]|(^|[[:space:]"=:(])/root/' "$sources $texts"
none "blank at the end of a line" '[[:blank:]]$' "$sources $texts"
for f in $sources; do
    if ! head -n 3 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0'; then
        echo "marks: $f: no SPDX-License-Identifier line at the top"
        bad=1
    fi
done
[ $bad = 1 ] || echo "marks: none left"
exit $bad
