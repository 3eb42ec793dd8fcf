#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: first
# tacho calibrate: measures once a machine, keeps it, refuses a damaged file, and runs get its rows, each once. Operations get their
# place on the roofline: three of known work and time, in long_calibrate.sh all of the engine's.
# shellcheck disable=SC2154,SC2153  # work, TACHO: cli_common.sh
. "$(dirname "$0")/../kit/cli_common.sh"
work_folder calibrate
export XDG_CACHE_HOME=$work/cache
export OMP_NUM_THREADS=1 # what the cores reach together is not looked at here
mkdir "$XDG_CACHE_HOME"
# What is kept, shown and replaced does not depend on what was measured: this copy of tacho stands beside a program train that
# measures once, with operands as large as a small cache needs, and then says again what it said.
mkdir "$work/once"
cp "$TACHO" "$work/once/tacho"
cat > "$work/once/train" << END
#!/bin/sh
case "\$*" in *--libraries* | *--mpi*) exec "$TRAIN" "\$@" ;; esac
said=$work/once/said\$(echo "\$*" | tr -c 'a-z\n' _)
[ -e "\$said" ] || { "$TRAIN" "\$@" --last-cache 8 > "\$said.part" && mv "\$said.part" "\$said"; } || exit 5
exec cat "\$said"
END
chmod +x "$work/once/train"
once=$work/once/tacho
kept() { find "$XDG_CACHE_HOME" -name 'calibration-*'; }

expect 3 "$TACHO" calibrate --show
grep -q 'never calibrated' "$work/err" && grep -q "^hint: 'tacho calibrate'" "$work/err" || fail "nothing kept: $(cat "$work/err")"
expect 2 "$TACHO" calibrate --show --force
expect 2 "$TACHO" calibrate --show --disk /
XDG_CACHE_HOME=/proc/none expect 3 "$TACHO" calibrate --quick
grep -q "/proc/none/tacho: " "$work/err" || fail "a cache that cannot be: $(cat "$work/err")"
expect 2 "$TRAIN" calibrate --nonsense
expect 2 "$TRAIN" calibrate --last-cache 0
grep -q '^hint: for example: --last-cache 32' "$work/err" || fail "a cache of no bytes: $(cat "$work/err")"

expect 0 "$once" calibrate --quick --disk /dev/shm
[ "$(kept | wc -l)" = 1 ] || fail "kept: $(kept)"
file=$(kept)
for row in 'flops fp32' 'flops fp64' 'gemm fp32' 'bandwidth' 'bandwidth_read' 'bandwidth_write' 'bandwidth_l1'; do
    grep -Eq "^$row +[0-9.]+ [KMGT](FLOP|B)/s" "$work/out" || fail "no row $row: $(cat "$work/out")"
done
for row in gemm_forward gemm_grad_data gemm_grad_weight; do
    grep -Eq "^$row fp32 .*best of a curve of [0-9]+ shapes" "$work/out" || fail "no curve $row: $(grep gemm "$work/out")"
done
grep -q 'disk_sequential_read *absent: /dev/shm is in memory' "$work/out" || fail "a disk in memory: $(grep disk "$work/out")"
grep -A1 'disk_random_read' "$work/out" | grep -q 'hint: .*--disk' || fail "no hint"

# what is kept is shown, not measured again, and the same
sum=$(cksum < "$file")
expect 0 "$TACHO" calibrate --quick
grep -q 'force measures again' "$work/err" && [ "$(cksum < "$file")" = "$sum" ] || fail "it was measured again"
expect 2 "$TACHO" calibrate --quick --disk /
grep -q '^hint: --force measures again' "$work/err" || fail "another disk than the one that was measured: $(cat "$work/err")"
expect 0 "$TACHO" calibrate --show --json
cmp -s "$work/out" <(cat "$file"; echo) || fail "--json is not what is kept"
! command -v python3 > /dev/null || as_schema calibration "$work/out"

