#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# What `make demo` does, with fewer steps: the loss falls, the file lies here, the report and the next commands are printed.
set -eu
work=$(mktemp -d)
cd "$SRC"
demo=$PWD/.ci/demo
[ -d /usr/share/common-licenses ] || cp LICENSE "$work"
cd "$work"
fail() {
    echo "$1"
    exit 1
}

"$demo" "$BUILD" 60 > out 2> err || { cat out err; fail "the demo failed"; }
awk '/^step / {sub(/.*loss /, ""); if (!first) first = $1; last = $1}
     END {print "loss", first, "to", last; exit !(last > 0 && last < first - 1)}' out || fail "the loss did not fall by 1"
[ "$(find . -maxdepth 1 -name '*.tacho' | wc -l)" = 1 ] || fail "not one .tacho file: $(ls)"
for words in 'Step time' 'backward' '100\.0' '^next: .*report latest'; do
    grep -q "$words" out || { cat out; fail "the screen lacks: $words"; }
done
"$TACHO" report latest > again 2> err || { cat err; fail "report latest"; }
