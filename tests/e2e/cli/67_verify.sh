#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# tacho verify: the change of a finding is made in the recorded command, run in pairs and measured. What a file stores is data: nothing
# of it reaches a shell, and whose command it is decides whether it is started at all. A signal, an error or a second one at the same
# time leaves nothing half-written.
# shellcheck disable=SC2154 # work: work_folder sets it
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
"$TRAIN" gpt2-tiny --help > /dev/null 2>&1 || { echo "needs the program train"; exit 77; }
command -v python3 > /dev/null || { echo "needs the program python3"; exit 77; }
work_folder verify
export XDG_CACHE_HOME=$work/cache OMP_NUM_THREADS=1
chmod 755 "$work" "$work/here"
umask 022
has() { grep -q -- "$1" "$work/$2" || fail "no '$1' in $2: $(head -c 600 "$work/$2")"; }
set_key() { sqlite3 "$1" "UPDATE run SET value='$3' WHERE key='$2'"; }
nothing_left() { [ -z "$(find . -name '*-verify-*' -print -quit)" ] || fail "$1 left $(find . -name '*-verify-*' | head -3)"; }

# a loader that holds the step back, and data whose name a shell would run
data='text; touch pwned; $(touch pwned) `touch pwned`'
cp "$SRC/LICENSE" "$data"
train=("$TRAIN" gpt2-tiny --layers 1 --batch 1 --seq 16 --data "$data" --steps 24 --workers 1)
expect 0 "$TACHO" run --no-peak -o slow -- "${train[@]}" --slow decode=0.06

# ---- the two commands, without a run
expect 0 "$TACHO" verify slow.tacho --dry-run --set --workers=3
has 'before: .*--workers 1 ' err
has 'after: .*--workers 3 --slow decode=0.06$' err
has 'OMP_NUM_THREADS=1 .*tacho run' err
expect 0 "$TACHO" verify slow.tacho --dry-run --set OMP_NUM_THREADS=2
has 'after: .*OMP_NUM_THREADS=2 .*tacho run' err
expect 0 "$TACHO" verify slow.tacho --dry-run --set --workers=3 --json
as_schema verify "$work/out"
python3 -c '
import json, sys
plan = json.load(open(sys.argv[1]))
assert "--workers 1 " in plan["command_before"] and "--workers 3 " in plan["command_after"] and plan["setting"] == "--workers=3", plan
assert plan["pairs"] == [] and plan["kept"] is None and plan["outcome"] == "cannot tell" and plan["reason"] == "no pair was run", plan
assert plan["measured_pct"] == {"low": None, "expected": None, "high": None}, plan' "$work/out" || fail "--dry-run --json: $(cat "$work/out")"
nothing_left --dry-run

