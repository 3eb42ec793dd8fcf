#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: namespace
# The dashboard and other runs: the list of runs, turning to one of them, a baseline behind the curve, search in texts, keys that a view
# has no use for, a run of another machine over ssh. Not beside other scripts that record, whose runs come and go in the list; where it
# may, in a process namespace of its own.
set -u
if [ -z "${IN_NAMESPACE:-}" ] && unshare --pid --fork --mount-proc true 2> /dev/null; then
    IN_NAMESPACE=1 exec unshare --pid --fork --mount-proc --kill-child bash "$0" "$@"
fi
# shellcheck source=tests/e2e/kit/top_common.sh
. "$(dirname "$0")/../kit/top_common.sh"
for name in first second; do
    "$TACHO" run --no-peak -o $name.tacho -- "$TRAIN" gpt2-tiny --data "$SRC/LICENSE" --layers 2 --channels 64 --steps 24 --batch 1 --seq 32 \
        > log 2>&1 || fail "no run: $(cat log)"
done
expect 0 "$TACHO" top --batch -n 1 first.tacho
"$TACHO" top first.tacho > out 2> err < /dev/null
grep -q 'built without ncurses' err && { echo "built without ncurses"; exit 77; }

# ---- a baseline
expect 0 "$TACHO" top --batch -n 1 first.tacho --against second.tacho
grep -q 'against [^:]*: [+-][0-9]* %' "$work/out" || fail "no baseline: $(cat "$work/out")"
expect 3 "$TACHO" top --batch -n 1 first.tacho --against nothing.tacho
"$TACHO" run --no-peak -o bare.tacho -- true > log 2>&1
expect 4 "$TACHO" top --batch -n 1 first.tacho --against bare.tacho

# ---- the list of runs; the one that is shown stays until another is chosen
shell 24 80
dash first.tacho
sees 'first.tacho'; sees '24 steps'
keys o; sees 'runs: of this machine'; sees 'finished.*second.tacho'
keys Escape; sees '24 steps'
keys o; sees 'runs: of this machine'; sees 'finished.*second.tacho'
row=$(screen | grep -n 'second.tacho' | head -n 1 | cut -d: -f1)
first=$(screen | grep -n 'runs: of this machine' | cut -d: -f1)
keys Home
for ((i = first + 1; i < row; i++)); do keys Down; done
keys Enter; gone 'runs: of this machine'
sees '^ [^ ].*second.tacho'; sees '24 steps'

# ---- search: texts have it, other views say that they have not
keys T; sees 'recorded by'
keys /; sees 'search:'; keys lost Enter; sees 'lost'; keys n; keys Escape
keys 1; keys /; sees 'overview has no rows to search'
keys '\'; sees 'overview has no rows to filter'
keys '?'; sees 'another run: those of this machine'; keys '?'; gone everywhere
keys q; sane 0

# ---- another machine: the user's own ssh is asked to start tacho there
mkdir bin
printf '#!/bin/sh\nprintf "%%s\\n" "$@" > %q\nexit 7\n' "$PWD/asked" > bin/ssh
chmod +x bin/ssh
PATH=$PWD/bin:$PATH expect 7 "$TACHO" top 'ssh://user@node1/data/a run.tacho' --view ranks --batch
diff asked - << 'END' || fail "what ssh is asked"
-T
--
ssh://user@node1
tacho top --view ranks --batch '/data/a run.tacho'
END
PATH=$PWD/bin:$PATH TACHO_REMOTE=/opt/tacho expect 7 "$TACHO" top ssh://node1:2222/~/runs/a.tacho
grep -qx '/opt/tacho top runs/a.tacho' asked || fail "the home of the user: $(cat asked)"
for name in ssh:// ssh://node1 ssh:///path ssh://-oProxyCommand=x/path ssh://node1/; do
    PATH=$PWD/bin:$PATH expect 2 "$TACHO" top "$name"
done
echo passed
