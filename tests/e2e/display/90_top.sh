#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# The dashboard on a terminal: what its keys do, any size of screen, every way it can end, and what it says when the run it shows
# ends, is deleted, begins again or loses its recorder.
# shellcheck disable=SC1003  # a backslash for the terminal
set -u
# shellcheck source=tests/e2e/kit/top_common.sh
. "$(dirname "$0")/../kit/top_common.sh"

"$TACHO" run -o done.tacho -- "$TRAIN" gpt2-tiny --data "$SRC/LICENSE" --steps 40 --batch 1 --seq 32 > "$work/out" 2>&1 || fail "no run: $(cat "$work/out")"
verdict=$("$TACHO" report --json done.tacho | sed -n 's/^ "verdict_class": "\(.*\)",$/\1/p')
[ -n "$verdict" ] || fail "no verdict"

# ---- without a terminal --------------------------------------------------------------------------------------------------------------
expect 4 "$TACHO" top done.tacho
grep -q 'built without ncurses' "$work/err" && { echo "built without ncurses"; exit 77; }
grep -q 'not a terminal' "$work/err" || fail "it does not say that there is no terminal: $(cat "$work/err")"
expect 2 "$TACHO" top --view loadr done.tacho
grep -q "did you mean 'loader'" "$work/err" || fail "no help for a wrong view"
expect 2 "$TACHO" top --batch --size 0x9 done.tacho
expect 3 "$TACHO" top nowhere.tacho
: > empty.tacho
head -c 5000 done.tacho > damaged.tacho
for file in empty damaged; do # a frame with nothing in it would hide why
    for how in --batch --json; do
        expect 3 "$TACHO" top $how -n 1 $file.tacho
        grep -q "^tacho: $file.tacho: \|\"what\":\"$file.tacho: " "$work/err" || fail "top $how $file.tacho: refused without a word"
        [ ! -s "$work/out" ] || fail "top $how $file.tacho: a frame of nothing"
    done
done
rm empty.tacho damaged.tacho
cp done.tacho kept
for command in report export advise 'diff done.tacho'; do
    # shellcheck disable=SC2086 # two words
    expect 3 "$TACHO" $command done.tacho -o done.tacho
    cmp -s done.tacho kept || fail "$command -o has overwritten the recording"
done
expect 0 "$TACHO" top --batch -n 1 --size 24x80 done.tacho
[ "$(wc -l < "$work/out")" = 24 ] || fail "a frame of 24 rows has $(wc -l < "$work/out")"
expect 0 env LC_ALL=C "$TACHO" top --batch -n 1 done.tacho
awk '{ if (length($0) > 80) exit 1 }' "$work/out" || fail "a row of more than 80 columns"
LC_ALL=C grep -q '[^ -~]' "$work/out" && fail "a locale without UTF-8 gets other bytes than ASCII"

# ---- every key -----------------------------------------------------------------------------------------------------------------------
shell 24 80
dash done.tacho
sees 'ended'
sees "$verdict"
sees '?help'
keys Enter; sees '^Do  \|Looked at'; keys 1; sees 'p50' # the first finding's card; there may be none
keys -H 1b 5b 3c 30 3b 31 30 3b 35 4d; keys -H 1b 5b 4d 20 36 36; keys -H 1b 5d 30 3b 34 54 07; keys -H 1b 5b 33 36 52
sleep 0.5; sees 'p50' # clicks that nobody asked for, what a terminal tells: no keys of ours
screen | grep -q 'paused' && fail "the terminal's own words are taken for keys"
for key in 2 3 4 5 6 7 8 9 T; do
    before=$(screen | tail -n +4)
    keys "$key"
    for _ in $(seq 600); do [ "$(screen | tail -n +4)" != "$before" ] && break; sleep 0.1; done
    [ "$(screen | tail -n +4)" != "$before" ] || fail "key $key shows nothing new"
done
keys '?'; sees everywhere; keys Escape; gone everywhere
keys 6; sees 'matmul' table
keys s; keys I; keys I; keys '<'; keys Down; keys Enter; keys Escape; keys PPage; keys NPage; keys End; keys Home
keys '\'; sees 'only rows with:'; keys adamw Enter; gone 'matmul.backward' table; sees adamw table
keys Escape; sees matmul table
keys /; sees 'search:'; keys gelu Enter; sees gelu; keys n; keys N; keys Escape
keys 3; keys + ; keys + ; keys Right; keys Left; keys 0; keys ']'; keys '['; keys m; keys -; keys Tab; keys BTab
keys '{'; sees 'has no other part'; keys '}'; sees 'has no other part'
keys 1; keys Space; sees paused; keys Space; gone paused
keys u; keys u
LC_ALL=C grep -q '[^ -~]' <(sleep 0.5; screen) && fail "glyphs of the ladder's last rung are not ASCII"
keys t; keys M; keys r
keys e; sees 'written: tacho-overview'
grep -q 'step' tacho-overview-*.txt || fail "the export holds no step"
keys C-l; sees '?help'
pid_of_top > /dev/null || fail "it died of a key"
keys q
sane 0
grep -q 'glyphs = ascii' "$XDG_CONFIG_HOME/tacho/top.conf" || fail "what keys changed was not kept"
dash done.tacho
sees ended
LC_ALL=C grep -q '[^ -~]' <(screen) && fail "what was kept is not used"
keys u q
sane 0

# ---- sizes ---------------------------------------------------------------------------------------------------------------------------
dash done.tacho
sees ended
for size in 40x10 1x1 2x2 200x50 7x3 300x60 13x1 1x40 80x24 33x5 120x2 81x25 40x10; do
    tm resize-window -x "${size%x*}" -y "${size#*x}"
    sleep 0.05
