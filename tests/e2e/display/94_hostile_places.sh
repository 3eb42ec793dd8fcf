#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# Hostile texts in every place of a run that holds text (host, command, programs, threads, counters, ranges, devices, reasons, keys), in
# traces of other tools and in the name of the file: the text, the Markdown and the page bear them.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
script=$here/../hostile/hostile_places.py
work_folder hostile
export XDG_CACHE_HOME=$work/cache
"$TRAIN" gpt2-tiny --help > /dev/null 2>&1 || { echo "needs the program train"; exit 77; }
data=/usr/share/common-licenses
[ -d "$data" ] || data=$SRC/LICENSE
OMP_NUM_THREADS=1 "$TACHO" run -o engine.tacho --no-peak --overhead 0 --stacks -- "$TRAIN" gpt2-tiny --steps 20 --layers 2 --channels 64 \
    --heads 2 --batch 2 --seq 64 --workers 2 --slow decode=0.2 --data "$data" > log 2>&1 || fail "engine: $(tail -3 log)"

# reports FILE WHAT: all formats, looked at
reports() {
    local f
    "$TACHO" report "$1" > out.text 2> err || fail "$2: text: $(cat err)"
    "$TACHO" report "$1" --markdown --full > out.markdown 2> err || fail "$2: markdown: $(cat err)"
    "$TACHO" report "$1" --html > out.html 2> err || fail "$2: html: $(cat err)"
    "$TACHO" report "$1" --json > out.json 2> err || fail "$2: json: $(cat err)"
    python3 -m json.tool out.json > /dev/null || fail "$2: not JSON"
    for f in text markdown html; do python3 "$script" check $f out.$f > out || fail "$2: $(cat out)"; done
}

n=$(python3 "$script" count)
for ((i = 0; i < n; i++)); do
    cp engine.tacho spoilt.tacho
    python3 "$script" spoil spoilt.tacho "$i" || fail "text $i: not put in"
    reports spoilt.tacho "text $i"
    [ "$i" != 0 ] || { grep -q 'onerror' out.html && grep -q 'onerror' out.markdown && grep -q 'onerror' out.text; } || fail "nothing was tried"
    [ "$i" != 0 ] || grep -q 'id="finding-' out.html || fail "no finding is on the page: nothing was tried"
    python3 "$script" kineto "$i" > trace.json
    reports trace.json "text $i in a trace"
    grep -q 'largest: ,' out.text && fail "text $i in a trace: a kernel without a name"
done
[ ! -s out ] || cat out

# the name of the file
for name in $'\x1b[31m red\n.tacho' '<img src=x onerror=alert(1)>.tacho' 'a|b`c```d`.tacho' $'\xe2\x80\xaeevil.tacho' '[x](javascript:alert(1)).tacho' \
    $'bad\xff\xc3.tacho' '" onmouseover="alert(1)".tacho' '%s%n.tacho' "$(printf 'n%.0s' {1..240}).tacho"; do
    cp engine.tacho "./$name"
    reports "./$name" "$name"
done

# the checks find what they are for
cp out.html spoilt.html && sed -i 's|<main id="main">|&<img src=x onerror=alert(1)>|' spoilt.html
python3 "$script" check html spoilt.html > out && fail "an element of a name is accepted"
{ cat out.text; printf 'x\x1b[31m'; } > spoilt.text
python3 "$script" check text spoilt.text > out && fail "an escape is accepted"
{ cat out.markdown; printf '\xe2\x80\xae'; } > spoilt.md
python3 "$script" check markdown spoilt.md > out && fail "a mark of direction is accepted"
exit 0