# a run has each row once, and says where it comes from; without the cache it has the instruction peak alone
rows() { sqlite3 "$1" "select count(*), count(distinct resource || dtype) from ceiling"; }
expect 0 "$TACHO" run -o a.tacho -- true
sqlite3 a.tacho "select resource from ceiling" | sort -u > have
for r in flops gemm bandwidth bandwidth_read bandwidth_write gemm_threads gemm_spread op_overhead gemm_forward:128x256x256; do grep -qx $r have || fail "the run has no $r"; done
IFS='|' read -r all distinct <<< "$(rows a.tacho)"
[ "$all" = "$distinct" ] || fail "double rows: $(sqlite3 a.tacho 'select * from ceiling')"
[ "$(sqlite3 a.tacho "select count(*) from ceiling where source not like 'measured: %' and resource not like 'cache%'")" = 0 ] || fail "a source"
want=$(sed -n '/"resource": "bandwidth_read"/,/"value"/s/.*"value": \([0-9.e+]*\),/\1/p' "$file")
have=$(sqlite3 a.tacho "select value from ceiling where resource = 'bandwidth_read'")
awk -v a="$want" -v b="$have" 'BEGIN { exit !(a > 0 && a == b) }' || fail "bandwidth_read: $have in the run, $want kept"
XDG_CACHE_HOME=$work/none expect 0 "$TACHO" run -o b.tacho -- true
[ "$(sqlite3 b.tacho "select count(distinct resource) from ceiling")" = 1 ] || fail "rows from nowhere"

# the curve of GEMMs predicts larger micro-batches and another type, also of a run that was recorded before it was measured; what the
# run is already gains exactly nothing; without a curve, and for another number of threads, it says what is missing
advise() { # FILE EDITS
    expect 0 "$TACHO" advise "$1" --what-if "$2" --json
    cp "$work/out" advice.json
}
if command -v python3 > /dev/null; then
    # most of a step is a sleep: other programs that take the core must not make odd steps so unlike even ones that nothing is predicted
    small=("$TRAIN" gpt2-tiny --layers 2 --batch 1 --accumulate 4 --seq 16 --steps 40 --workers 0 --slow decode=0.01)
    cat > check.py << 'END'
# check.py WHAT: advice.json holds two predictions (gains), two of exactly nothing (zero), or two reasons with a word in them
import json, sys
rows = json.load(open("advice.json"))["what_if"]
assert len(rows) == 2, rows
for row in rows:
    gain = row["gain_pct"]
    if sys.argv[1] == "gains":
        assert gain["low"] <= gain["expected"] <= gain["high"] and gain["low"] < gain["high"], row
    elif sys.argv[1] == "zero":
        assert gain["low"] == gain["expected"] == gain["high"] == 0 and row["step_low_ms"] == row["step_high_ms"], row
    else:
        assert row["step_ms"] is None and sys.argv[1] in row["none"], row
END
    expect 0 "$TACHO" run -o small.tacho -- "${small[@]}"
    XDG_CACHE_HOME=$work/none expect 0 "$TACHO" run -o before.tacho -- "${small[@]}"
    OMP_NUM_THREADS=2 expect 0 "$TACHO" run -o threads.tacho -- "${small[@]}"
    advise small.tacho micro=4x,precision=bf16
    if ! grep -q '"none": *"the curve of GEMMs does not cover' advice.json; then # a CPU without bf16
        python3 check.py gains || fail "no gains: $(cat advice.json)"
        advise before.tacho micro=2x,precision=bf16
        python3 check.py gains || fail "a run from before the calibration: $(cat advice.json)"
    fi
    advise small.tacho micro=1x,precision=fp32
    python3 check.py zero || fail "identities: $(cat advice.json)"
    advise threads.tacho micro=2x,precision=bf16
    python3 check.py 'measured with 1 threads' || fail "other threads: $(cat advice.json)"
    XDG_CACHE_HOME=$work/none advise before.tacho micro=2x,precision=bf16
    python3 check.py 'tacho calibrate' || fail "no curve: $(cat advice.json)"
fi

# other cores: another file; a file of another machine is not used
if [ "$(nproc)" -gt 1 ]; then
    expect 3 taskset -c "$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')" "$TACHO" calibrate --show
fi
cp "$file" keep
sed 's/"cpu": "[^"]*"/"cpu": "another"/' keep > "$file"
expect 3 "$TACHO" calibrate --show
grep -q 'another machine' "$work/err" || fail "another machine's file: $(cat "$work/err")"

# damaged: refused with a hint, a run goes on without it, --force replaces it
damaged() { # HOW; the file's text is on standard input
    cat > "$file"
    expect 3 "$TACHO" calibrate --quick
    grep -q 'damaged' "$work/err" && grep -q '^hint: .*--force' "$work/err" || fail "damaged, $1: $(cat "$work/err")"
}
sed 's/tacho-calibration/x/' keep | damaged 'another schema'
sed 's/"value":.*/"value": -1,/' keep | damaged 'a value below zero'
damaged 'empty' < /dev/null
head -c 700 keep | damaged 'cut'
expect 0 "$TACHO" run -o c.tacho -- true
grep -q 'damaged' "$work/err" || fail "a run does not say that the file is damaged"
[ "$(sqlite3 c.tacho "select count(distinct resource) from ceiling")" = 1 ] || fail "rows of a damaged file"

