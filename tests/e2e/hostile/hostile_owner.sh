#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Another user plants links, pipes, mount points and runs where root runs tacho, and swaps names while it does: nothing outside of a
# run is touched, and every command ends. hostile_owner.py has the kinds.
# timeout: 7200
# shellcheck disable=SC2154 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/collector_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
[ "$(id -u)" = 0 ] && unshare -m true 2> /dev/null || { echo "needs root and a mount namespace of its own"; exit 77; }
for_other_users || { echo "needs a second user"; exit 77; }
rounds=${ROUNDS:-100} seed=${SEED:-$((RANDOM % 1000))}
export XDG_CACHE_HOME=$work/cache
cp -r "$BUILD/tacho-python" "$others/" 2> /dev/null
mkdir disk
unshare -m sh -c "mount --make-rprivate / && mount -t tmpfs -o mode=755 none '$work/disk' && cd '$work/disk' &&
    python3 '$SRC/tests/e2e/hostile/hostile_owner.py' '$others/tacho' '$others/target_events' $rounds $seed" > result
tail -n 40 result
echo "seed $seed"
touched=$(sed -n 's/^rounds: .*, touched: \([0-9]*\), hung.*/\1/p' result) hung=$(sed -n 's/^rounds: .*, hung: //p' result)
[ -n "$touched" ] || { wrong "the adversary did not end"; exit 1; }
echo "hostile: another user's links, mounts and races | $rounds rounds | $touched touched something outside of the run, $hung hung"
[ "$touched" = 0 ] && [ "$hung" = 0 ]