done
sees ended
sees '?help'
pid=$(pid_of_top) || fail "it died of a size"
tm resize-window -x 80 -y 24
sees 'step '

# ---- ways to end -----------------------------------------------------------------------------------------------------------------------
keys C-z; sees ready; gone '?help'; keys fg Enter; sees '?help'
kill -SEGV "$pid"
sees 'Segmentation fault'
keys "echo code \$?; stty -g > $work/after" Enter # fg is a line of its own
sane 139
dash done.tacho; sees '?help'; kill -TERM "$(pid_of_top)"; sane 143
dash done.tacho; sees '?help'; kill -ABRT "$(pid_of_top)"; sane 134
dash done.tacho; sees '?help'; kill -HUP "$(pid_of_top)"; sane 129
dash done.tacho; sees '?help'; keys C-c; sees 'ready>'; gone '?help' # the shell ends its line too
[ "$(tm display -p '#{cursor_flag}#{alternate_on}')" = 10 ] || fail "Ctrl-C leaves the terminal in a mess"
shell 24 80
keys "TERM=dumb $TACHO top done.tacho; echo \"code \$?\"" Enter; sees 'code 4'; sees 'cannot position the cursor'
shell 24 80
keys "clear; TERM=linux $TACHO top done.tacho" Enter; sees 'ended'
LC_ALL=C grep -q '[^ -~]' <(screen) && fail "the console of Linux has no braille"
keys q
shell 24 80 C
dash done.tacho; sees 'ended'
LC_ALL=C grep -q '[^ -~]' <(screen) && fail "a terminal of the C locale gets other bytes than ASCII"
keys q; sane 0

# ---- a run that lives ------------------------------------------------------------------------------------------------------------------
record
shell 24 80
dash live.tacho
sees 'live'
sees "$any_verdict"
for _ in $(seq 600); do a=$(step); [ -n "$a" ] && break; sleep 0.1; done # the screen may be drawn just now
for _ in $(seq 600); do b=$(step); [ -n "$b" ] && [ "$b" != "$a" ] && break; sleep 0.1; done
[ -n "$a" ] && [ -n "$b" ] && [ "$b" -gt "$a" ] || fail "it does not follow the run: step $a, then $b"
sees "step [0-9]*/1000000" # what the engine said it will make
"$TACHO" top live.tacho --json -n 1 | grep -q '"expected":1000000,"left_s":[0-9]' || fail "no line says how far the run is"
kill -KILL "$(pid_of_top)"; sees 'code 137'; keys 'stty sane; reset; clear' Enter # nobody can help that; the run does not notice
kill -0 "$recorder" || fail "the run died with the dashboard"
shell 24 80
dash live.tacho; sees 'live'; sees "$any_verdict"
stop_run
sees 'the run ended'
[ -f live.tacho ] && [ ! -e live.tacho.live ] || fail "the run was not finished"
rm live.tacho
sees 'deleted'
record
sees 'restarted'; sees '. live'
for _ in $(seq 600); do target=$(pgrep -P "$recorder" -x train) && break; sleep 0.1; done # it may be starting just now
kill -KILL "$recorder" "$target"
recorder=
sees 'recorder was killed'
keys q; sane 0
expect 0 "$TACHO" recover live.tacho.live
rm -rf live.tacho

# ---- lines of JSON, while a run begins, lives and ends ----------------------------------------------------------------------------------
command -v python3 > /dev/null || { echo "passed; without python3 the JSON was not looked at"; exit 0; }
# a terminal that takes nothing any more (Ctrl-S, a line that hangs): it can be ended all the same
python3 - "$TACHO" done.tacho << 'END' || fail "a terminal that takes nothing keeps it from ending"
import fcntl, os, pty, signal, struct, sys, termios, time
os.environ["TERM"] = "xterm-256color"
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "top", sys.argv[2]])
for k in range(100): # each size is a whole screen, and nobody reads
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 300 - k % 2, 0, 0))
    time.sleep(0.02)
os.kill(pid, signal.SIGTERM)
for _ in range(200):
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        sys.exit(0 if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM else "ended with %d" % status)
    time.sleep(0.1)
os.kill(pid, signal.SIGKILL)
sys.exit("it hangs")
END
record
"$TACHO" top live.tacho --json --interval 0.2 > "$work/lines" 2> "$work/err" &
reader=$!
for _ in $(seq 600); do # until it has lines enough, one of them with a report that has steps
    [ "$(wc -l < "$work/lines")" -ge 12 ] && grep -q '"median_ms":[0-9]' "$work/lines" && break
    sleep 0.1
done
stop_run
wait "$reader" || fail "top --json ended with $?: $(cat "$work/err")"
python3 - "$work/lines" << 'END' || fail "a line of --json is not what it should be"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert len(lines) >= 10, len(lines)
assert all(x["schema"] == "tacho-top/1" for x in lines)
assert lines[0]["state"] == "live" and lines[-1]["state"] == "ended", (lines[0]["state"], lines[-1]["state"])
steps = [x["steps"]["seen"] for x in lines]
assert steps == sorted(steps) and steps[-1] > steps[0], steps
assert any(x["report"] and (x["report"]["steps"]["median_ms"] or 0) > 0 for x in lines)
assert not any(x["report"] and x["report"]["verdict"].startswith("NO STEPS") for x in lines), "a run that has just begun is judged"
assert any(c["name"] == "loss" and c["value"] > 0 for c in lines[-1]["counters"])
assert lines[-1]["message"].startswith("the run ended"), lines[-1]["message"]
END
echo passed
