#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the dashboard costs: its share of a core, the bytes it writes to the terminal, and what it costs the run that it watches
# (gpt2-tiny, live); the first frame and the memory on a file of ten million slices, made here, on a run that is just small enough
# to be analysed whole, and on an imported trace. Rows of four columns separated by tabs, as tests/bench/run.sh wants them.
# top_watch.py is the terminal.
# usage: tests/bench/top.sh BUILD      environment: TOP_SECONDS (20): length of each look, TOP_SLICES (10000000), TOP_PAIRS (12),
#                                      TACHO_TRACES: folder of traces of PyTorch
set -u
here=$(cd "$(dirname "$0")" && pwd) build=$(cd "${1:?BUILD}" && pwd) || exit 1
tacho=$build/tacho train=$build/train seconds=${TOP_SECONDS:-20} slices=${TOP_SLICES:-10000000} pairs=${TOP_PAIRS:-12}
for program in sqlite3 python3; do
    command -v $program > /dev/null || { printf 'dashboard\tneeds %s\t\tskipped\n' "$program"; exit 0; }
done
"$tacho" top < /dev/null 2>&1 | grep -q 'without ncurses' && { printf 'dashboard\tbuilt without ncurses\t\tskipped\n'; exit 0; }
work=$(mktemp -d) || exit 1
recorder=
trap '[ -z "$recorder" ] || kill $(pgrep -P $recorder) 2> /dev/null; wait; rm -rf "$work"' EXIT
cd "$work" || exit 1
export XDG_CONFIG_HOME=$work/config LC_ALL=C.UTF-8 TERM=xterm-256color
find /usr/share/common-licenses -maxdepth 1 -type f | sort | xargs cat > text
unset NO_COLOR

row() { printf '%s\t%s\t%s\t%s\n' "$@"; }
within() { awk -v a="$1" -v b="$2" 'BEGIN { print (a <= b ? "ok" : "OVER") }'; }

record() { # NAME: a run that goes on until it is stopped
    "$tacho" run -o "$1.tacho" -- "$train" gpt2-tiny --data text --steps 100000000 --batch 1 --seq 64 > /dev/null 2>&1 &
    recorder=$!
    for _ in $(seq 100); do [ -f "$1.tacho.live/run.db" ] && break; sleep 0.1; done
    sleep 3
}
stop() {
    kill "$(pgrep -P "$recorder" -x train)" 2> /dev/null
    wait "$recorder"
    recorder=
}
watch() { python3 "$here/top_watch.py" "$tacho" "$@"; }

# ---- a live run ----------------------------------------------------------------------------------------------------------------------
look() { # ROWS COLUMNS BUDGET_KIB
    local rate share rss
    read -r rate share rss < <(watch live.tacho "$1" "$2" steady "$seconds")
    row "dashboard, live gpt2-tiny, $2x$1: core" "$share % of one, $rss MiB resident" "1 %" "$(within "$share" 1)"
    row "dashboard, live gpt2-tiny, $2x$1: bytes" "$rate KiB/s in $seconds s" "$3 KiB/s" "$(within "$rate" "$3")"
}
record live
look 24 80 2
look 50 200 8

# ---- the run that is watched: blocks of one job with and without the dashboard, in turn -------------------------------------------------
watch live.tacho 24 80 pairs "$pairs" > blocks
stop
python3 "$here/top_pairs.py" live.tacho blocks

# ---- a file of ten million slices ------------------------------------------------------------------------------------------------------
rm -rf live.tacho
"$tacho" run -o big.tacho -- "$train" gpt2-tiny --data text --steps 500 --batch 1 --seq 64 > /dev/null 2>&1
python3 - big.tacho "$slices" << 'END' || exit 1
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA journal_mode=OFF")
db.execute("PRAGMA synchronous=OFF")
have, = db.execute("SELECT count(*) FROM slice").fetchone()
process, t0 = db.execute('SELECT process, min(start) FROM step').fetchone()
t1, n = db.execute('SELECT max("end"), count(*) FROM step').fetchone()
span = t1 - t0 + 1000000
for i in range(1, int(sys.argv[2]) // have + 1):
    db.execute("INSERT INTO slice (track, start, dur, name, category, detail, correlation) SELECT track, start + ?1, dur, name, category, "
               "detail, correlation FROM slice WHERE id <= ?2 ORDER BY id", (i * span, have))
    db.execute('INSERT INTO step SELECT process, "index" + ?1, start + ?2, "end" + ?2, tokens, samples, paused FROM step WHERE rowid <= ?3',
               (i * n, i * span, n))
    db.execute("INSERT INTO step_aggregate SELECT process, step + ?1, track, name, category, detail, count, total, self, steps FROM "
               "(SELECT * FROM step_aggregate WHERE step >= 0 AND step < ?1 + 0 LIMIT ?2)", (i * n, 40 * n))
    db.execute("INSERT INTO counter (track, time, value) SELECT track, time + ?1, value FROM counter WHERE id <= ?2", (i * span, 4 * n))
db.commit()
END
# look_at NAME RUN: the first frame and the memory of a run that is over
look_at() {
    local first analysed peak own
    read -r first analysed peak own < <(watch "$2" 24 80 first 5)
    row "dashboard, $1: first frame" "$first ms, analysed after $analysed ms (medians of 5)" "100 ms" "$(within "$first" 100)"
    row "dashboard, the same: memory" "$peak MiB at most, $own MiB at rest (without libraries)" "30 MiB" "$(within "$peak" 30)"
}
slices_of() { sqlite3 "$1" "SELECT printf('%.1f', max(id) / $2) FROM slice"; }
look_at "$(slices_of big.tacho 1e6) M slices, $(($(stat -c %s big.tacho) / 1048576)) MiB" big.tacho

# ---- a run that is analysed whole, and what is replayed of it: the loader in line, so that findings have edits ----------------------------
rm -f big.tacho
"$tacho" run -o whole.tacho -- "$train" gpt2-tiny --data text --steps 690 --workers 0 --batch 1 --seq 64 --slow collate=0.01 > /dev/null 2>&1
look_at "$(slices_of whole.tacho 1e3) k slices, analysed whole" whole.tacho

# ---- an imported trace ---------------------------------------------------------------------------------------------------------------------
traces=$(cd "${TACHO_TRACES:-$here/../../../shared/traces}" 2> /dev/null && pwd)
trace=$traces/kineto_tb_resnet50_num_workers_0_steps16-21_rank0.json.gz
if [ -f "$trace" ]; then
    "$tacho" import "$trace" -o imported.tacho > /dev/null 2>&1
    look_at "$(slices_of imported.tacho 1e3) k slices, imported from PyTorch" imported.tacho
else
    row "dashboard, an imported trace" "needs TACHO_TRACES" "" skipped
fi
