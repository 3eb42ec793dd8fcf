#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The first screen of a report: as long as the terminal, at most 28 lines of 80 columns for every shared trace, with the verdict, what
# to do and how sure that is in its first ten lines, and no gain cut; one finding explained; everything through a pager.
set -u
fail() { echo "FAIL: $*"; exit 1; }
cd "$TMPDIR" || exit 1
export XDG_CACHE_HOME=$TMPDIR/cache # a calibration that another test makes would change the report between two looks
command -v python3 > /dev/null || { echo "needs python3 for a terminal"; exit 77; }
"$TACHO" run --no-peak -o run.tacho -- "$TRAIN" gpt2-tiny --layers 1 --channels 32 --heads 2 --batch 2 --seq 32 --steps 40 --workers 0 \
    --slow decode=0.020 --log-every 0 > log 2>&1 || fail "the run failed: $(cat log)"

# shows ROWS COLUMNS ARGUMENT...: what tacho prints on a terminal of that size
cat > terminal.py << 'END'
import fcntl, os, pty, struct, sys, termios
rows, columns = int(sys.argv[1]), int(sys.argv[2])
pid, fd = pty.fork()
if not pid:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.environ.update(TERM="xterm", NO_COLOR="1")
    os.execvp(sys.argv[3], sys.argv[3:])
seen = b""
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:
        break
    if not part:
        break
    seen += part
status = os.waitpid(pid, 0)[1]
sys.stdout.write(seen.decode().replace("\r", ""))
sys.exit(os.waitstatus_to_exitcode(status))
END
shows() { python3 terminal.py "$1" "$2" "$TACHO" report "${@:3}"; }

for size in "24 80 23" "50 80 28" "24 120 23" "60 200 28"; do
    read -r rows columns most <<< "$size"
    shows "$rows" "$columns" run.tacho > screen || fail "$size: $(cat screen)"
    [ "$(wc -l < screen)" -le "$most" ] || fail "$rows x $columns: $(wc -l < screen) lines: $(cat screen)"
    head -n 10 screen | grep -q 'INPUT-BOUND\|^OTHER PROGRAMS' || fail "$size: no verdict in the first ten lines: $(cat screen)"
    # the options stand beside the gain, or below it where the gain says more
    head -n 12 screen | grep -A 1 '^ 1  INPUT_STALL .*% ' | grep -q -- '--workers' || head -n 12 screen | grep -q '^ 1  OTHER_PROGRAMS ' ||
        fail "$size: nothing to do in the first ten lines: $(cat screen)"
    ! grep -q '^ . INPUT_STALL' screen || grep -q 'try: tacho verify run.tacho [12]' screen || fail "$size: no command: $(cat screen)"
    grep -q '^ data wait .*[0-9]' screen && grep -q '^ backward .*[0-9]' screen || fail "$size: no step time: $(cat screen)"
done
# rows of the step time add up to the step
shows 50 80 run.tacho | awk '/^Step time/ { inside = 1; next } inside && /^ +[0-9.]+ +100.0/ { step = $1; exit }
    inside { for (i = NF; i > 1; i--) if ($i ~ /^[0-9.]+$/ && $(i - 1) ~ /^[0-9.]+$/) { sum += $(i - 1); break } }
    END { exit !(step > 0 && sum < step * 1.002 && sum > step * 0.998) }' || fail "the rows do not sum to the step: $(shows 50 80 run.tacho)"

# one finding alone, by number or id; all of it in a pager, whose reader may leave early
id=$("$TACHO" report run.tacho --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["findings"][0]["id"].lower())')
shows 50 100 run.tacho --explain 1 > one || fail "--explain 1: $(cat one)"
shows 50 100 run.tacho --explain "$id" > same || fail "--explain $id: $(cat same)"
cmp -s one same && grep -q 'Evidence' one && ! grep -q 'Trust' one || fail "--explain: $(cat one)"
"$TACHO" report run.tacho --explain 99 > out 2> err
[ $? = 2 ] && grep -q "no finding '99': 1 [A-Z_]*" err || fail "--explain 99: $(cat err)"
"$TACHO" report run.tacho --explain 1 --json > out 2> err
[ $? = 2 ] && [ ! -s out ] && grep -q 'explain is not for --json' err || fail "--explain --json: $(cat err)"
PAGER='tee paged' shows 24 80 run.tacho --full > full || fail "--full: $(tail -n 3 full)"
"$TACHO" report run.tacho --full --width 80 > whole
cmp -s paged whole || fail "the pager gets something else: $(diff paged whole | head -n 5)"
verdict=$(grep -m 1 -E '^[A-Z]{2,}' whole | cut -c 1-12)
[ "$(grep -c "^$verdict" whole)" = 2 ] || fail "the verdict '$verdict' is not at the end as well"
PAGER='head -n 1' shows 24 80 run.tacho --full > left || fail "a reader who leaves: exit $?: $(cat left)"
PAGER=no-such-program shows 24 80 run.tacho --full > none || fail "no pager: $(cat none)"
[ "$(wc -l < none)" = "$(wc -l < whole)" ] || fail "without a pager something is missing: $(diff none whole | head -n 5)"
"$TACHO" report run.tacho --full --json > full.json || fail "--full --json"

traces=${TACHO_TRACES:-$SRC/../shared/traces}
[ -d "$traces" ] || { echo "no shared traces: that part was not run"; exit 0; }
cat > screens.py << 'END'
import re, sys
def some(pattern, lines):
    return any(re.search(pattern, line) for line in lines)
for name in sys.argv[1:]:
    lines = open(name, encoding="utf-8").read().splitlines()
    screen, ten = "\n".join(["", name] + lines), lines[:10]
    assert len(lines) <= 28, "%d lines: %s" % (len(lines), screen)
    assert not some("^ 1  [A-Z_]", lines) or some("^ 1  [A-Z_]", ten), "nothing to do in the first ten lines: " + screen
    assert some("confidence", ten) or some("^(NO|STEPS|TOO) ", ten), "how sure is that? " + screen
    assert not some("^ [1-9]  [A-Z_]*  .*…$", lines), "a gain is cut: " + screen
    assert some(r"^[A-Z][A-Z -]+(\([A-Z]+\))?[:,]| hold this run back", lines[:6]), "no verdict: " + screen
END
count=0
for trace in "$traces"/*.gz; do
    count=$((count + 1))
    for width in 80 100 200; do
        "$TACHO" report "$trace" --width $width > "$(basename "$trace").$width" 2> err || fail "$trace: $(cat err)"
    done
done
python3 screens.py ./*.gz.* > out 2>&1 || fail "$(tail -n 40 out)"
[ "$(find . -maxdepth 1 -name '*.gz.*' | wc -l)" = $((3 * count)) ] || fail "a screen is missing"
echo "$count traces at three widths: 28 lines at most"
