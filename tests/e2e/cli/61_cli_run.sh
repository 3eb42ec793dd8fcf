#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# run, train, report, recover, sql, doctor on real recordings: exit codes, files, streams, odd names, full disks.
set -u
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder run
integrity() { [ "$(sqlite3 "$1" 'PRAGMA integrity_check')" = ok ] || fail "$1: integrity"; }

# ---- run: the target's exit code is run's, its streams are its own, the file is complete
expect 0 "$TACHO" run -o plain -- sh -c 'echo out; echo err >&2'
[ "$(cat "$work/out")" = out ] || fail "stdout of the target: $(cat "$work/out")"
grep -qx err "$work/err" || fail "stderr of the target"
grep -q '^tacho: plain.tacho: .* events, 0 lost, exit 0$' "$work/err" || fail "no summary: $(cat "$work/err")"
grep -qx 'tacho: next: tacho report plain.tacho' "$work/err" || fail "no next command"
[ -f plain.tacho ] && [ ! -e plain.tacho.live ] || fail "files: $(ls)"
integrity plain.tacho
expect 7 "$TACHO" run -o seven -- sh -c 'echo Traceback >&2; exit 7'
# a program that fails at its start has said why: one line about the file follows
[ "$(grep -c '' "$work/err")" = 2 ] && grep -q '^tacho: seven.tacho: .*, exit 7$' "$work/err" || fail "after a failure: $(cat "$work/err")"
expect 143 "$TACHO" run -o term -- sh -c 'kill -TERM $$'
expect 127 "$TACHO" run -o missing -- ./no-such-program
[ ! -e missing.tacho ] && [ ! -e missing.tacho.live ] || fail "a file for a target that never ran"
: > not-executable
expect 126 "$TACHO" run -o missing -- ./not-executable
[ ! -e missing.tacho ] && [ ! -e missing.tacho.live ] || fail "a file for a target that could not be run"
expect 125 "$TACHO" run -o /proc/no/where -- true
# a command copied from a report, with the mark that replaced a secret
expect 125 "$TACHO" run -o missing -- touch ran '--token=<redacted>'
grep -qx 'hint: type the hidden argument again' "$work/err" && [ ! -e ran ] || fail "ran a redacted command"
cp plain.tacho before
expect 125 "$TACHO" run -o plain -- true
cmp -s plain.tacho before || fail "an existing file was touched"
# two recordings of one name at once: one of them, and the other says so
for i in 1 2; do
    ("$TACHO" run -o twice -- sleep 2 > /dev/null 2> "twice.err.$i"; echo $? > "twice.rc.$i") &
done
wait
[ "$(sort -n twice.rc.1 twice.rc.2 | tr '\n' ' ')" = "0 125 " ] || fail "two of one name: $(cat twice.rc.1 twice.rc.2)"
cat twice.err.1 twice.err.2 | grep -q 'twice.tacho.live: \(is being recorded\|a run of that name was not finished\)$' || fail "two of one name: $(cat twice.err.1 twice.err.2)"
integrity twice.tacho
rm twice.*
printf 'a line' | "$TACHO" run -o stdin -- cat > "$work/out" 2> /dev/null || fail "stdin"
[ "$(cat "$work/out")" = "a line" ] || fail "stdin does not reach the target"

# ---- names
for name in 'with blank' $'new\nline\e[31m\xff"q' 'ünïcödé' '--dash' "quo'te"; do
    expect 0 "$TACHO" run "--output=$name" -- true
    [ -f "./$name.tacho" ] || fail "no file for '$name'"
    ! LC_ALL=C grep -q $'[\e\xff]' "$work/err" || fail "the name '$name' reaches the terminal as it is"
    next=$(sed -n 's/^tacho: next: tacho //p' "$work/err") # works when it is pasted
    bash -c "exec '$TACHO' $next" > "$work/out" 2> "$work/err" || fail "pasted: tacho $next: $(cat "$work/err")"
    expect 0 "$TACHO" report "./$name.tacho"
    expect 0 "$TACHO" sql "./$name.tacho" 'SELECT 1'
    rm "./$name.tacho"
