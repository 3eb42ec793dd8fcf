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

python3 "$script" bear "$TACHO" engine.tacho > out 2>&1 || fail "$(cat out)"
[ ! -s out ] || sort -u out

# the checks find what they are for
cp out.html spoilt.html && sed -i 's|<main id="main">|&<img src=x onerror=alert(1)>|' spoilt.html
python3 "$script" check html spoilt.html > out && fail "an element of a name is accepted"
{ cat out.text; printf 'x\x1b[31m'; } > spoilt.text
python3 "$script" check text spoilt.text > out && fail "an escape is accepted"
{ cat out.markdown; printf '\xe2\x80\xae'; } > spoilt.md
python3 "$script" check markdown spoilt.md > out && fail "a mark of direction is accepted"
exit 0
