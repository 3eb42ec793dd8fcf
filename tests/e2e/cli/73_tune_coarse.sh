#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# 'tacho tune': with --coarse a trial ends once its mean is known, and only the pairs that decide run whole; a micro-batch at a fixed global batch.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder tune
target=$BUILD/tests/targets/target_ranks # its steps sleep

"$TACHO" tune --coarse 10 --objective step --trials 2 --rounds 4 --json -- "$target" --rank 0 --ranks 1 --steps 300 --work-us '{us:5000,2500}' > out 2> err ||
    fail "exit $?: $(cat err)"
as_schema tune out
python3 - << 'PY' || fail "coarse trials: $(cat out err tune/trials.jsonl)"
import json
found = json.load(open("out"))
trials = [json.loads(line) for line in open("tune/trials.jsonl")][1:]
search = [t for t in trials if not t["confirms"]]
pairs = [t for t in trials if t["pairs"]]
assert len(search) == 2 and all(t["known"] and not t["ended"] for t in search), search
assert len(pairs) == 8 and not any(t["known"] for t in pairs), pairs
# the mean of the steps that were seen is that of the whole run, in less time
whole = {c: sum(t["value"] for t in pairs if t["configuration"] == c) / 4 for c in (0, 1)}
assert all(0.8 < t["value"] / whole[t["configuration"]] < 1.25 for t in search), (search, whole)
longest = max(search, key=lambda t: t["value"])
assert longest["seconds"] < min(t["seconds"] for t in pairs if t["configuration"] == longest["configuration"]), trials
assert found["known_early"] >= 2 and found["ended_early"] == 0 and found["better"] and found["settings"] == {"us": "2500"}, found
PY

# batch times accumulate stays 8, so that it is no other training
cat > program << PROGRAM
#!/bin/sh
echo "\$1 \$2" >> started
exec "$BUILD/tests/targets/target_events" --steps 5 --events 20
PROGRAM
chmod +x program
expect 4 "$TACHO" tune --dry-run -- ./program '{batch:1..8:log2=2}' 4
expect 0 "$TACHO" tune --dry-run -- ./program '{batch:1..8:log2=2}' '{8/batch}'
grep -q '  ./program 2 4$' "$work/out" || fail "--dry-run: $(cat "$work/out")"
expect 2 "$TACHO" tune --dry-run -- ./program '{batch:1,3}' '{8/batch}'
grep -q 'must divide' "$work/err" || fail "3 does not divide 8: $(cat "$work/err")"
"$TACHO" tune -o held --trials 4 --rounds 4 -- ./program '{batch:1..8:log2=2}' '{8/batch}' > out 2> err || fail "exit $?: $(cat err)"
[ "$(sort -u started)" = "$(printf '1 8\n2 4\n4 2\n8 1')" ] || fail "what was started: $(sort -u started)"
exit 0
