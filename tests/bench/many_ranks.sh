#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 512 ranks in a folder, as Kineto traces and as runs: the first report of the folder, reading included, in time and memory; the slow rank
# has to be named. Rows of four columns separated by tabs: what, measured, budget, verdict.
# usage: tests/bench/many_ranks.sh BUILD        environment: MANY_FOLDER (where the folders go), MANY_RANKS (512)
set -u
cd "$(dirname "$0")/../.." || exit 1
tacho=$(cd "${1:?BUILD}" && pwd)/tacho
ranks=${MANY_RANKS:-512}
work=$(mktemp -d "${MANY_FOLDER:-${TMPDIR:-/tmp}}/tacho-many-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
command -v python3 > /dev/null && [ -x /usr/bin/time ] || { printf '%s ranks\tneeds python3 and /usr/bin/time\t\tskipped\n' "$ranks"; exit 0; }
export XDG_CACHE_HOME=$work/cache
verdict() { if [ "$1" -le "$2" ]; then echo within; else echo ABOVE; fi; }
status=0
for format in kineto tacho; do
    python3 tests/e2e/ranks/many_ranks.py "$work/$format" --format $format --ranks "$ranks" --slow $((ranks / 2 + 44)) --missing 77 --offset-ms 50 \
        --drift-ppm 100 --kernels 30 || exit 1
    /usr/bin/time -f '%e %M' -o "$work/time" "$tacho" report --json "$work/$format" > "$work/json" 2> "$work/err" || { cat "$work/err" >&2; exit 1; }
    read -r seconds kib < "$work/time"
    events=$(python3 -c "
import json, sys
j = json.load(open('$work/json'))
r = j['ranks']
assert r['straggler']['says'] == 'rank %d' % ($ranks // 2 + 44), r['straggler']
assert r['frontier']['stage'] == 'backward' and 'rank 77 of $ranks' in r['missing'], r['missing']
print(j['trust']['events'])") || status=1
    printf '%s ranks (%s), %s events: first report\t%s s\t60 s\t%s\n' "$ranks" $format "$events" "$seconds" "$(verdict "${seconds%.*}" 59)"
    printf '%s ranks (%s): peak memory\t%s MiB\t2000 MiB\t%s\n' "$ranks" $format $((kib / 1024)) "$(verdict $((kib / 1024)) 2000)"
    rm -rf "${work:?}/$format" "$work/cache"
done
exit $status
