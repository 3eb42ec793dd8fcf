# SPDX-License-Identifier: Apache-2.0
# Shared by the report scripts: sourced, not run.
# shellcheck shell=bash disable=SC2034 # data: the scripts use it
SRC=${SRC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)}
# text that the engine learns
data=/usr/share/common-licenses
[ -d "$data" ] || data=$SRC/LICENSE
fail() {
    echo "FAIL: $*"
    exit 1
}
# attempt TIMES COMMAND: other work on the machine may disturb one run, not all of them. Each further try prints a line.
attempt() {
    local times=$1 try why=
    shift
    for ((try = 1; try <= times; try++)); do
        why=$("$@") && { echo "$why"; return; }
        echo "$why"
        [ $try = "$times" ] || echo "retry: $* (try $((try + 1)) of $times): $(tail -n 1 <<< "$why")"
    done
    fail "$*"
}
# work_folder: the script stands in an empty folder, removed at its end
work_folder() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/tacho-report-XXXXXX") || exit 1
    trap 'cd /; rm -rf "$work"' EXIT
    cd "$work" || exit 1
}
# traces_for_script: for scripts that compare every shared trace with a brute-force script: $traces, an empty folder, a cache of its own
traces_for_script() {
    traces=${TACHO_TRACES:-$SRC/../shared/traces}
    if [ ! -d "$traces" ]; then
        echo "no shared traces: $traces is not there (TACHO_TRACES names another folder)"
        exit 77
    fi
    if ! command -v python3 > /dev/null; then
        echo "needs python3 for the brute-force script"
        exit 77
    fi
    traces=$(cd "$traces" && pwd)
    work_folder
    export XDG_CACHE_HOME=$PWD/cache
}
# every_trace SCRIPT: compares the report of each shared trace, ./NAME.report, with the answer of a brute-force script
every_trace() {
    local trace name pairs=()
    check=$1
    for trace in "$traces"/*.json.gz "$traces"/*.sqlite.gz; do
        name=$(basename "$trace")
        [ -f "$trace" ] || continue
        "$TACHO" report "$trace" --json > "$name.report" 2> err || fail "$name: report: $(cat err)"
        pairs+=("$trace" "$name.report")
    done
    python3 "$check" "${pairs[@]}" > out 2>&1 || fail "$(tail -n 20 out)"
    cat out
    [ "$(grep -c ' numbers compared, 0 differ' out)" = $((${#pairs[@]} / 2)) ] || fail "a trace was not compared"
    [ ${#pairs[@]} -ge 20 ] || fail "only $((${#pairs[@]} / 2)) traces in $traces"
}
# spoil NAME [WHAT PYTHON]...: after every_trace; each statement changes r, the report of this trace, and the script must notice
spoil() {
    python3 "$check" --spoil "$traces/$1" "$1.report" "${@:2}" > out 2>&1 || fail "$(tail -n 20 out)"
}
# engine RUN COMMAND...: the engine learns from $data under tacho; $on, an array, stands in front (taskset)
on=(env)
engine() {
    local run=$1
    shift
    rm -f "$run"
    "${on[@]}" "$TACHO" run -o "$run" --no-peak --overhead 0 -- "$@" --data "$data" --log-every 0 > log 2>&1 ||
        { cat log; fail "the run failed"; }
}
# field FILE SECTION KEY: a value of tacho-report/1, which has one key a line
field() {
    awk -v section="^ \"$2\":" -v key="^  \"$3\":" '$0 ~ section { on = 1; next } on && /^ [}\]]/ { exit } on && $0 ~ key { sub(/^[^:]*: /, ""); sub(/,$/, ""); print; exit }' "$1"
}
# mpi_environment: mpirun starts ranks for root too, and a rank that waits lets others run
mpi_environment() {
    export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
}
# train_with_ranks: for scripts that start train under mpirun: $data to train on, in an empty folder
train_with_ranks() {
    command -v mpirun > /dev/null || { echo "no mpirun"; exit 77; }
    "$TRAIN" --help all | grep -q -- --slow-rank || { echo "train was built without MPI"; exit 77; }
    command -v python3 > /dev/null || { echo "needs python3 to read the report"; exit 77; }
    work_folder
    mpi_environment
}
