#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The budgets of the design, measured on this machine: one table `what | measured | budget | verdict`, about ten minutes.
# Each benchmark prints rows of four columns separated by tabs; other lines of theirs are shown as they are.
# usage: tests/bench/run.sh BUILD [REGEX]      environment: BENCH_SECONDS (default 240: length of each slowdown run)
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(cd "${1:?BUILD}" && pwd) || exit 1
filter=${2:-}
seconds=${BENCH_SECONDS:-240}
work=$build/bench
rm -rf "$work"
mkdir -p "$work" || exit 1
export XDG_CACHE_HOME=$build/tests/cache
bad=0

echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo), Linux $(uname -r)"
echo "date:    $(date -u '+%Y-%m-%d %H:%M UTC'), load $(cut -d' ' -f1-3 /proc/loadavg) before"
echo "build:   $("$build/tacho" version | head -n 1)$(git rev-parse --short HEAD 2> /dev/null | sed 's/^/, commit /'), ${CC:-gcc} $(${CC:-gcc} -dumpfullversion 2> /dev/null || ${CC:-gcc} -dumpversion)"
echo

printf '%-44s %-62s %-9s %s\n' what measured budget verdict
# rows NAME COMMAND...: runs it in the work folder and formats its rows
rows() {
    local name=$1 rc
    shift
    [[ -z "$filter" || "$name" =~ $filter ]] || return 0
    (cd "$work" && "$@") > "$work/$name.out" 2> "$work/$name.err"
    rc=$?
    awk -F '\t' 'NF == 4 {printf "%-44s %-62s %-9s %s\n", $1, $2, $3, $4; next} {print}' "$work/$name.out"
    if [ $rc != 0 ]; then
        echo "$name failed with status $rc:"
        tail -n 5 "$work/$name.err"
        bad=1
    fi
}
for source in tests/bench/*.c; do
    name=$(basename "$source" .c)
    case $name in
    slowdown) ;; # below
    lt_*) ;; # make bench-engine
    agent) rows agent "$build/tests/bench/agent" "$build" ;;
    graph) ;; # import.sh, on its trace
    import) rows import "$PWD/tests/bench/import.sh" "$build" ;;
    *) rows "$name" "$build/tests/bench/$name" ;;
    esac
done
rows hook "$PWD/tests/bench/hook.sh" "$build"
rows stacks "$PWD/tests/bench/stacks.sh" "$build"
rows parallel "$PWD/tests/bench/parallel.sh" "$build"
rows top "$PWD/tests/bench/top.sh" "$build"
rows many-ranks "$PWD/tests/bench/many_ranks.sh" "$build"
find /usr/share/common-licenses -maxdepth 1 -type f 2> /dev/null | sort | xargs cat LICENSE > "$work/text"
slowdown() { # SIZE BUDGET SECONDS MIN_STEPS ARGUMENTS...
    local size=$1 budget=$2 time=$3 least=$4
    shift 4
    rows "slowdown-$size" "$build/tests/bench/slowdown" "$build/libtacho.so" "$size" "$budget" "$time" "$least" \
        "$build/train" "$size" --data "$work/text" "$@"
}
slowdown gpt2-tiny 0 20 2000 --batch 1 --seq 64
slowdown gpt2-124M 1 "$seconds" 60
echo
echo "load $(cut -d' ' -f1-3 /proc/loadavg) after; outputs in $work"
grep -l $'\tOVER$' "$work"/*.out > /dev/null 2>&1 && echo "over budget: see the lines above"
exit $bad
