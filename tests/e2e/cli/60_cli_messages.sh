#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# What the command line says: help, wrong usage, bad input, exit codes. Compared with golden/cli_messages.txt; BLESS=1 rewrites it.
set -u
. "$(dirname "$0")/../kit/cli_common.sh"
golden=$here/golden/cli_messages.txt
work_folder cli

try() { # prints the command, both streams and the exit code
    local rc
    printf '$ tacho%s\n' "${*:+$(printf ' %q' "$@")}"
    timeout 120 "$TACHO" "$@" > "$work/out" 2> "$work/err" < /dev/null
    rc=$?
    sed 's/^/  /' "$work/out"
    sed 's/^/! /' "$work/err"
    [ $rc = 0 ] || echo "= $rc"
}

: > empty.tacho
echo hello > text.tacho
echo '{"traceEvents": []}' > kineto.json
gzip -c kineto.json > kineto.json.gz
echo x > run.nsys-rep
sqlite3 other.sqlite 'CREATE TABLE t(a)'
sqlite3 nsight.sqlite 'CREATE TABLE StringIds(id, value)'
mkdir folder recorded
mkfifo fifo
: > -dash.tacho
printf '#!/no/such/interpreter\n' > no-interpreter
chmod +x no-interpreter
"$TACHO" run -o recorded/run -- true > /dev/null 2>&1 || fail "nothing recorded"
{
    try
    (cd folder && try report && try report latest)
    try help
    try --help
    for command in run train report import export recover verify sql doctor version help; do
        try help $command
    done
    try reprot
    try banana
    try top recorded/run.tacho # without a name it is whatever records on this machine
    try top text.tacho
    try --jsn
    try ./train.py
    try help reprot
    try run
    try run --
    try run --evry 3 -- true
    try run --every 0 -- true
    try run --steps 7:3 -- true
    try run --max-size 1X -- true
    try run --overhead 2 -- true
    try run -o
    try run --output
    try run -o . -- true
    try run -o fifo -- true
    try run -- ''
    try run -- ./no-interpreter
    try train gpt2-tinyy
    try train gpt2-tiny --stps 3
    try train gpt2-tiny --steps
    try run -x -- true
    try report --json=yes
    try report --help=yes
    try report --c=never
    try report --by modul
    try report --top 1e3
    try report -dash.tacho
    try report -
    try report ''
    try report --width 7
    try report --color=blue
    try report one two
    try report --html --markdown text.tacho
    try report --html --json
    try recover
    try import
    try import one
    try export
    try export --format png one
    try export --format stack one
    try sql
    try sql --csv --json text.tacho 'SELECT 1'
    try report nothing.tacho
    try report $'odd\nname\e[31m'
    for file in empty.tacho text.tacho kineto.json kineto.json.gz run.nsys-rep other.sqlite nsight.sqlite folder; do
        try report "$file"
    done
    try sql text.tacho 'SELECT 1'
    try recover text.tacho
    for command in recover 'merge -o new recorded/run.tacho' capture report; do # nobody writes into it: waiting would be for ever
        # shellcheck disable=SC2086
        try $command fifo
    done
    try capture text.tacho
    try recover nothing.tacho.live
} > "$work/all"
sed -i "s|$work|WORK|g" "$work/all"

if [ -n "${BLESS:-}" ]; then
    mkdir -p "$here/golden"
    cp "$work/all" "$golden"
fi
diff -u "$golden" "$work/all" || fail "messages differ from $golden (BLESS=1 accepts them)"

# an error whose place knows nothing better to do has the usual hint of its kind, in either form
for words in 'tune --replay nothing.json' 'watch --config nothing.conf' 'history import nothing.csv' 'export --critical-path --format csv recorded/run.tacho'; do
    # shellcheck disable=SC2086 # options that are words
    "$TACHO" $words > "$work/out" 2> "$work/err" < /dev/null && fail "$words: nothing is wrong"
    grep -q '^hint: .' "$work/err" || fail "$words: no hint: $(cat "$work/err")"
done
"$TACHO" tune --json --replay nothing.json 2>&1 | grep -q '"hint":".' || fail "no hint in JSON"

# --help of a command is the same text; --version is version
for command in run report import export recover verify sql doctor version help; do
    cmp -s <("$TACHO" help $command) <("$TACHO" $command --help) || fail "$command --help differs from help $command"
done
# all options of a command are known to it, also the last one of a long list
for command in $("$TACHO" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    option=$("$TACHO" help "$command" | sed -n 's/^  \(-., \|    \)\(--[a-z][a-z-]*\).*/\2/p' | grep -vx -e --help | tail -n 1)
    [ -z "$option" ] || ! "$TACHO" "$command" "$option" --help < /dev/null 2>&1 | grep -q "unknown option '$option'" || fail "$command $option"
done
[ "$("$TACHO" --version)" = "$("$TACHO" version)" ] || fail "--version"
"$TACHO" version --verbose > "$work/version" || fail "version --verbose"
for library in SQLite jansson libpfm4 libdw ncurses CUDA; do grep -q "^$library: " "$work/version" || fail "version --verbose: no $library"; done

# colour: only on a terminal, never with NO_COLOR
if command -v script > /dev/null; then
    colored() { script -qec "env -u NO_COLOR TERM=xterm $1" /dev/null < /dev/null | grep -c $'\e\['; }
    [ "$(colored "$TACHO reprot")" != 0 ] || fail "no colour on a terminal"
    [ "$(colored "env NO_COLOR=1 $TACHO reprot")" = 0 ] || fail "colour in spite of NO_COLOR"
    [ "$(colored "env TERM=dumb $TACHO reprot")" = 0 ] || fail "colour on a dumb terminal"
fi
! env -u NO_COLOR TERM=xterm "$TACHO" reprot 2>&1 | grep -q $'\e' || fail "colour in a pipe"
