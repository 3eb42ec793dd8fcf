#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The data of the zoomable timeline in an HTML report are the run's own: every range of the file is in the page, with its name, start and
# duration; tiles and curves are there; the Markdown report is the first screen, and with --full everything.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work_folder timeline
export XDG_CACHE_HOME=$work/cache
"$TRAIN" gpt2-tiny --help > /dev/null 2>&1 || { echo "needs the program train"; exit 77; }
data=/usr/share/common-licenses
[ -d "$data" ] || data=$SRC/LICENSE
OMP_NUM_THREADS=1 "$TACHO" run -o run.tacho --no-peak --overhead 0 -- "$TRAIN" gpt2-tiny --steps 20 --layers 2 --channels 64 --heads 2 \
    --batch 2 --seq 64 --workers 1 --slow decode=0.02 --data "$data" > log 2>&1 || fail "engine: $(tail -3 log)"
expect 0 "$TACHO" report run.tacho --html -o run.html
[ "$(stat -c %s run.html)" -le 2000000 ] || fail "the page has $(stat -c %s run.html) bytes"
python3 "$here/timeline_exact.py" run.html run.tacho > out || fail "$(cat out)"
sed 's/"n":\([0-9]*\)\([0-9]\),/"n":\11,/' run.html > spoilt.html
python3 "$here/timeline_exact.py" spoilt.html run.tacho > out 2>&1 && fail "other data are accepted: $(cat out)"
for what in '<dl class="tiles">' 'data-kind="curve"' 'Loss over the run' 'id="over-time"'; do
    grep -q "$what" run.html || fail "not in the page: $what"
done
"$TACHO" report run.tacho --markdown > first.md || fail "--markdown"
"$TACHO" report run.tacho --markdown --full > full.md || fail "--markdown --full"
[ "$(wc -l < first.md)" -le 60 ] && ! grep -q 'Critical path' first.md || fail "--markdown is more than the first screen: $(cat first.md)"
head -c "$(stat -c %s first.md)" full.md | cmp -s - first.md || fail "--full does not begin with the first screen"
grep -q 'Critical path' full.md || fail "--full lacks sections"
exit 0
