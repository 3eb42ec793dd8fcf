# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts about the dashboard: sourced, not run. A terminal in which it runs, keys, what the screen shows, a run that lives.
# shellcheck shell=bash disable=SC2034
# it ends without waiting long for an analysis that is being made: a thread that was not joined is meant so
export TSAN_OPTIONS=${TSAN_OPTIONS:-}:report_thread_leaks=0
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/cli_common.sh"
any_verdict='BOUND\|HEALTHY\|UNEXPLAINED\|OTHER PROGRAMS' # the last one beside other work
command -v tmux > /dev/null || { echo "needs tmux"; exit 77; }
work_folder top
"$TRAIN" gpt2-tiny --help > /dev/null 2>&1 || { echo "needs the program train"; exit 77; }
# shellcheck disable=SC2154 # work_folder sets it
# the path of a socket may be 107 characters long, which a folder below the build can exceed
sockets=$(mktemp -d /tmp/tacho-tmux-XXXXXX) || exit 1
export TMUX_TMPDIR=$sockets XDG_CONFIG_HOME=$work/config OMP_NUM_THREADS=1
unset NO_COLOR TMUX
unset "${!LC_@}" LANG
export LC_ALL=C.UTF-8
recorder=
trap 'tmux -L "tacho$terminals" kill-server 2> /dev/null; [ -z "$recorder" ] || kill -KILL $(pgrep -P "$recorder") "$recorder" 2> /dev/null; cd /; rm -rf "$work" "$sockets"' EXIT

terminals=0 # a server of its own for each: one that ends answers for a while
tm() { tmux -L "tacho$terminals" -f /dev/null "$@"; }
screen() { tm capture-pane -p; }
# the table of operations, without the head above it: which operation the verdict there names is the machine's
table() { screen | sed -n '/own time/,$p'; }
keys() { tm send-keys "$@"; }
# sees PATTERN [COMMAND]: waits until the screen, or what COMMAND shows of it, has it
sees() {
    local i
    for ((i = 0; i < 600; i++)); do
        "${2:-screen}" | grep -q -- "$1" && return 0
        sleep 0.1
    done
    screen
    fail "the screen never showed '$1'"
}
gone() { # PATTERN [COMMAND]: waits until it is not there any more
    local i
    for ((i = 0; i < 600; i++)); do
        "${2:-screen}" | grep -q -- "$1" || return 0
        sleep 0.1
    done
    screen
    fail "the screen still shows '$1'"
}
# shell ROWS COLUMNS [LOCALE]: a terminal with a shell in it
shell() {
    tm kill-server 2> /dev/null
    terminals=$((terminals + 1))
    LC_ALL=${3:-C.UTF-8} tm new-session -d -x "$2" -y "$1" "cd '$PWD' && exec env LC_ALL=${3:-C.UTF-8} PS1='ready> ' HISTFILE= bash --norc -i"
    sees 'ready>'
}
pid_of_top() { pgrep -P "$(tm display -p '#{pane_pid}')" -x tacho; }
dash() { # ARGUMENTS: starts it in the shell; its exit code is shown when it ends
    keys "stty -g > $work/before; $TACHO top $*; echo \"code \$?\"; stty -g > $work/after" Enter
}
sane() { # CODE: it ended with that code and left the terminal as it was
    sees "code $1"
    sees 'ready>'
    for _ in $(seq 600); do [ -s "$work/after" ] && break; sleep 0.1; done
    cmp "$work/before" "$work/after" || fail "the terminal was left in another mode"
    [ "$(tm display -p '#{cursor_flag}#{alternate_on}')" = 10 ] || fail "the cursor is hidden, or the alternate screen is left on"
    rm -f "$work/after"
}

# ---- a run that lives: its loader sleeps for most of a step, so that it leaves the cores to what is looked at
endless=("$TRAIN" gpt2-tiny --data "$SRC/LICENSE" --steps 1000000 --batch 1 --seq 32 --workers 0 --slow decode=0.05)
record() {
    "$TACHO" run -o live.tacho -- "${endless[@]}" > "$work/run" 2>&1 &
    recorder=$!
    for _ in $(seq 600); do [ -f live.tacho.live/run.db ] && break; sleep 0.1; done
}
stop_run() {
    kill -TERM "$(pgrep -P "$recorder" -x train)"
    wait "$recorder"
    recorder=
}
step() { screen | sed -n '1s/.* step \([0-9]*\).*/\1/p'; }
