#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# 'tacho mcp': thirty questions about a training run, 64 ranks and real traces, each answered in at most three calls of at most 4 kB, the
# truth read from the files by other means; the protocol, wrong calls, malformed and hostile input. A client in Python asks.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work_folder mcp
export XDG_CACHE_HOME=$PWD/cache OMP_NUM_THREADS=1
train() { # FILE OPTIONS...
    local file=$1
    shift
    "$TACHO" run --no-peak -o "$file" -- "$TRAIN" gpt2-tiny --layers 4 --channels 64 --batch 2 --seq 64 --steps 12 --data "$SRC/LICENSE" \
        --slow decode=0.02 "$@" > log 2>&1 || fail "$file: $(tail -n 3 log)"
}
train slow.tacho --workers 0
train fast.tacho --workers 2
python3 "$SRC/tests/e2e/ranks/many_ranks.py" ranks --ranks 64 --slow 41 --missing 7 --format tacho --kernels 4 || fail "many_ranks.py"
"$TACHO" merge -o ranks.tacho ranks > log 2>&1 || fail "merge: $(cat log)"
head -c 5000 slow.tacho > broken.tacho
python3 "$SRC/tests/e2e/cli/mcp_questions.py" "$TACHO" "${TACHO_TRACES:-$SRC/../shared/traces}" || exit 1

# the streams: an answer for each request, nothing else on stdout; the end of input ends it
printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}' \
    '{"jsonrpc":"2.0","method":"notifications/initialized"}' '' 'not json' '[]' '{"jsonrpc":"2.0","id":2,"method":"ping"}' |
    timeout 60 "$TACHO" mcp > out 2> err || fail "exit code $? at the end of input"
[ "$(wc -l < out)" = 4 ] || fail "answers: $(cat out)"
[ ! -s err ] || fail "stderr: $(cat err)"
expect 2 "$TACHO" mcp word
