#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# tacho merge: the files of a job's ranks or nodes become one that reads like one recording; clocks that run apart are aligned; what
# does not belong together is refused.
# shellcheck disable=SC2154,SC2034 # variables of collector_common.sh
set -u
. "$(dirname "$0")/../kit/ranks_common.sh"
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
export XDG_CACHE_HOME=$work/cache

# nodes NAME ID RANKS TARGET-OPTIONS...: NAME0.tacho ... of ranks that wait for each other, each in a file of its own
nodes() {
    local name=$1 id=$2 n=$3 r p=()
    shift 3
    for ((r = 0; r < n; r++)); do
        job "$id" $r "$n" "$n" "$TACHO" run --separate --no-peak --no-counters --overhead 0 -o "$name$r" -- "$ranks" --log "$name.log" \
            --meet "$name.meet" "$@" > out 2>> "$name.err" &
        p+=($!)
    done
    for r in "${p[@]}"; do wait "$r" || wrong "$name: a rank failed: $(cat "$name.err")"; done
}
# elsewhere FILE OFFSET-NS PPM HOST: as if another machine had recorded it, whose CLOCK_MONOTONIC is off by OFFSET and runs PPM fast;
# the wall clocks of the two differ by 20 ms. The truth is kept: start_of FILE is what the starts of its steps were.
elsewhere() {
    sqlite3 "$1" "CREATE TEMP TABLE p AS SELECT min(start) AS t0, $2 AS o, $3 * 1e-6 AS d FROM step;
        UPDATE slice SET dur = dur + CAST(round((start + dur - (SELECT t0 FROM p)) * (SELECT d FROM p)) AS INTEGER)
            - CAST(round((start - (SELECT t0 FROM p)) * (SELECT d FROM p)) AS INTEGER),
            start = start + (SELECT o FROM p) + CAST(round((start - (SELECT t0 FROM p)) * (SELECT d FROM p)) AS INTEGER);
        UPDATE step SET start = start + (SELECT o FROM p) + CAST(round((start - (SELECT t0 FROM p)) * (SELECT d FROM p)) AS INTEGER),
            \"end\" = \"end\" + (SELECT o FROM p) + CAST(round((\"end\" - (SELECT t0 FROM p)) * (SELECT d FROM p)) AS INTEGER);
        UPDATE process SET start = start + (SELECT o FROM p), \"end\" = \"end\" + (SELECT o FROM p), host = '$4';
        UPDATE counter SET time = time + (SELECT o FROM p);
        UPDATE clock_anchor SET monotonic = monotonic + (SELECT o FROM p), realtime = realtime + 20000000;
        UPDATE run SET value = value + (SELECT o FROM p) WHERE key IN ('start.monotonic_ns', 'end.monotonic_ns');
        UPDATE run SET value = 'boot of $4' WHERE key = 'boot_id';
        UPDATE run SET value = '$4' WHERE key = 'host'"
}
# worst MERGED FILE RANK: the largest distance of a step's start and end in MERGED from where FILE has it, ns
worst() {
    sqlite3 "$1" "ATTACH '$2' AS true_; SELECT max(max(abs(s.start - t.start), abs(s.\"end\" - t.\"end\"))) FROM main.step s JOIN main.process p ON p.id = s.process
        JOIN true_.step t ON t.\"index\" = s.\"index\" JOIN true_.process q ON q.id = t.process WHERE p.rank = $3 AND q.rank = $3"
}
merge() { expect 0 "$TACHO" merge "$@"; }
# refused CODE WORDS COMMAND...: with a hint, and nothing is made
refused() {
    local code=$1 words=$2
    shift 2
    expect "$code" "$@"
    grep -q "$words" err || wrong "$*: instead of '$words': $(cat err)"
    grep -q '^hint: ' err || wrong "$*: no hint: $(cat err)"
    if [ -e no.tacho ] || [ -n "$(find . -maxdepth 1 -name '*.merge')" ]; then wrong "$*: left something: $(ls -A)"; fi
}

# ---- two files of one machine are what one file is: one recording of two ranks, taken apart and merged again
for r in 0 1; do
    job 300 $r 2 2 "$TACHO" run --no-peak --overhead 0 -o both -- "$ranks" --steps 200 --meet both.meet --log both.log > out 2> err &
