#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzz targets of a build, one after the other. usage: tests/fuzz/run.sh BUILD SECONDS [TARGET...]
# Corpora grow in BUILD/corpus/TARGET; what crashes, hangs or leaks is kept in BUILD/crashes. A row a target: name, executions,
# seconds, coverage, processor time in all runs of this build (kept in BUILD/fuzz-cpu), what was found. The last line has the
# processor hours of all targets. tests/fuzz/page.py adds them to those of former builds. Exit status: 0 when nothing was found.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:?BUILD} seconds=${2:?SECONDS}
shift 2
traces=${TACHO_TRACES:-../shared/traces}
if [ $# = 0 ]; then
    for target in "$build"/tests/fuzz/fuzz_*; do set -- "$@" "${target##*/}"; done
fi
by_chance() { # FOLDER: bytes by chance, the same ones each time
    for seed in $(seq 24); do
        LC_ALL=C awk -v s="$seed" 'BEGIN { srand(s); n = 40 * s; for (i = 0; i < n; i++) printf "%c", int(rand() * 256) }' \
            < /dev/null > "$1/$seed"
    done
}
children_s() { # $s: processor time of the commands that ended, seconds
    times > "$build/crashes/times.$$" # not in a subshell, which has no children yet
    s=$(sed -n 2p "$build/crashes/times.$$" | awk -F '[ms ]+' '{ print 60 * ($1 + $3) + $2 + $4 }')
}
cpu_of() { # [TARGET]: hours in all runs, of one target or of all
    awk -v name="${1-}" 'name == "" || $1 == name { s += $2 } END { printf "%.3f", s / 3600 }' "$build/fuzz-cpu"
}
# only_waited TARGET: its run ended at an input that took too long, and alone that input takes less than 10 s of processor time: others
# had the processor
only_waited() {
    file=$(sed -n 's/.*Test unit written to \(.*-timeout-.*\)/\1/p' "$build/crashes/$1.log" | tail -n 1)
    [ -n "$file" ] || return 1
    prlimit --cpu=10 "$build/tests/fuzz/$1" "$file" > "$build/crashes/$1.again" 2>&1 || return 1
    rm -f "$file" "$build/crashes/$1.again"
}
found=0
trap 'rm -f "$build/crashes/times.$$"' EXIT
mkdir -p "$build/crashes"
touch "$build/fuzz-cpu"
for target in "$@"; do
    corpus=$build/corpus/$target
    mkdir -p "$corpus"
    case $target in
    fuzz_kineto*)
        if [ -d "$traces" ] && command -v python3 > /dev/null; then
            python3 tests/fuzz/seeds.py "$traces" "$build/seeds/kineto"
        else
            echo "fuzz: no traces in $traces, or no python3: $target starts without seeds" >&2
            mkdir -p "$build/seeds/kineto"
        fi
        seeds=$build/seeds/kineto
        ;;
    fuzz_xplane | fuzz_xla_json | fuzz_flight | fuzz_rocprof | fuzz_rocpd | fuzz_ascend | fuzz_ascend_csv | fuzz_pickle | fuzz_log | fuzz_tfevents | \
        fuzz_chakra | fuzz_inspector | fuzz_perfetto | fuzz_pprof | fuzz_unitrace | fuzz_workers)
        seeds=$build/seeds/$target
        tests/fuzz/formats.sh "$target" "$seeds"
        ;;
    *)
        seeds=$build/seeds/$target # made by the target's own script, where it has one
        mkdir -p "$seeds"
        if [ -x "tests/fuzz/$target.sh" ]; then "tests/fuzz/$target.sh" "$traces" "$seeds"; else by_chance "$seeds"; fi
        ;;
    esac
    log=$build/crashes/$target.log
    children_s
    before=$s
    # a hang is an input that takes 10 s: a run of the whole target takes milliseconds
    "$build/tests/fuzz/$target" -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$build/crashes/$target-" "$corpus" "$seeds" > "$log" 2>&1
    rc=$?
    [ $rc = 0 ] || ! only_waited "$target" || rc=0
    children_s
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
    cover=$(grep -ao 'cov: [0-9]*' "$log" | tail -n 1)
    if [ $rc = 0 ]; then what=nothing bad=0; else what="FOUND (see $log)" found=1 bad=1; fi
    awk -v name="$target" -v before="$before" -v after="$s" -v runs="${runs:-0}" -v bad=$bad \
        'BEGIN { OFS = "\t"; print name, after - before, runs, bad }' >> "$build/fuzz-cpu"
    printf '%s\t%s executions\t%s s\t%s\t%s CPU h\t%s\n' "$target" "${runs:-?}" "$seconds" "${cover:-cov: ?}" "$(cpu_of "$target")" "$what"
done
echo "fuzz: $(cpu_of) CPU hours in all runs of $build"
exit $found