done
expect 0 "$TACHO" report -- plain.tacho
# a run that is called like its program; an empty file is no newest run
cp "$(type -P true)" own
expect 0 "$TACHO" run -o own -- ./own
expect 0 "$TACHO" report own
expect 0 "$TACHO" report ./own
: > zero.tacho
expect 0 "$TACHO" sql latest 'SELECT 1'
expect 3 "$TACHO" report zero
rm own own.tacho zero.tacho

# ---- the engine: train prints the report, the file has steps, metrics, a verdict
expect 0 "$TACHO" train gpt2-tiny --steps 12
grep -q '^Step time' "$work/out" || fail "train printed no report"
run=$(echo train-*.tacho) # there is one
integrity "$run"
[ "$(sqlite3 "$run" 'SELECT count(*) FROM step')" = 12 ] || fail "steps in the file"
[ "$(sqlite3 "$run" "SELECT count(*) FROM metric WHERE name='steps.median_ms' AND value > 0 AND unit='ms'")" = 1 ] || fail "no metric was saved"
[ "$(sqlite3 "$run" "SELECT count(*) FROM metric WHERE value IS NULL AND reason IS NULL")" = 0 ] || fail "a metric is absent without a reason"
[ -n "$(sqlite3 "$run" "SELECT value FROM run WHERE key='verdict'")" ] || fail "no verdict was saved"
expect 0 "$TACHO" train --help
# what train refuses is no run; neither is its help
runs=$(ls)
expect 2 "$TACHO" train --no-such-option
expect 2 "$TACHO" train gpt2-tiny --steps none
expect 2 "$TACHO" train gpt2-tinyy
expect 0 "$TACHO" train gpt2-tiny --steps 3 --help
expect 0 "$TACHO" train --version
[ "$(ls)" = "$runs" ] || fail "a run of nothing: $(ls)"

# ---- report
expect 0 "$TACHO" report
grep -q "12\|10 steps" "$work/out" || fail "latest is not the newest run"
expect 0 "$TACHO" report "$run" --json
python3 -c 'import json,sys; r=json.load(open(sys.argv[1])); assert r["schema"]=="tacho-report/1" and r["steps"]["count"]>0' "$work/out" 2> /dev/null ||
    ! command -v python3 > /dev/null || fail "report --json is not JSON"
cp "$work/out" first.json
expect 0 "$TACHO" report "$run" --steps 100:200
grep -q 'those of the run are 0 to 11' <(tr '\n' ' ' < "$work/out" | tr -s ' ') || fail "steps that the run does not have: $(head -5 "$work/out")"
expect 0 "$TACHO" report "$run" --json -o second.json
cmp -s first.json second.json || fail "-o writes something else"
expect 0 "$TACHO" report "$run" --width 60
[ "$(grep -v / "$work/out" | LC_ALL=C.UTF-8 wc -L)" -le 60 ] || fail "a line is wider than 60 columns"
LC_ALL=C "$TACHO" report "$run" > "$work/out" || fail "report in the C locale"
! LC_ALL=C grep -q '[^ -~]' "$work/out" || fail "characters beyond ASCII in the C locale"
sqlite3 "$run" "DELETE FROM metric"
cp "$run" copy.tacho
expect 0 "$TACHO" report copy.tacho --save
[ "$(sqlite3 copy.tacho "SELECT count(*) FROM metric WHERE name='steps.count' AND value = 12")" = 1 ] || fail "report --save"
[ "$(sqlite3 "$run" 'SELECT count(*) FROM metric')" = 0 ] || fail "report --save wrote into another file"