done
wait
whole both.tacho
for r in 0 1; do
    cp both.tacho part$r.tacho
    sqlite3 part$r.tacho "CREATE TEMP TABLE gone AS SELECT id FROM process WHERE rank <> $r;
        DELETE FROM slice WHERE track IN (SELECT id FROM track WHERE process IN gone); DELETE FROM step WHERE process IN gone;
        DELETE FROM counter WHERE track IN (SELECT id FROM track WHERE process IN gone OR (process IS NULL AND $r = 1));
        DELETE FROM step_aggregate WHERE process IN gone; DELETE FROM track WHERE process IN gone OR (process IS NULL AND $r = 1);
        DELETE FROM process WHERE id IN gone"
done
sqlite3 part1.tacho "DELETE FROM loss; UPDATE metric SET value=0 WHERE name LIKE 'target.%' OR name LIKE 'perf.%'"
merge part0.tacho part1.tacho -o merged.tacho
whole merged.tacho
books merged.tacho both.log "two halves, merged"
totals merged.tacho "two halves"
for f in both merged; do "$TACHO" report --json $f.tacho > $f.json || wrong "report of $f"; done
python3 - << 'END' || bad=1
import json
a, b = (json.load(open(f + ".json")) for f in ("both", "merged"))
bad = 0
def by_rank(x): # whichever rank came first made the first row
    if isinstance(x, dict):
        return {k: by_rank(v) for k, v in x.items()}
    if isinstance(x, list) and x and all(isinstance(v, dict) and "rank" in v for v in x):
        return sorted((by_rank(v) for v in x), key=lambda v: v["rank"])
    return [by_rank(v) for v in x] if isinstance(x, list) else x
for report, name in ((a, "both.tacho"), (b, "merged.tacho")): # a command that verifies names its own file
    for f in report["findings"]:
        f["verify"] = f["verify"].replace(name, "FILE")
a, b = by_rank(a), by_rank(b)
for key in ("steps", "budget", "budget_ns", "budget_by_device", "kernels", "utilization", "ranks", "communication", "phases", "dataloader", "system", "findings"):
    if a.get(key) != b.get(key):
        print("FAIL: report of the merged file:", key, json.dumps(a.get(key))[:300], "|", json.dumps(b.get(key))[:300])
        bad = 1
for key in ("ranks", "cores", "host", "duration_s", "threads", "program"):
    if a["run"][key] != b["run"][key]:
        print("FAIL: run", key, a["run"][key], b["run"][key])
        bad = 1
if a["run"]["ranks"] != 2 or a["steps"]["count"] != 400 or a["trust"]["events"] != b["trust"]["events"]:
    print("FAIL: ranks, steps, events", a["run"]["ranks"], a["steps"]["count"], a["trust"]["events"], b["trust"]["events"])
    bad = 1
print("ok  the same figures from one file and from two") if not bad else None
raise SystemExit(bad)
END

# ---- a folder is read as merged; so is one that is named to merge
mkdir folder && cp part0.tacho part1.tacho folder/
expect 0 "$TACHO" report --json folder
python3 -c 'import json; r = json.load(open("out")); m = json.load(open("merged.json")); raise SystemExit(r["steps"] != m["steps"] or r["budget"] != m["budget"])' ||
    wrong "folder: another report"
[ "$(ls folder)" = "$(printf 'part0.tacho\npart1.tacho')" ] || wrong "folder: written to"
merge folder -o from_folder.tacho
[ "$(ranks_of from_folder.tacho)" = "$(ranks_of merged.tacho)" ] || wrong "folder: merged"
rm folder/part1.tacho
expect 0 "$TACHO" report folder
grep -q '1 rank\|target_ranks ·' out || wrong "folder of one: $(head -3 out)"
mkdir two && cp part0.tacho part1.tacho two/
refused 2 'never writes' "$TACHO" report --save two
grep -q 'tacho merge two' err || wrong "folder: hint: $(cat err)"

