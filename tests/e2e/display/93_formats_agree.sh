#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The same figure reads the same in the text, in Markdown, in HTML and in JSON: of a run of the engine, of a program that marks nothing and
# of traces of other tools.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
script=$here/formats_agree.py traces=${TACHO_TRACES:-$SRC/../shared/traces}
[ -d "$traces" ] && traces=$(cd "$traces" && pwd)
work_folder formats
export XDG_CACHE_HOME=$work/cache
"$TRAIN" gpt2-tiny --help > /dev/null 2>&1 || { echo "needs the program train"; exit 77; }
expect 0 "$TACHO" run -o true.tacho --no-peak -- true
data=/usr/share/common-licenses
[ -d "$data" ] || data=$SRC/LICENSE
OMP_NUM_THREADS=1 "$TACHO" run -o engine.tacho --no-peak --overhead 0 -- "$TRAIN" gpt2-tiny --steps 20 --layers 2 --channels 64 --heads 2 \
    --batch 2 --seq 64 --slow decode=0.01 --data "$data" > log 2>&1 || fail "engine: $(tail -3 log)"
runs=(true.tacho engine.tacho)
for t in hta_trace_diff_test_rank1 tracelens_mi300_resnet_act_checkpoint_rank0 kineto_tb_resnet50_num_workers_0_steps16-21_rank0; do
    if [ -f "$traces/$t.json.gz" ]; then runs+=("$traces/$t.json.gz"); else echo "note: no $t: not looked at"; fi
done
python3 "$script" "$TACHO" "${runs[@]}" > out 2>&1 || fail "$(cat out)"

# a format that says something else is found
spoil() { # FORMAT SED-COMMAND
    printf '#!/bin/bash\ncase "$*" in *%s*) "%s" "$@" | sed "%s" ;; *) exec "%s" "$@" ;; esac\n' "$1" "$TACHO" "$2" "$TACHO" > other
    chmod +x other
    python3 "$script" ./other engine.tacho > out 2>&1 && fail "$1: accepted: $(cat out)"
    grep -q 'not in' out || fail "$1: $(cat out)"
}
spoil --markdown 's/100\.0/99.9/'
spoil --html 's/>100\.0</>99.9</'
spoil --json 's/\"verdict\": \"/&no, /'
exit 0
