#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Series of real training runs for build/tests/bench/detectors_logs: step times and losses from the logs of public runs on 8 H100
# (github.com/KellerJordan/modded-nanogpt, records/track_1_short; MIT licence), which are not part of this repository.
# usage: tests/bench/public_logs.sh CLONE OUT       CLONE: a clone (also a bare one) of that repository
# A line of a series has the milliseconds and the loss of a step; "-" instead of the milliseconds: an evaluation lies before it.
set -u
[ $# = 2 ] || { sed -n 's/^# usage: /usage: /p' "$0"; exit 2; }
clone=$1 out=$2
mkdir -p "$out" || exit 1
git -C "$clone" rev-parse HEAD > "$out/commit" || exit 1
git -C "$clone" ls-tree -r --name-only HEAD records/track_1_short | grep -E '/(2024-10|2024-11)[^/]*/.*\.txt$' | while IFS= read -r log; do
    series=$out/$(basename "$log" .txt).series
    [ ! -e "$series" ] || continue # some runs lie in two folders
    git -C "$clone" show "HEAD:$log" 2> /dev/null | grep -aE '^step:[0-9]+/[0-9]+ (train|val)_loss:' | awk '
        {
            for (i = 1; i <= NF; i++) {
                if ($i ~ /^train_time:/) time = substr($i, 12) + 0
                if ($i ~ /^train_loss:/) loss = substr($i, 12)
            }
            if ($2 ~ /^val_loss/) { evaluated = 1; last = time; next }
            step++ # the first ones compile, and the clock of the log begins anew after ten
            if (step > 20) print (evaluated ? "-" : time - last), loss
            evaluated = 0
            last = time
        }' > "$series"
    [ "$(wc -l < "$series")" -ge 3000 ] || rm "$series"
done
echo "$(find "$out" -name '*.series' | wc -l) series, $(cat "$out"/*.series | wc -l) steps, commit $(cat "$out/commit")"
