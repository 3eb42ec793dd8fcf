#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# The HTML report in a browser without a window, at the width of a telephone, of a laptop and in print, light and dark: no error, nothing
# that the page's policy refused, no request, nothing wider than the screen; headings, tables and pictures named; every text readable.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
browser=
for b in chromium chromium-browser google-chrome; do
    command -v $b > /dev/null && { browser=$b; break; }
done
[ -n "$browser" ] || { echo "needs the program chromium"; exit 77; }
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
script=$here/html_browser.py traces=${TACHO_TRACES:-$SRC/../shared/traces}
[ -d "$traces" ] && traces=$(cd "$traces" && pwd)
work_folder browser
export XDG_CACHE_HOME=$work/cache
"$TRAIN" gpt2-tiny --help > /dev/null 2>&1 || { echo "needs the program train"; exit 77; }

page() { expect 0 "$TACHO" report "$1" --html -o "$2.html"; }
data=/usr/share/common-licenses
[ -d "$data" ] || data=$SRC/LICENSE
OMP_NUM_THREADS=1 "$TACHO" run -o engine.tacho --no-peak --overhead 0 -- "$TRAIN" gpt2-tiny --steps 20 --layers 2 --channels 64 --heads 2 \
    --batch 2 --seq 64 --workers 2 --data "$data" > log 2>&1 || fail "engine: $(tail -3 log)"
page engine.tacho engine
grep -q 'data-kind="path"' engine.html || fail "no picture of the critical path"
# names that a hostile program would choose, for kernels and threads: what a trace says is what the page must bear
python3 - > hostile.json << 'END'
import json
evil = ["</script><img src=x onerror=alert(1)>", "</title></svg><script>alert(1)</script>", "\" onmouseover=\"alert(1)", "a|b|c `d` **e**",
        "\x1b[31mred\x1b[0m", "n" * 10000, "{{7*7}}${7*7}", "\u202eright to left", "<style>*{display:none}</style>"]
e = [{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": evil[0]}}]
for step in range(6):
    t = step * 1000
    e.append({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d" % step, "pid": 1, "tid": 1, "ts": t, "dur": 1000})
    for k, name in enumerate(evil):
        at, c = t + 100 * k, 1 + 10 * step + k
        e.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": 90})
        for inner in (20, 43, 66):  # boxes that are too narrow for their names, where a step fills the screen
            e.append({"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": at + inner, "dur": 20})
        e.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 10, "dur": 10,
                  "args": {"correlation": c}})
        e.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at + 30, "dur": 95,
                  "args": {"device": 0, "stream": 7, "correlation": c}})
        e.append({"ph": "s", "cat": "ac2g", "id": c, "pid": 1, "tid": 1, "ts": at + 10})
        e.append({"ph": "f", "cat": "ac2g", "id": c, "pid": 0, "tid": 7, "ts": at + 30, "bp": "e"})
print(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "<b>GPU</b>"}], "traceEvents": e}))
END
page hostile.json hostile
grep -q 'onerror' hostile.html || fail "the hostile names are not in the page: nothing was tried"
cp engine.tacho places.tacho
python3 "$here/../hostile/hostile_places.py" spoil places.tacho 1
page places.tacho places
grep -q 'alert(1)' places.html || fail "the hostile texts are not in the page: nothing was tried"
pages=(engine.html hostile.html places.html)
if [ -f "$traces/kineto_tb_resnet50_num_workers_4_steps16-21_rank0.json.gz" ]; then
    page "$traces/kineto_tb_resnet50_num_workers_4_steps16-21_rank0.json.gz" resnet50
    pages+=(resnet50.html)
else
    echo "note: no shared traces: none is looked at"
fi
python3 "$script" $browser "" "${pages[@]}" || fail "see above"

# the checks find what they are for: a page that is spoilt is refused
spoil() { # WHAT PATTERN SED-COMMAND [PAGE]
    sed "$3" "${4:-engine.html}" > spoilt.html
    cmp -s "${4:-engine.html}" spoilt.html && fail "$1: the page was not spoilt"
    python3 "$script" --first $browser "" spoilt.html > out 2>&1 && fail "$1: accepted"
    grep -q "$2" out || fail "$1: $(cat out)"
}
spoil "a style that makes text pale, and that the policy refuses" "Content Security Policy\|log:" 's|--soft: #4a4f58|--soft: #aaaaaa|'
spoil "a picture from elsewhere" "log:" 's|<main id="main">|&<svg role="img" aria-labelledby="main"></svg><img src="other.png">|'
spoil "a wide block, a heading that is left out" "heading of level\|wider than" 's|<section id="run">|&<h4>deep</h4>|'
spoil "two regions of one name" "two places" 's|<section id="budget">|<section id="budget" aria-label="Where a step goes">|'
spoil "a word that is wider than its box" "leaves its box" "0,/<text class=\"on\" [^>]*>/s//&$(printf 'wide%.0s' {1..60})/"
spoil "an entry that leads to no card" "link to nothing" '0,/id="finding-[A-Z_]*"/s///' hostile.html
exit 0