# ---- output that cannot be written: an exit code, a message, nothing half-written
expect 3 sh -c "\"$TACHO\" report $run > /dev/full"
grep -q 'No space left' "$work/err" || fail "full stdout: $(cat "$work/err")"
expect 3 sh -c "\"$TACHO\" report $run --json > /dev/full"
expect 3 sh -c "\"$TACHO\" sql $run 'SELECT * FROM slice' > /dev/full"
expect 3 sh -c "\"$TACHO\" help > /dev/full"
expect 3 sh -c "\"$TACHO\" version > /dev/full"
expect 3 sh -c "\"$TACHO\" doctor --json > /dev/full"
expect 3 sh -c "\"$TACHO\" report $run >&-"
expect 3 "$TACHO" report "$run" -o /dev/full
mkdir small
echo old > small/old.json
expect 3 bash -c "ulimit -f 1; exec '$TACHO' report '$run' --json -o small/new.json"
expect 3 bash -c "ulimit -f 1; exec '$TACHO' report '$run' --json -o small/old.json"
[ "$(ls -A small)" = old.json ] && [ "$(cat small/old.json)" = old ] || fail "left behind: $(ls -A small)"
expect 3 "$TACHO" report "$run" -o no/such/folder/x
# root may write everywhere: for it, another user does this, with a copy of the program in a folder that every user can read
closed=$work/here/closed tacho=$TACHO
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --clear-groups true 2> /dev/null; then
    others=$(mktemp -d /tmp/tacho-others-XXXXXX) && chmod 755 "$others" && cp "$TACHO" "$BUILD"/*.so "$others/" || fail "no copy"
    # shellcheck disable=SC2154 # work_folder sets it
    trap 'cd /; chmod -R u+w "$work"; rm -rf "$work" "$others"' EXIT
    as_user() { setpriv --reuid=65534 --clear-groups "$@"; }
    closed=$others/closed tacho=$others/tacho
else
    as_user() { "$@"; }
fi
if [ "$(id -u)" != 0 ] || [ "$tacho" != "$TACHO" ]; then
    mkdir "$closed" && cp "$run" "$closed/r.tacho" && chmod 444 "$closed/r.tacho" && chmod 555 "$closed"
    expect 0 as_user "$tacho" report "$closed/r.tacho"
    expect 4 as_user "$tacho" report "$closed/r.tacho" -o "$closed/out"
    expect 4 as_user "$tacho" report "$closed/r.tacho" --save
    expect 125 as_user "$tacho" run -o "$closed/new" -- true
    [ "$(ls -A "$closed")" = r.tacho ] || fail "left behind: $(ls -A "$closed")"
    chmod 755 "$closed"
fi
# a live folder that may not be searched holds a run: it is not said to be empty, nor to be removed
if [ "$(id -u)" != 0 ] || [ "$tacho" != "$TACHO" ]; then
    mkdir "$closed/open.tacho.live" && touch "$closed/open.tacho.live/run.db" && chmod 400 "$closed/open.tacho.live"
    [ "$(id -u)" != 0 ] || chown -R 65534 "$closed"
    expect 4 as_user "$tacho" recover "$closed/open.tacho.live"
    grep -q 'Permission denied' "$work/err" || fail "a folder without search permission: $(cat "$work/err")"
    ! grep -q 'remove' "$work/err" || fail "says that a run may be removed: $(cat "$work/err")"
    chmod 700 "$closed/open.tacho.live"
fi
# too few descriptors are not a folder that cannot be written
bash -c "ulimit -n 7; exec '$TACHO' run --no-peak --no-counters -o few -- true" > "$work/out" 2> "$work/err"
[ $? = 125 ] && grep -q 'ulimit -n' "$work/err" && ! grep -q 'choose a writable' "$work/err" || fail "few descriptors: $(cat "$work/err")"
# a reader that goes away ends the report, quietly
("$TACHO" report "$run"; echo "$?" > "$work/rc") 2> "$work/err" | head -n 1 > /dev/null
[ ! -s "$work/err" ] || fail "a closed pipe is no news: $(cat "$work/err")"

# ---- sql
expect 0 "$TACHO" sql "$run" 'SELECT 1 AS a, NULL AS b, 2.5 AS c, '"'x,\"y\"'"' AS d, x'"'00ff'"' AS e'
diff -u - "$work/out" << 'EOF' || fail "sql, table"
a  b    c  d      e
-  -  ---  -----  ---------
1     2.5  x,"y"  (2 bytes)
EOF
expect 0 "$TACHO" sql --csv "$run" 'SELECT 1 AS a, NULL AS b, 2.5 AS c, '"'x,\"y\"'"' AS d, x'"'00ff'"' AS e, '"''"' AS f'
printf 'a,b,c,d,e,f\r\n1,,2.5,"x,""y""",00ff,""\r\n' | diff -u - "$work/out" || fail "sql, csv"
# a spreadsheet takes no text for a formula, a number stays one; --raw gives what is stored
formulas="SELECT '=1+1' AS a, '+1' AS b, '-1' AS c, '@x' AS d, -1 AS e, 'a=1' AS f, '=\"x\"' AS g"
expect 0 "$TACHO" sql --csv "$run" "$formulas"
printf 'a,b,c,d,e,f,g\r\n"'"'=1+1\",\"'+1\",\"'-1\",\"'@x\",-1,a=1,\"'=\"\"x\"\"\""'\r\n' | diff -u - "$work/out" || fail "sql, formulas"
expect 0 "$TACHO" sql --csv --raw "$run" "$formulas"
printf 'a,b,c,d,e,f,g\r\n=1+1,+1,-1,@x,-1,a=1,"=""x"""\r\n' | diff -u - "$work/out" || fail "sql, raw"
# escapes of a terminal are visible on one, and stay in a file
escape="SELECT char(27) || '[31mred' || char(10) AS a"
script -qec "'$TACHO' sql --csv '$run' \"$escape\"" /dev/null > "$work/out" < /dev/null
grep -qF '\x1b[31mred\n' "$work/out" || fail "sql on a terminal: $(cat -v "$work/out")"
expect 0 "$TACHO" sql --csv "$run" "$escape"
[ "$(tail -c 12 "$work/out" | od -An -c | tr -d ' \n')" = '033[31mred\n"\r\n' ] || fail "sql, a text with escapes: $(tail -c 12 "$work/out" | od -An -c)"
expect 0 "$TACHO" sql --json "$run" 'SELECT 1 AS a, NULL AS b, 2.5 AS c, '"'x\"y'"' AS d UNION ALL SELECT 2,3,4,char(10)'
printf '[{"a":1,"b":null,"c":2.5,"d":"x\\"y"},\n {"a":2,"b":3,"c":4,"d":"\\n"}]\n' | diff -u - "$work/out" || fail "sql, json"
echo 'SELECT count(*) AS n FROM step; SELECT 2 AS two' | "$TACHO" sql "$run" --csv > "$work/out" || fail "sql from stdin"
printf 'n\r\n12\r\n\r\ntwo\r\n2\r\n' | tr -d '\r' | diff -u - <(tr -d '\r' < "$work/out") || fail "sql, two statements"
expect 2 "$TACHO" sql "$run" 'SELEC 1'
expect 2 "$TACHO" sql "$run" 'DELETE FROM slice'
expect 2 "$TACHO" sql "$run" "ATTACH 'x.db' AS x"
[ ! -e x.db ] || fail "a query made a file"
expect 0 "$TACHO" sql "$run" --index 'SELECT count(*) FROM slice'
[ "$(sqlite3 "$run" "SELECT count(*) FROM sqlite_master WHERE type='index' AND name='slice_by_track'")" = 1 ] || fail "sql --index"
expect 0 "$TACHO" report "$run"

# ---- recover: a finished file needs none
expect 0 "$TACHO" recover "$run"
grep -q 'already finished' "$work/err" || fail "recover of a finished file"

# ---- doctor
expect 0 "$TACHO" doctor
grep -q 'recording works here' "$work/out" || fail "doctor"
expect 0 "$TACHO" doctor --json
python3 -c 'import json,sys; r=json.load(open(sys.argv[1])); assert r["recording_works"] and len(r["checks"])>5' "$work/out" 2> /dev/null ||
    ! command -v python3 > /dev/null || fail "doctor --json is not JSON"
# each line that is not green says what to do
python3 -c 'import json,sys; bad=[x for x in json.load(open(sys.argv[1]))["checks"] if x["status"] not in ("ok", "multiplexed") and not x["fix"]]
print(bad); sys.exit(bool(bad))' "$work/out" > "$work/nofix" 2> /dev/null || ! command -v python3 > /dev/null || fail "doctor: no fix: $(cat "$work/nofix")"
expect 4 "$TACHO" doctor --folder no/such/folder
expect 4 "$TACHO" doctor --folder "$run"
[ -z "$(find . -name '.tacho-doctor*')" ] || fail "doctor leaves something behind"
exit 0