# ---- three nodes whose clocks are hours apart and drift: recovered within the stated error
nodes apart 301 3 --steps 700 --work-us 2500
merge apart0.tacho apart1.tacho apart2.tacho -o one_machine.tacho
[ "$(value one_machine.tacho clock.fit_error_ns)" = 0 ] || wrong "one machine: error $(value one_machine.tacho clock.fit_error_ns)"
[ "$(value one_machine.tacho clock)" = "$(value apart0.tacho clock)" ] || wrong "one machine: clock"
books one_machine.tacho apart.log "three files of one machine"
i=0
for set in "3600000000000 20" "-86400000000000 -35" "5000 0"; do
    read -r offset ppm <<< "$set"
    cp apart1.tacho moved1.tacho && elsewhere moved1.tacho "$offset" "$ppm" node-b
    cp apart2.tacho moved2.tacho && elsewhere moved2.tacho $((7777777 - offset)) 12 node-c
    merge moved2.tacho apart0.tacho moved1.tacho -o moved.tacho
    whole moved.tacho
    error=$(value moved.tacho clock.fit_error_ns)
    for r in 1 2; do
        off=$(worst moved.tacho apart$r.tacho $r)
        [ "$off" -le "$(value moved.tacho node.$r.clock.error_ns)" ] ||
            wrong "offset $offset, drift $ppm: rank $r is off by $off ns, stated: $(value moved.tacho node.$r.clock.error_ns) ns"
        [ "$(value moved.tacho node.$r.clock)" = "matched collectives" ] || wrong "moved: node $r: $(value moved.tacho node.$r.clock)"
    done
    [ "$(worst moved.tacho apart0.tacho 0)" = 0 ] || wrong "moved: the reference was moved"
    # an error that says nothing would always hold: with TIMING it must be small beside a step; else small beside the whole run
    [ "$error" -lt "$([ -n "${TIMING:-}" ] && echo 1500000 || echo 100000000)" ] || wrong "moved: stated error $error ns"
    [ "$(ranks_of moved.tacho)" = "$(ranks_of one_machine.tacho)" ] || wrong "moved: $(ranks_of moved.tacho)"
        echo "ok  clocks apart by $offset ns and $ppm ppm: off by $off ns, stated $error ns"
    mv moved.tacho kept$i.tacho
    i=$((i + 1))
done
"$TACHO" report kept0.tacho --full > out 2> err || wrong "moved: report"
grep -q '3 machines aligned within' out || wrong "moved: the report's trust does not state the error: $(grep -i clock out)"
[ "$(value kept0.tacho node.1.host)" = node-b ] || wrong "moved: host of node 1: $(value kept0.tacho node.1.host)"
[ "$(value kept0.tacho cpu.online)" = $((3 * $(value apart0.tacho cpu.online))) ] || wrong "moved: processors"
[ "$(one kept0.tacho "SELECT count(DISTINCT device) FROM track WHERE name='cpu_busy'")" = 3 ] || wrong "moved: tracks of the machines"

# ---- without a collective: by wall clock (which the copies have 20 ms late), and the error is said to be unknown
for r in 0 1; do
    cp apart$r.tacho wall$r.tacho
    sqlite3 wall$r.tacho "UPDATE detail SET schema = 'other' WHERE schema = 'tacho.comm'"
done
cp wall1.tacho true1.tacho
elsewhere wall1.tacho 123456789000 0 node-b
merge wall0.tacho wall1.tacho -o wall.tacho
[ "$(value wall.tacho clock.fit_error_ns)" = "" ] || wrong "wall: an error that nobody knows"
off=$(worst wall.tacho true1.tacho 1)
[ $((off > 19000000 && off < 21000000)) = 1 ] || wrong "wall: off by $off instead of 20 ms"
"$TACHO" report wall.tacho --full | grep -q 'error not known' || wrong "wall: trust"

# ---- ceilings: of machines, the mean; one that is not known everywhere is none
cp apart0.tacho roof0.tacho
cp moved1.tacho roof1.tacho
for r in 0 1; do sqlite3 roof$r.tacho "INSERT INTO ceiling VALUES('cpu','flops','fp32',1000000.0*($r+1),'measured: test'),
    ('cpu','mpi_latency','',1e-6*($r+1),'measured: test'),('cpu','mpi_bandwidth','',1e9*($r+1),'measured: test')"; done
sqlite3 roof0.tacho "INSERT INTO ceiling VALUES('cpu','bandwidth','',5.0,'measured: test')"
merge roof0.tacho roof1.tacho -o roof.tacho
[ "$(one roof.tacho "SELECT group_concat(resource || ' ' || value, ';') FROM (SELECT * FROM ceiling ORDER BY resource)")" = "flops 1500000.0;mpi_bandwidth 1000000000.0;mpi_latency 2.0e-06" ] ||
    wrong "ceilings: $(one roof.tacho 'SELECT * FROM ceiling')"
[ "$(one roof.tacho "SELECT count(*) FROM loss WHERE reason LIKE 'ceiling bandwidth%none for the whole job'")" = 1 ] || wrong "ceilings: nothing said"

# ---- losses are kept, with the file that they are of
for r in 0 1; do
    cp part$r.tacho loss$r.tacho
    sqlite3 loss$r.tacho "INSERT INTO loss VALUES('agent','event dropped: all segments are full',$((5 + r)),NULL,NULL)"
done
merge loss0.tacho loss1.tacho -o loss.tacho
[ "$(one loss.tacho "SELECT group_concat(count || ' ' || reason, ';') FROM (SELECT * FROM loss WHERE source='agent' ORDER BY reason)")" = \
    "5 event dropped: all segments are full (loss0.tacho);6 event dropped: all segments are full (loss1.tacho)" ] || wrong "losses: $(one loss.tacho 'SELECT * FROM loss')"
