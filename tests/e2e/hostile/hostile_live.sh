#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A live run whose recorder and target were killed, and whose state was changed then: finishing it ends within 5 s of processor time
# and 2 GiB of address space, with a file or with a message; nothing outside of it is touched.
# parallel: yes
# timeout: 3600
# shellcheck disable=SC2154 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
# shellcheck source=tests/e2e/kit/hostile_common.sh
. "$SRC/tests/e2e/kit/hostile_common.sh"
rounds=${ROUNDS:-18} seed=${SEED:-$((RANDOM % 1000))}
for ((round = 0; round < rounds; round++)); do
    "$TACHO" run --no-peak --no-counters -o h -- "$bin/target_events" --forever --rate 5000 > out 2> err &
    pid=$!
    wait_for test -s h.tacho.live/run.db
    wait_for sh -c "[ \"\$(sqlite3 h.tacho.live/run.db \"SELECT count(*) FROM live_state WHERE key LIKE 't:%'\" 2> /dev/null)\" = 1 ]"
    kill -KILL $pid "$(pgrep -P $pid)"
    wait $pid 2> /dev/null
    segments=$(readlink -f h.tacho.live/segments)
    what=$(python3 "$SRC/tests/e2e/hostile/hostile_live.py" h.tacho.live/run.db $((seed * 9 + round))) || { wrong "not spoilt: $what"; exit 1; }
    bounded "$what" "$TACHO" report h.tacho.live
    if [ -f h.tacho ]; then bounded "$what, finished" "$TACHO" report h.tacho; fi
    rm -rf h.tacho* "$segments"
done
echo "seed $seed; commands: $commands, refused with a message: $refused"
echo "hostile: state of a live run | $rounds rounds | $commands commands, $wrong_ends crashed, hung or said nothing"
[ "$wrong_ends" = 0 ] && [ "$bad" = 0 ]
