#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
# A real history: sixty recorded runs of the engine, three at each of twenty commits. One commit between the 20th and the 40th run changes one
# operator, the optimizer's update. 'tacho history trend' finds it, names the operator, and the commit is among those that it prints. SEED=N.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v git > /dev/null || { echo "needs the program git"; exit 77; }
work_folder history
export TACHO_HISTORY=$work/history.db GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
RANDOM=${SEED:-1}
changed=$((21 + 3 * (RANDOM % 6))) # the first run after the change, from 1
git init -q .
job() { # OPTIMIZER: the program as it is at a commit
    printf '#!/bin/sh\nexec "%s" gpt2-tiny --batch 2 --seq 32 --steps 40 --log-every 0 --workers 0 --optimizer %s\n' "$TRAIN" "$1" > job
    chmod +x job
}
for ((run = 1; run <= 60; run++)); do
    if [ $((run % 3)) = 0 ] || [ $run = 1 ]; then
        if [ $run -ge "$changed" ]; then job muon; else job adamw; fi
        echo $run > other && git add job other && git commit -q -m "commit at run $run"
        [ $run = "$changed" ] && planted=$(git rev-parse HEAD)
    fi
    rm -f run.tacho
    expect 0 "$TACHO" run --no-peak -o run.tacho -- ./job
done
[ "$(sqlite3 "$TACHO_HISTORY" 'SELECT count(*) FROM run')" = 60 ] || fail "runs were not entered"
expect 0 "$TACHO" history trend --json
python3 - "$work/out" "$changed" "$planted" << 'PY' || fail "the trend: $(cat "$work/out")"
import json, sys
trend, changed, planted = json.load(open(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
near = [c for c in trend["changes"] if c["earliest"]["id"] <= changed <= c["latest"]["id"]]
assert len(near) == 1, [(c["earliest"]["id"], c["first"]["id"], c["latest"]["id"], c["change_pct"]) for c in trend["changes"]]
(change,) = near
operators = [m["name"] for m in change["moved"] if m["kind"] == "operator"]
assert operators[:2] == ["muon", "adamw"], change["moved"]  # what came, and what it came for
print(f"planted at run {changed} ({planted[:8]}): found {change['change_pct']:+.1f} % at run {change['first']['id']}, between {change['earliest']['id']} and "
      f"{change['latest']['id']}; moved: {operators[0]}; other changes of the machine: {len(trend['changes']) - 1}")
PY
exit 0
