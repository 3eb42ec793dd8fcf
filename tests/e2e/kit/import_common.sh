# SPDX-License-Identifier: Apache-2.0
# Shared by the import scripts: sourced, not run. The script stands in an empty folder, with a cache of its own.
# shellcheck shell=bash disable=SC2034 # here: the scripts use it
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
work_folder
export XDG_CACHE_HOME=$PWD/cache
# make_files SCRIPT: files whose answers are known, in the folder made
make_files() {
    python3 "$here/$1" make made || fail "the files were not made"
}
# raw_rows_of RUN SQL, rows_of RUN SQL: with the quotes of CSV, and without
raw_rows_of() { "$TACHO" sql "$1" "$2" --csv | tail -n +2 | tr -d '\r'; }
rows_of() { raw_rows_of "$1" "$2" | tr -d '"'; }
import() { # FILE RUN
    "$TACHO" import "made/$1" -o "$2" 2> err || fail "$1: $(cat err)"
}
is() { # WHAT FOUND WANTED
    [ "$2" = "$3" ] || fail "$1: not '$3' but '$2'"
}
refused() { # STATUS INPUT WORDS [HINT]
    "$TACHO" report "made/$2" > out 2> err
    [ $? = "$1" ] || fail "$2: not exit status $1: $(cat out err)"
    { grep -q "^hint: .*${4-}" err && grep -q -- "$3" err; } || fail "$2: $(cat err)"
}
