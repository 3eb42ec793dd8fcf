#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# wide: yes
# Files that were cut off where one message or one database is the whole file: what is intact is read, what is lost is counted and named.
# And files that say once what is long and name it again and again, or that are computed when they are read: they cost no more than
# their size.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
work_folder
export XDG_CACHE_HOME=$PWD/cache
python3 "$here/hostile.py" make made || fail "the files were not made"
rows_of() { "$TACHO" sql "$1" "$2" --csv | tail -n +2 | tr -d '\r'; }
is() { # WHAT FOUND WANTED
    [ "$2" = "$3" ] || fail "$1: not '$3' but '$2'"
}
import() { # FILE RUN: within 10 s of processor time, of which other builds take more
    (ulimit -t 10 && exec "$TACHO" import "made/$1" -o "$2") > out 2> err || fail "$1: $(cat err)"
}
losses="SELECT reason || '=' || count FROM loss ORDER BY 1"
refused() { # FILE WORDS...
    (ulimit -t 10 && exec "$TACHO" import "made/$1" -o never.tacho) > out 2> err
    [ $? = 3 ] || fail "$1: not exit status 3: $(cat err)"
    grep -q '^hint: ' err || fail "$1: no hint: $(cat err)"
    for word in "${@:2}"; do grep -qF -- "$word" err || fail "$1: '$word' is not in: $(cat err)"; done
    [ -e never.tacho ] && fail "$1: refused, and a file is there"
}

# ---- an XPlane: whole planes, and of the one that is cut what has its names
for cut in whole second named between device; do import cut/$cut.xplane.pb $cut.tacho; done
count="SELECT count(*) FROM slice"
is "a whole XPlane" "$(rows_of whole.tacho "$count"),$(rows_of whole.tacho "$losses")" 8,
is "the host is cut in its events" "$(rows_of second.tacho "$count")" 4
rows_of second.tacho "$losses" | tr -d '"' > found
grep -qx 'file ends in the middle of plane /host:CPU=1' found || fail "the plane is not named: $(cat found)"
grep -q '^event of plane /host:CPU without its name: the file was cut off=[34]$' found || fail "its events are not counted: $(cat found)"
is "the host is cut in its names" "$(rows_of named.tacho "SELECT text FROM slice s JOIN string n ON n.id = s.name WHERE text LIKE 'call%' ORDER BY start" |
    tr '\n' ' ')" 'call0 call1 '
rows_of named.tacho "$losses" | grep -q 'without its name: the file was cut off=2' || fail "two events: $(rows_of named.tacho "$losses")"
is "between two planes" "$(rows_of between.tacho "$count")" 4
rows_of between.tacho "$losses" | grep -q 'between its planes' || fail "between: $(rows_of between.tacho "$losses")"
is "a device without names of statistics" "$(rows_of device.tacho "SELECT c.text, count(*) FROM slice s JOIN string c ON c.id = s.category GROUP BY 1" |
    tr '\n' ' ')" 'kernel,3 memcpy,1 '
refused cut/only.xplane.pb 'cut off in plane /device:GPU:0' 'none has its name' 'stop_trace()'

# ---- a database: up to the pages that are gone
read -r pages gone < made/cut/pages
for cut in whole half ragged tenth; do import cut/$cut.db db_$cut.tacho; done
is "a whole database" "$(rows_of db_whole.tacho "$count"),$(rows_of db_whole.tacho "$losses")" 40000,
for cut in half ragged; do
    rows_of db_$cut.tacho "$losses" | tr -d '"' > found
    grep -qx "database page missing: the file was cut off=$gone" found || fail "$cut: not $gone of $pages pages: $(cat found)"
done
python3 - << 'END' || fail "rows of the cut databases"
import sqlite3, sys
slices = "SELECT n.text, c.text, start, dur, correlation FROM slice s JOIN string n ON n.id = s.name JOIN string c ON c.id = s.category"
def rows(name):
    return set(sqlite3.connect(f"file:db_{name}.tacho?mode=ro", uri=True).execute(slices))
whole = rows("whole")
for name, least in (("half", 17000), ("ragged", 17000), ("tenth", 2500)):
    found = rows(name)
    if not found < whole or len(found) < least:
        sys.exit(f"{name}: {len(found)} of {len(whole)} rows, {len(found - whole)} that are not there: {sorted(found - whole)[:3]}")