# ---- a finding by its id, in any case, is the one of that number
# not the first one of all: beside other programs that may be OTHER_PROGRAMS, which has no change to make
number=$("$TACHO" report slow.tacho --json | python3 -c 'import json, sys
print([finding["id"] for finding in json.load(sys.stdin)["findings"]].index("INPUT_STALL") + 1)')
id=input_stall
expect 0 "$TACHO" verify slow.tacho "$number" --dry-run
cp "$work/err" by_number
expect 0 "$TACHO" verify slow.tacho "$id" --dry-run
cmp -s "$work/err" by_number || fail "$id is not finding $number: $(cat "$work/err")"

# ---- measured: three runs a side, kept together
expect 0 "$TACHO" verify slow.tacho --set --slow=decode=0 --pairs 3 --json
cp "$work/out" json
as_schema verify json
python3 - slow-verify-1 << 'PY' || exit 1
import json, os, sys
result = json.load(open("json"))
assert result["schema"] == "tacho-verify/1" and result["setting"] == "--slow=decode=0", result
assert len(result["pairs"]) == 3 and all(pair["before_ms"] > 55 and pair["after_ms"] < pair["before_ms"] for pair in result["pairs"]), result
measured = result["measured_pct"]
assert 0 < measured["expected"] and measured["low"] <= measured["expected"] <= measured["high"], measured
wanted = {f"{side}-{i}.{kind}" for side in ("before", "after") for i in (1, 2, 3) for kind in ("tacho", "log")} | {"diff.json"}
assert set(os.listdir(sys.argv[1])) == wanted, os.listdir(sys.argv[1])
assert json.load(open(f"{sys.argv[1]}/diff.json"))["schema"] == "tacho-diff/1"
PY
sqlite3 slow-verify-1/after-2.tacho "SELECT value FROM run WHERE key='command'" | grep -qE '"--slow", ?"decode=0"\]' || fail "the change was not made"
expect 0 "$TACHO" diff slow-verify-1/before-*.tacho -- slow-verify-1/after-*.tacho
expect 3 "$TACHO" verify slow.tacho --set --workers=2 # the folder exists
has 'exists already' err
[ ! -e pwned ] || fail "a stored word reached a shell"
mv slow-verify-1 kept

# ---- what cannot be tried
expect 2 "$TACHO" verify slow.tacho 99
expect 2 "$TACHO" verify slow.tacho nonsense
has "no finding 'nonsense': 1 [A-Z_]*" err
expect 2 "$TACHO" verify slow.tacho --set LD_PRELOAD=/tmp/x.so
expect 2 "$TACHO" verify slow.tacho --set --workers=1 # as recorded
expect 3 "$TACHO" verify slow.tacho --set --workers=many --pairs 3
has 'ended with exit code' err
has 'workers' err # what the program said
nothing_left "a run that fails"
expect 0 "$TACHO" run --no-peak -o secret -- sh -c true x --password hunter2
expect 4 "$TACHO" verify secret.tacho --set --x=1
has 'replaces a secret' err
expect 0 "$TACHO" run --no-peak --no-command -o unnamed -- true
expect 4 "$TACHO" verify unnamed.tacho --set --x=1

# ---- whose command it is
cp slow.tacho host.tacho
set_key host.tacho host elsewhere
expect 4 "$TACHO" verify host.tacho --set --workers=2 --dry-run
has 'another host' err
expect 0 "$TACHO" verify host.tacho --set --workers=2 --dry-run --yes
cp slow.tacho uid.tacho
set_key uid.tacho uid 12345
expect 4 "$TACHO" verify uid.tacho --set --workers=2 --dry-run
cp slow.tacho open.tacho
chmod 666 open.tacho
expect 4 "$TACHO" verify open.tacho --set --workers=2 --dry-run
has 'other users can write' err
if [ "$(id -u)" = 0 ]; then
    expect 4 "$TACHO" verify uid.tacho --set --workers=2 --dry-run --yes
    cp slow.tacho foreign.tacho
    chown 12345 foreign.tacho
    expect 4 "$TACHO" verify foreign.tacho --set --workers=2 --yes
    has 'root never starts' err
    ln -s foreign.tacho link.tacho
    expect 4 "$TACHO" verify link.tacho --set --workers=2 --yes
fi
mkdir shared && chmod 777 shared && cp slow.tacho shared/
expect 4 "$TACHO" verify shared/slow.tacho --set --workers=2 --dry-run
[ "$(id -u)" != 0 ] || expect 4 "$TACHO" verify shared/slow.tacho --set --workers=2 --dry-run --yes

# a folder further up that others can write to, and a link that leads below it
mkdir -p outer/inner && chmod 777 outer && cp slow.tacho outer/inner/
ln -s outer/inner near
for run in outer/inner near; do
    expect 4 "$TACHO" verify $run/slow.tacho --set --workers=2 --dry-run
    has 'other users can' err
    [ "$(id -u)" != 0 ] || expect 4 "$TACHO" verify $run/slow.tacho --set --workers=2 --dry-run --yes
done

# ---- what lies under the names of the runs' folder by now is not written to, and not removed
cat > program << 'PROGRAM'
#!/bin/sh
[ -e attack ] || exit 0
folder=$(echo moved-verify-1.*)
[ "$(cat attack)" = log ] || { mv "$folder" aside && mv precious "$folder"; exit 3; }
ln -sf "$PWD/precious/keep" "$folder/after-1.log"
exec "$@"
PROGRAM
chmod +x program
mkdir precious && echo keep > precious/keep
expect 0 "$TACHO" run --no-peak -o moved -- ./program "$BUILD/tests/targets/target_events" --steps 5 --events 20
echo log > attack
expect 3 "$TACHO" verify moved.tacho --set --x=1
[ "$(cat precious/keep)" = keep ] || fail "a log was written through a link"
nothing_left "a log that is a link"
echo folder > attack
expect 3 "$TACHO" verify moved.tacho --set --x=1
[ "$(cat moved-verify-1.*/keep)" = keep ] || fail "a folder under the name of the runs' was emptied"
[ -z "$(ls aside)" ] || fail "what verify made was left: $(ls aside)"
rm -r moved-verify-1.* aside attack

# ---- signals, and two at once
python3 - "$TACHO" << 'PY' || exit 1
import glob, os, signal, subprocess, sys, time

tacho = sys.argv[1]


def verify(name, *options):
    """Starts one; what it says is in NAME.out and NAME.err."""
    with open(f"{name}.out", "w") as out, open(f"{name}.err", "w") as err:
        return subprocess.Popen([tacho, "verify", "slow.tacho", *options], stdin=subprocess.DEVNULL, stdout=out, stderr=err)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as listed:
        return listed.read().split()


for number in (signal.SIGINT, signal.SIGTERM):
    one = verify("stopped", "--set", "--workers=2", "--pairs", "50")
    until = time.monotonic() + 60
    while "tacho: run 1 of" not in open("stopped.err").read() and time.monotonic() < until:
        time.sleep(0.05)
    below = children(one.pid)
    one.send_signal(number)
    code = one.wait(60)
    said = open("stopped.err").read()
    assert code == 128 + number, (number, code, said)
    alive = [pid for pid in below if os.path.exists(f"/proc/{pid}")]
    assert not alive, (number, alive)
    assert not glob.glob("*-verify-*"), (number, glob.glob("*-verify-*"))

both = [verify(name, "--set", "--slow=decode=0") for name in ("one", "two")]
for name, process in zip(("one", "two"), both):
    assert process.wait(300) == 0, open(f"{name}.err").read()
    assert "\nMeasured " in open(f"{name}.out").read(), open(f"{name}.out").read()
assert len(glob.glob("*verify-1*/after-3.tacho")) == 2, glob.glob("*verify*")
PY