[ "$("$TACHO" report --json loss.tacho | python3 -c 'import json,sys; print(json.load(sys.stdin)["trust"]["lost_events"])')" = 11 ] || wrong "losses: not counted"

# ---- what a merge left that was killed on this host goes with the next merge; files of others and of live processes stay
host=$(hostname | cut -c 1-20)
sleep 0.01 & gone=$!
wait $gone
touch ".left.tacho.$host.$gone.merge" ".left.tacho.$host.$gone.merge-wal" ".left.tacho.$host.$$.merge" ".left.tacho.elsewhere.$gone.merge" ".other.tacho.$host.$gone.merge"
merge part0.tacho part1.tacho -o left.tacho
shopt -s nullglob
left=(.left*.merge*)
shopt -u nullglob
[ ${#left[@]} = 2 ] && [ -e ".left.tacho.$host.$$.merge" ] && [ -e ".left.tacho.elsewhere.$gone.merge" ] && [ -e ".other.tacho.$host.$gone.merge" ] ||
    wrong "leftovers: ${left[*]}"
rm -f .left.* .other.*

# ---- refused, with words, and nothing is made
refused 3 'same recording' "$TACHO" merge part0.tacho part0.tacho -o no.tacho
cp part0.tacho copy.tacho
refused 3 'same recording' "$TACHO" merge part0.tacho copy.tacho -o no.tacho
nodes stranger 302 2 --steps 5
refused 3 'another job' "$TACHO" merge part0.tacho stranger1.tacho -o no.tacho
refused 3 'already exists' "$TACHO" merge part0.tacho part1.tacho -o both.tacho
refused 2 "'-o' is missing" "$TACHO" merge part0.tacho part1.tacho
refused 2 '1 file: 2 to' "$TACHO" merge part0.tacho -o no.tacho
refused 3 'no such run' "$TACHO" merge part0.tacho nothing.tacho -o no.tacho
mkdir no-runs
refused 3 'no-runs: no .tacho file' "$TACHO" merge no-runs -o no.tacho
refused 3 'tacho merge' "$TACHO" merge merged.tacho stranger1.tacho -o no.tacho
cp stranger0.tacho again.tacho
sqlite3 again.tacho "UPDATE run SET value = value + 1 WHERE key = 'start.monotonic_ns'; UPDATE run SET value = value + 1 WHERE key = 'end.monotonic_ns'"
refused 3 'rank 0 is also in' "$TACHO" merge stranger0.tacho again.tacho -o no.tacho
cp part1.tacho newer.tacho && sqlite3 newer.tacho 'PRAGMA user_version = 99'
refused 3 'newer' "$TACHO" merge part0.tacho newer.tacho -o no.tacho
head -c 20000 part1.tacho > short.tacho
expect 3 "$TACHO" merge part0.tacho short.tacho -o no.tacho
[ ! -e no.tacho ] || wrong "damaged: made something"
cp part1.tacho hole.tacho && sqlite3 hole.tacho 'DELETE FROM string WHERE id = 1'
expect 3 "$TACHO" merge part0.tacho hole.tacho -o no.tacho
grep -q 'hole.tacho: damaged' err || wrong "hole: $(cat err)"
[ ! -e no.tacho ] || wrong "hole: made something"
merge --force part0.tacho stranger1.tacho -o forced.tacho
[ "$(value forced.tacho node.1.job.id)" = "$(value stranger1.tacho job.id)" ] || wrong "forced: job.id of both"

# ---- a run that was not finished is finished first
job 303 1 2 2 "$TACHO" run --separate --no-peak --no-counters --overhead 0 -o cut -- "$ranks" --steps 100000 > out 2> err &
wait_for test -s cut.tacho.live/run.db
wait_for sh -c "[ \"\$(sqlite3 cut.tacho.live/run.db 'SELECT count(*) FROM step')\" -gt 5 ]"
collector=$(live_leader cut.tacho.live)
refused 3 'still being recorded' "$TACHO" merge part0.tacho cut.tacho.live -o no.tacho
target=$(pgrep -P "$collector")
kill -KILL "$target" "$collector"
wait
wait_for gone "$target"
merge --force part0.tacho cut.tacho.live -o cut_merged.tacho
whole cut.tacho
[ "$(one cut_merged.tacho "SELECT count(*) FROM step s JOIN process p ON p.id=s.process WHERE p.rank=1")" -gt 5 ] || wrong "cut: steps"
exit $bad
