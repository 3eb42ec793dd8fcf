#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# The timeline of an HTML report keeps up with the screen: 100,000 events, zoomed and moved by a script in a browser that draws on the
# processor. 95 of 100 frames take at most 12 ms of the script, and at most every tenth frame of the screen is dropped.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
browser=
for b in chromium chromium-browser google-chrome; do
    command -v $b > /dev/null && { browser=$b; break; }
done
[ -n "$browser" ] || { echo "needs the program chromium"; exit 77; }
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work_folder frames
export XDG_CACHE_HOME=$work/cache
python3 "$here/html_frames.py" trace 185000 > trace.json
expect 0 "$TACHO" report trace.json --html -o page.html
[ "$(stat -c %s page.html)" -le 2000000 ] || fail "the page has $(stat -c %s page.html) bytes"
for try in 1 2 3; do
    python3 "$here/html_frames.py" measure "$browser" page.html && exit 0
    echo "note: try $try was too slow"
done
fail "the timeline drops frames"