# operations: each has a row, and a place; one computes, one moves memory, one moves more than memory can
ops=(matmul.forward matmul.backward attention.forward layernorm.backward gelu.forward classifier.fused adamw sgd)
if [ -z "${EVERY_OPERATION:-}" ]; then
    ops=(matmul.forward adamw gelu.forward)
    cat > "$work/once/saidcalibrate___only_ops___quick" << 'END'
{"schema":"libtrain-calibration/1","threads":1,"libraries":"","rows":[],"ops":[
{"op":"matmul.forward","pass":"forward","kind":"matrix","dtype":"fp32","shape":"1","state":"hot",
 "seconds":1,"best":1,"repeats":3,"flops":4000000000,"bytes_read":500,"bytes_written":500},
{"op":"adamw","pass":"optimizer","kind":"other","dtype":"fp32","shape":"1","state":"cold",
 "seconds":10,"best":9,"repeats":3,"flops":1000000,"bytes_read":600000000,"bytes_written":400000000},
{"op":"gelu.forward","pass":"forward","kind":"other","dtype":"bf16","shape":"1","state":"hot",
 "seconds":0.001,"best":0.001,"repeats":3,"flops":1000,"bytes_read":900000000000,"bytes_written":100000000000}]}
END
fi
expect 0 "$once" calibrate --quick --force --ops --disk /dev/shm
[ "$(find "$work/once" -name 'said*' | wc -l)" = 2 ] || fail "measured for it: $(ls "$work/once")"
for op in "${ops[@]}"; do
    grep -Eq "^$op .* (memory|compute|cached) [0-9]+ %" "$work/out" || fail "no place for $op: $(grep "^$op" "$work/out")"
done
[ "$(kept | wc -l)" = 1 ] || fail "left behind: $(kept)"
expect 0 "$once" calibrate --quick --ops --json
if command -v python3 > /dev/null; then
    as_schema calibration "$work/out"
    python3 - "$work/out" << 'END' || fail "operations are not where their work and time put them"
import json, os, sys
d = json.load(open(sys.argv[1]))
rows = {(row["resource"], row["dtype"]): row["value"] for row in d["ceilings"]}
memory = max(rows["bandwidth" + way, ""] for way in ("", "_read", "_write", "_update"))
bounds = {}
for op in d["ops"]:
    if op["seconds"] is None:
        continue
    moved, peak = op["bytes_read"] + op["bytes_written"], rows["flops", "fp32" if op["kind"] == "other" else op["dtype"]]
    compute = op["flops"] / moved * memory >= peak
    want = 100 * (op["flops"] / peak if compute else moved / memory) / op["seconds"]
    bounds[op["op"]] = "compute" if compute else "cached" if want > 100 else "memory"
    assert op["bound"] == bounds[op["op"]] and abs(op["attained_pct"] - want) < 1e-6 * want, (op, want)
if not os.environ.get("EVERY_OPERATION"):
    assert bounds == {"matmul.forward": "compute", "adamw": "memory", "gelu.forward": "cached"}, bounds
assert len(bounds) >= 3, bounds
END
fi
expect 0 "$TACHO" calibrate --show

# killed while it measures: what measured for it ends too, and what was kept stays
sum=$(cksum < "$file")
"$TACHO" calibrate --quick --force --disk "$work" > /dev/null 2>&1 &
pid=$!
for ((i = 0; i < 3000; i++)); do
    child=$(tr -d ' ' < "/proc/$pid/task/$pid/children")
    [ -n "$child" ] && grep -aq -- --disk "/proc/$child/cmdline" 2> /dev/null && break
    sleep 0.02
done
[ "$i" -lt 3000 ] || fail "it never measured"
kill -TERM $pid
wait $pid
for ((i = 0; i < 3000; i++)); do
    grep -aq -- --disk "/proc/$child/cmdline" 2> /dev/null || break
    sleep 0.02
done
[ "$i" -lt 3000 ] || fail "the program that measures outlives tacho"
[ "$(kept | wc -l)" = 1 ] && [ "$(cksum < "$file")" = "$sum" ] || fail "killed, it left $(kept)"

# where it cannot be kept it says so
if [ "$(id -u)" != 0 ]; then
    chmod 500 "$XDG_CACHE_HOME/tacho"
    expect 3 "$TACHO" calibrate --quick --force
    grep -q 'hint: set XDG_CACHE_HOME' "$work/err" || fail "no hint: $(cat "$work/err")"
fi
exit 0
