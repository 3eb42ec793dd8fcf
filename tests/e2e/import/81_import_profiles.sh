#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Perfetto's own format and profiles of pprof: made files have known answers, and what they cannot give is refused by name. Round
# trips of real traces: 76_export.sh.
set -u
# shellcheck source=tests/e2e/kit/report_common.sh
. "$(dirname "$0")/../kit/report_common.sh"
here=$(cd "$(dirname "$0")" && pwd)
work_folder
export XDG_CACHE_HOME=$PWD/cache
python3 "$here/profiles.py" make made || fail "the files were not made"
rows_of() { "$TACHO" sql "$1" "$2" --csv | tail -n +2 | tr -d '\r'; }
refused() { # STATUS FILE WORDS HINT
    "$TACHO" report "$2" > out 2> err
    [ $? = "$1" ] || fail "$2: not exit status $1: $(cat out err)"
    grep -q -- "$3" err || fail "$2: $(cat err)"
    grep -q -- "hint: .*$4" err || fail "$2: $(cat err)"
}

# Perfetto: a relative clock, interned names, default tracks, tracks that are no threads
"$TACHO" import made/sdk.pftrace -o sdk.tacho 2> err || fail "$(cat err)"
rows_of sdk.tacho "SELECT n.text, c.text, start, coalesce(dur, 'open'), t.name FROM slice s JOIN string n ON n.id = s.name
    JOIN string c ON c.id = s.category JOIN track t ON t.id = s.track ORDER BY start, dur DESC" > rows
diff - rows << 'END' || fail "rows of a Perfetto trace"
step 1,train,5000100000,400000,main loop
inner,train,5000150000,25000,main loop
mark,instant,5000200000,0,main loop
copy,dma,5000600000,100123,queue
never ends,dma,5000800000,open,queue
END
[ "$(rows_of sdk.tacho "SELECT rank, pid, program FROM process")" = 3,500,trainer ] || fail "process: $(rows_of sdk.tacho "SELECT * FROM process")"
[ "$(rows_of sdk.tacho "SELECT t.name, time, value FROM counter c JOIN track t ON t.id = c.track")" = loss,5000650000,0.25 ] || fail "counter"
rows_of sdk.tacho "SELECT reason FROM loss" | grep -q 'end of a slice without its begin' || fail "the end too many"
"$TACHO" import made/cut.perfetto-trace -o cut.tacho 2> err || fail "$(cat err)"
grep -q 'truncated at the end' err || fail "a cut is not mentioned: $(cat err)"
refused 4 made/ftrace.pftrace 'without track events' 'tacho run'
"$TACHO" import made/packed.pftrace -o packed.tacho 2> err || fail "$(cat err)"
rows_of packed.tacho "SELECT reason FROM loss" | grep -q 'compressed packets that are damaged' || fail "a damaged compressed packet"
[ "$(rows_of packed.tacho "SELECT count(*) > 3 FROM slice")" = 1 ] || fail "the packets before the damage"
refused 3 made/damaged.pftrace 'compressed packets are damaged' 'decompress_packets'

# pprof: stacks with inlined functions, the period by the values
"$TACHO" import made/cpu.pb.gz -o cpu.tacho 2> err || fail "$(cat err)"
"$TACHO" export cpu.tacho --format stacks | sed 's/^[^;]*;[^;]*;//' | sort > stacks
diff - stacks << 'END' || fail "stacks of a profile"
main (a.go:5);0x4000 50000000
main (a.go:5);work (a.go:30);inlined (a.go:31) 300000000
main (a.go:5);work (a.go:30);inlined (a.go:31);leaf (a.go:70) 600000000
END
"$TACHO" export cpu.tacho --format pprof-stacks -o again.pb && "$TACHO" export cpu.tacho --format stacks -o again.folded || fail "export"
python3 "$here/profiles.py" pprof again.pb again.folded || fail "a profile that was read and written again"
refused 4 made/heap.pb.gz "a pprof profile of 'inuse_space'" 'CPU profile'
refused 3 made/cut.pb 'cut off' 'copy it again'
exit 0
