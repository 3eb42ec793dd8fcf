#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# What `make demo` does, with fewer steps: a run that its loader holds back, the report, the change tried in pairs, the comparison. Beside
# other programs the report may name these instead; then the demo says why it tries nothing. A second demo overwrites nothing.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$SRC"
demo=$PWD/.ci/demo
[ -d /usr/share/common-licenses ] || cp LICENSE "$work"
cd "$work"
export OMP_NUM_THREADS=1
fail() {
    echo "$1"
    exit 1
}

"$demo" "$BUILD" 8 > out 2> err || { cat out err; fail "the demo failed"; }
awk '/^step / {sub(/.*loss /, ""); if (!first) first = $1; last = $1}
     END {print "loss", first, "to", last; exit !(last > 0 && last < first)}' out || fail "the loss did not fall"
for words in '---- 1 ' '---- 2 ' 'Step time' 'data wait' '100\.0' '^next: .*run -- YOUR PROGRAM'; do
    grep -q -e "$words" out || { cat out; fail "the screen lacks: $words"; }
done
[ -f demo.tacho ] || fail "no recording: $(ls)"
if grep -q -e '---- 3 ' out; then
    for words in '^Predicted ' '^Measured .* 3 pairs' '^Prediction ' '---- 4 '; do
        grep -q -e "$words" out || { cat out err; fail "the screen lacks: $words"; }
    done
    [ -f demo-verify/after-1.tacho ] || fail "what was tried is not kept: $(ls)"
else
    grep -q 'nothing to verify' out || { cat out; fail "it does not say why nothing is tried"; }
fi
"$TACHO" report demo.tacho > again 2> err || { cat err; fail "report demo.tacho"; }
