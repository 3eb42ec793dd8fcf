# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts that have tacho read hostile files: sourced after cli_common.sh and work_folder, not run.
# shellcheck shell=bash disable=SC2034,SC2154
commands=0 refused=0 wrong_ends=0
cpu_s=$((5 * (${#SAN} > 0 ? 3 : 1)))
memory_kib=$((2 << 20))

# bounded WHAT COMMAND...: at most $cpu_s s of processor time, and of wall-clock time so many that only a command that waits for
# something reaches them. The command ends well: exit 0, or a message on standard error and exit 1, 2, 3, 4 or 6, with a hint that says
# what to do (but for exit 1, which judges a run); with --json the message is an object.
bounded() {
    local what=$1 rc message='^tacho: ' hint='^hint: '
    shift
    case " $* " in *' --json '*) message='^{"schema":"tacho-message/1","kind":"error",.*}$' hint='"hint":"' ;; esac
    commands=$((commands + 1))
    (
        ulimit -c 0 -t "$cpu_s"
        [ -n "${SAN:-}" ] || ulimit -v $memory_kib # a sanitizer reserves terabytes
        exec timeout -k 1 120 "$@"
    ) > "$work/out" 2> "$work/err" < /dev/null
    rc=$?
    case $rc in
    0) return ;;
    1 | 2 | 3 | 4 | 6)
        refused=$((refused + 1))
        grep -q "$message" "$work/err" && { [ $rc = 1 ] || grep -q "$hint" "$work/err"; } && return
        ;;
    esac
    wrong_ends=$((wrong_ends + 1))
    echo "FAIL: $what: exit code $rc of $*: $(head -c 400 "$work/err")"
    [ -z "${KEEP:-}" ] || cp bad.tacho "$KEEP/$wrong_ends.tacho"
}

# read_all FILE WHAT: every command that reads a run. other.tacho, if there is one, is of another recording than FILE: what can be
# merged with it
read_all() {
    local form
    for form in '' --json --html --markdown '--markdown --full'; do
        bounded "$2" "$TACHO" report "$1" $form
    done
    for form in perfetto folded stacks csv; do
        bounded "$2" "$TACHO" export "$1" --format $form -o out.$form
    done
    bounded "$2" "$TACHO" top --batch -n 1 "$1"
    bounded "$2" "$TACHO" top --json -n 1 "$1"
    bounded "$2" "$TACHO" advise "$1"
    bounded "$2" "$TACHO" diff good.tacho "$1"
    bounded "$2" "$TACHO" diff "$1" good.tacho --json
    bounded "$2" "$TACHO" sql "$1" 'SELECT count(*), max(dur), max(length(text)) FROM slice LEFT JOIN string ON string.id = name'
    bounded "$2" "$TACHO" merge good.tacho "$1" -o merged.tacho
    [ ! -f other.tacho ] || bounded "$2" "$TACHO" merge other.tacho "$1" --force -o merged.tacho
    rm -f out.* merged.tacho
}
