# SPDX-License-Identifier: Apache-2.0
# Shared by the cli scripts: sourced, not run. After work_folder NAME the script stands in an empty folder, removed at its end.
# shellcheck shell=bash disable=SC2034
here=$(cd "$(dirname "$0")" && pwd) # the folder of the script
SRC=${SRC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)}
BUILD=${BUILD:-$(cd "${1:-build}" && pwd)}
TACHO=${TACHO:-$BUILD/tacho}
TRAIN=${TRAIN:-$BUILD/train}
export BUILD TACHO TRAIN
command -v sqlite3 > /dev/null || { echo "needs the program sqlite3"; exit 77; }

fail() {
    echo "FAIL: $*"
    exit 1
}
work_folder() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/tacho-$1-XXXXXX") || exit 1
    trap 'cd /; chmod -R u+w "$work"; rm -rf "$work"' EXIT
    mkdir "$work/here" && cd "$work/here" || exit 1
}
# expect CODE COMMAND...: runs it, checks its exit code; output is in $work/out and $work/err
expect() {
    local want=$1 rc
    shift
    "$@" > "$work/out" 2> "$work/err" < /dev/null
    rc=$?
    [ $rc = "$want" ] || fail "exit code $rc instead of $want: $* ($(head -c 400 "$work/err"))"
}
# as_schema NAME FILE...: are these JSON documents as docs/schemas/NAME.json says?
as_schema() { python3 "$SRC/tests/e2e/cli/schemas.py" "$SRC/docs/schemas" "$@" || fail "not as docs/schemas/$1.json says"; }
