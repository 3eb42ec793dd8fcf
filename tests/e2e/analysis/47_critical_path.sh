#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# Critical paths of shared traces and of runs of the engine (0 and 2 workers, a slow loader, two ranks with a slow one), held
# against the run by a brute-force script: cover, ranges, hand-overs, sums. The export is a timeline that reads back as the run.
set -u
# shellcheck source=tests/e2e/kit/cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work_folder path
export XDG_CACHE_HOME=$work/cache

# exact NAME RUN LEAST: checks the path of a run, of which LEAST per cent must be explained (0: any share), and its report.json
exact() {
    expect 0 "$TACHO" export "$2" --critical-path -f csv -o path.csv
    python3 "$here/path_exact.py" "$2" path.csv report.json "$3" > said 2>&1 || fail "$1: $(cat said)"
    echo "$1: $(tail -1 said)"
}
reported() { # RUN: report.json
    expect 0 "$TACHO" report "$1" --json
    cp "$work/out" report.json
}
# path EXPRESSION: of p, the path in the last report
path() {
    python3 -c "
import json, sys
p = json.load(open('report.json'))['critical_path']
share = lambda k: p['by_cause_us'].get(k, 0) / p['length_us']
sys.exit(not ($1))" || fail "not so: $1: $(python3 -c "import json; print(json.load(open('report.json'))['critical_path']['by_cause_us'])")"
}

# What a run of the engine spends its time with depends on the machine: claims about that are made with TIMING only.
least=0 read=0.05 decode=0.03 pause=0.05
[ -z "${TIMING:-}" ] || least=99 read=0.2 decode=0.1 pause=0.15
claim() { [ -z "${TIMING:-}" ] || path "$1"; }

# ---- the engine -------------------------------------------------------------------------------------------------------------
# OMP_NUM_THREADS=1 and small steps: the loader's and the slow rank's delays are sleeps, with TIMING larger than what other work
# disturbs
engine() {
    local run=$1
    shift
    OMP_NUM_THREADS=1 "$TACHO" run -o "$run" --no-peak --overhead 0 -- "$@" > log 2>&1 || fail "$*: $(tail -3 log)"
    reported "$run"
}
tiny=(gpt2-tiny --layers 2 --channels 64 --heads 2 --batch 2 --seq 64 --steps 16 --log-every 0)
for workers in 0 2; do
    engine e$workers.tacho "$TRAIN" "${tiny[@]}" --workers $workers
    exact "engine, $workers workers" e$workers.tacho "$least"
    path "p['device'] == 'cpu'"
    claim "not p['doubt'] and share('compute') > 0.5"
done
engine slow.tacho "$TRAIN" "${tiny[@]}" --workers 2 --slow read=$read
exact "engine, slow loader" slow.tacho "$least"
claim "share('input') > 0.8" # the workers sleep one after another: what the step's thread does at the same time is not on the path
path "any(o['name'] == 'read' and o['cause'] == 'input' for o in p['by_op'])"
claim "any(o['name'] == 'read' and o['cause'] == 'input' and o['pct'] > 70 for o in p['by_op'])"
engine line.tacho "$TRAIN" "${tiny[@]}" --workers 0 --slow decode=$decode
exact "engine, slow in line" line.tacho "$least"
path "any(o['name'] == 'decode' for o in p['by_op'])"
claim "p['by_op'][0]['name'] == 'decode' and abs(p['by_cause_step_median_ms']['input'] - 100) < 30"
if command -v mpirun > /dev/null; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
    engine ranks.tacho mpirun -np 2 --bind-to none --oversubscribe "$TRAIN" "${tiny[@]}" --workers 1 --slow-rank 1=$pause
    exact "engine, two ranks, the second one slow" ranks.tacho "$least"
    path "any(o['name'] == 'sleep' for o in p['by_op'])"
    claim "any(o['name'] == 'sleep' and o['pct'] > 50 for o in p['by_op'])" # whichever rank's windows these are
    claim "share('peers') < 0.05"                                          # nobody on the path waits: the path goes to who is waited for
else
    echo "mpirun is not there: two ranks are not looked at"