END
# what is too long to be read is a loss of its own record, in whatever order SQLite would go through a table
import cut/long.db db_long.tacho
is "records beside those that are too long" "$(rows_of db_long.tacho "SELECT substr(n.text, 1, 30), count(*), count(DISTINCT start) FROM slice s
    JOIN string n ON n.id = s.name GROUP BY 1 ORDER BY 1" | tr '\n' ' ')" \
    '(kernel without a name),6667,6667 gemm,6666,6666 hipLaunchKernel,19999,19999 softmax,6667,6667 '
is "what is too long" "$(rows_of db_long.tacho "$losses" | tr -d '"')" 'record with a text beyond 256 KiB: not read=2'
import cut/leading.rpd leading.tacho
rows_of leading.tacho "$losses" | grep -q 'damaged: the rest of it was not read' || fail "pages that lead to each other: $(rows_of leading.tacho "$losses")"
import cut/log.rpd log.tacho
# where the import may read nothing but the file, rows in the log beside it are missing, and it says so
found="$(rows_of log.tacho "$count") $(rows_of log.tacho "$losses" | tr -d '"')"
[ "$found" = '100 log beside the database (-wal) was not read=1' ] || [ "$found" = '1000 ' ] || fail "a log beside a database: $found"
import cut/threads.sqlite cut_threads.tacho
names=$(rows_of cut_threads.tacho "SELECT count(*) FROM track WHERE name = 'worker'")
[ "$names" -gt 2000 ] && [ "$names" -lt 6000 ] || fail "names of threads before the cut: $names"
rows_of cut_threads.tacho "$losses" | tr -d '"' | grep -qxF 'table of names is damaged (kept: what is named after the damage has no name)=1' ||
    fail "names of threads that are lost: $(rows_of cut_threads.tacho "$losses")"
refused cut/two.db 'a rocpd database that is cut off' "of its $pages pages"

# a plane and a page are no events: how many they had is not known
for cut in between second db_half; do
    "$TACHO" report $cut.tacho --json > out 2> err || fail "$cut: $(cat err)"
    grep -q '"lost_events": null' out || fail "$cut: $(grep '"lost_events"' out)"
done
"$TACHO" import made/cut/between.xplane.pb -o said.tacho 2> err
grep -q ' events, an unknown number lost, truncated at the end' err || fail "what is lost: $(cat err)"

# ---- what is long is read once
for file in statistics.xplane.pb names.xplane.pb long.pftrace location.pb operation.json many arrows.json long.sqlite threads.sqlite bomb.pftrace; do
    import $file "$file.tacho"
done
(ulimit -t 10 -v 1500000 && exec "$TACHO" import made/counters.json -o counters.tacho) 2> err || fail "counters: $(cat err)"
(ulimit -t 10 -v 600000 && exec "$TACHO" import made/flight.json -o flight.tacho) 2> err || fail "a flight recorder dump: $(cat err)"
is "collectives" "$(rows_of flight.tacho "$count"),$(rows_of flight.tacho "$losses" | tr -d '"')" '2,entry with more than 65,536 values: the others were not read=1'
is "events of a name with statistics" "$(rows_of statistics.xplane.pb.tacho "$count")" 200000
is "samples of a location" "$(rows_of location.pb.tacho "SELECT count(*), count(DISTINCT value) FROM sample")" 40000,1
is "processes" "$(rows_of many.tacho "SELECT count(*), count(DISTINCT rank) FROM process")" 60002,60002
is "names of threads" "$(rows_of threads.sqlite.tacho "SELECT count(*) FROM track WHERE name = 'worker'")" 60000
rows_of bomb.pftrace.tacho "$losses" | grep -Eq 'compressed packets that are damaged or too large=[3-5][0-9]' || fail "a bomb: $(rows_of bomb.pftrace.tacho "$losses")"
refused computed.db 'generated columns'
refused misnamed.db 'generated columns'
import far.pickle far.tacho
is "pools of parts" "$(rows_of far.tacho "SELECT count(*), sum(d.payload LIKE '%pool%') FROM slice s JOIN detail d ON d.id = s.detail
    WHERE d.schema = 'torch.segment' AND s.correlation > 0")" 1,0
python3 "$here/hostile.py" run whole.tacho || fail "no generated columns"
(ulimit -t 10 && exec "$TACHO" report whole.tacho) > out 2> err
[ $? = 3 ] || fail "a run that is computed: not exit status 3: $(cat out err)"
grep -q 'generated columns' err || fail "a run that is computed: $(cat err)"
exit 0
