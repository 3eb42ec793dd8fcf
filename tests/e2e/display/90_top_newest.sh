#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: namespace
# The dashboard without the name of a run shows the newest one that is being recorded on this machine; when that ends, its end stays on
# the screen although an older one goes on. Not beside other scripts that record; where it may, in a process namespace of its own.
set -u
if [ -z "${IN_NAMESPACE:-}" ] && unshare --pid --fork --mount-proc true 2> /dev/null; then
    IN_NAMESPACE=1 exec unshare --pid --fork --mount-proc --kill-child bash "$0" "$@"
fi
# shellcheck source=tests/e2e/kit/top_common.sh
. "$(dirname "$0")/../kit/top_common.sh"
"$TACHO" run -o older.tacho -- "${endless[@]}" > "$work/run" 2>&1 &
older=$!
for _ in $(seq 600); do [ -f older.tacho.live/run.db ] && break; sleep 0.1; done
record
shell 24 80
dash
sees 'live'; sees "$any_verdict"
stop_run
for _ in $(seq 50); do screen | grep -q 'older.tacho' && fail "it leaves for a run that began before"; sleep 0.1; done
keys q; sane 0
kill -TERM "$(pgrep -P "$older" -x train)"
wait "$older"
echo passed