fi
[ -z "${TIMING:-}" ] || exit 0 # the rest does not depend on the machine
# ---- ranks with devices: whoever's windows these are, the path is the slow rank's work and the transfer
# of_rank RUN RANK: per cent of path.csv that lies on tracks of the rank
of_rank() {
    python3 - "$@" << 'END'
import csv, sqlite3, sys
own = {i for i, in sqlite3.connect(sys.argv[1]).execute("SELECT id FROM track WHERE process IN (SELECT id FROM process WHERE rank = ?)", (int(sys.argv[2]),))}
rows = [(int(r["end_ns"]) - int(r["start_ns"]), r["track"] != "" and int(r["track"]) in own) for r in csv.DictReader(open("path.csv"))]
print(round(100 * sum(ns for ns, on in rows if on) / sum(ns for ns, _ in rows), 1))
END
}
other=0 # windows of another rank than the slow one: there the path has to cross over
for ranks in 2 4; do
    for numbers in "" --no-sequence; do
        rm -rf many many.tacho
        python3 "$here/../ranks/many_ranks.py" many --ranks $ranks --slow 1 --factor 1.5 --kernels 8 $numbers || fail "many_ranks.py"
        expect 0 "$TACHO" import many -o many.tacho
        reported many.tacho
        exact "$ranks ranks with devices${numbers:+, $numbers}" many.tacho 99
        path "p['device'] == 'gpu:0' and not p['doubt'] and share('peers') == 0"
        path "share('compute') > 0.9 and 0.005 < share('communication') < 0.02" # half of the transfer lies behind the last gradient
        share=$(of_rank many.tacho 1)
        echo "$share % of the path is the slow rank's"
        python3 -c "import sys; sys.exit($share < 90)" || fail "the path does not go to the slow rank: $share %"
        python3 -c "import json, sys; sys.exit(json.load(open('report.json'))['critical_path']['rank'] == 1)" && other=$((other + 1))
    done
done
[ $other -ge 1 ] || fail "all windows are the slow rank's own: nothing crossed over"
for format in folded stacks; do expect 2 "$TACHO" export e0.tacho --critical-path -f $format; done
expect 0 "$TACHO" export e2.tacho --critical-path -o path.json
python3 - << 'END' || fail "the overlay"
import json, sys
events = json.load(open("path.json"))["traceEvents"]
path = [e for e in events if e.get("cat") == "critical_path"]
spans = sorted((float(e["ts"]), float(e["dur"])) for e in path if e["ph"] == "X")
rows = sum(1 for _ in open("path.csv")) - 1
heads = {e["id"]: e for e in path if e["ph"] == "f"}
tails = {e["id"]: e for e in path if e["ph"] == "s"}
ok = len(spans) > 100 and set(heads) == set(tails)
own = {e["pid"] for e in path if e["ph"] == "X"}
ok = ok and len(own) == 1 and not any(e.get("pid") in own and e.get("cat") != "critical_path" for e in events)
sys.exit(not ok)
END

# ---- shared traces ------------------------------------------------------------------------------------------------------------
traces=${TACHO_TRACES:-$SRC/../shared/traces}
[ -d "$traces" ] || { echo "no shared traces: TACHO_TRACES names no folder; the rest passed"; exit 0; }
cat > same.py << 'END'
import sqlite3, sys
def rows(path):
    db = sqlite3.connect(path)
    return sorted(db.execute("""SELECT s.start, s.dur, (SELECT text FROM string WHERE id = s.name), (SELECT text FROM string WHERE id = s.category),
        t.kind, t.device FROM slice s JOIN track t ON t.id = s.track"""), key=str), db.execute("SELECT count(*) FROM process").fetchone()
sys.exit(rows(sys.argv[1]) != rows(sys.argv[2]))
END
# A few of them; long_critical_path.sh takes every one.
few='alexnet|minitoy|_num_workers_4_|mi300' enough=3
[ -z "${EVERY_TRACE:-}" ] || few=. enough=10
paths=0
for trace in "$traces"/*.gz; do
    name=$(basename "$trace")
    name=${name%%.*}
    [[ $name =~ $few ]] || continue
    expect 0 "$TACHO" import "$trace" -o t.tacho
    reported t.tacho
    if why=$(python3 -c "
import json, sys
r = json.load(open('report.json'))
print(r['absent'].get('/critical_path/window_us', '')[:90])
sys.exit(r['critical_path']['window_us'] is not None)"); then
        echo "$name: no path: $why"
        expect 3 "$TACHO" export t.tacho --critical-path -o none.json
        [ ! -e none.json ] || fail "$name: an export without a path left a file"
    else
        exact "$name" t.tacho 90
        paths=$((paths + 1))
    fi
    rm -f t.tacho
done
[ $paths -ge $enough ] || fail "only $paths traces have a path"
expect 0 "$TACHO" import "$traces/hta_ns_resolution_rank0.json.gz" -o a.tacho
expect 0 "$TACHO" export a.tacho --critical-path -o a.json
expect 0 "$TACHO" import a.json -o b.tacho
python3 same.py a.tacho b.tacho || fail "the timeline with the path on top does not read back as the run"
exit 0
