# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts about GPUs: sourced, not run. Leaves the caller in $TMPDIR; it ends with `exit $fail`.
# shellcheck shell=bash disable=SC2034
command -v sqlite3 > /dev/null || { echo "sqlite3 is not here"; exit 77; }
bin=$BUILD/tests/targets fake=$BUILD/tests/fake
fail=0
cd "$TMPDIR" || exit 1
bad() {
    echo "$1: $2"
    fail=1
}
expect() { # NAME WHAT ACTUAL WANTED
    [ "$3" = "$4" ] || bad "$1" "$2 is $3, not $4"
}
ask() { sqlite3 -readonly "$1.tacho" "$2"; }
