#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Nsight Systems exports: what the import holds against the export itself (python's sqlite3, interval unions by brute force) and
# against the reference file of the shared traces.
set -u
. "$(dirname "$0")/../kit/cli_common.sh"
TRACES=${TACHO_TRACES:-$SRC/../shared/traces}
[ -f "$TRACES/nsys_mfu_2gpu_after.sqlite.gz" ] || { echo "needs the shared traces (TACHO_TRACES)"; exit 77; }
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work_folder nsys

cat > "$work/check.py" << 'EOF'
import json, re, sqlite3, sys
export, run, name, expected = sys.argv[1:5]
src, ours = sqlite3.connect(export), sqlite3.connect(run)
want = json.load(open(expected))["nsys"][name]  # a missing key fails the test
failures = []
def same(what, a, b):
    if a != b:
        failures.append(f"{what}: {a} instead of {b}")
def union(rows):
    total, end = 0, None
    for s, e in sorted(rows):
        if end is None or s > end:
            total += e - s
            end = e
        elif e > end:
            total += e - end
            end = e
    return total
tables = {t for (t,) in src.execute("SELECT name FROM sqlite_master WHERE type='table'")}
TEXT = "(SELECT text FROM string WHERE id=%s)"
slices = f"SELECT s.start, s.start+s.dur, {TEXT % 's.name'}, {TEXT % 's.category'}, correlation, t.kind, t.device, t.tid, process, pid, s.detail FROM slice s JOIN track t ON t.id=s.track JOIN process p ON p.id=t.process"
ours_rows = ours.execute(slices).fetchall()
base = int(ours.execute("SELECT value FROM run WHERE key='source.base_ns'").fetchone()[0])
same("base", base, 0)
same("source", ours.execute("SELECT value FROM run WHERE key='source'").fetchone()[0], "nsight")

# devices: unions straight from the export, from our rows, from the reference
device = {}
for kind, table in (("kernel", "KERNEL"), ("memcpy", "MEMCPY"), ("memset", "MEMSET")):
    for s, e, d, c in src.execute(f"SELECT start, end, deviceId, globalPid FROM CUPTI_ACTIVITY_KIND_{table}"):
        device.setdefault(d, {}).setdefault(kind, []).append((s, e))
mine = {}
for s, e, n, cat, corr, tk, dev, tid, proc, pid, det in ours_rows:
    if tk == "stream" and cat in ("kernel", "memcpy", "memset"):
        mine.setdefault(int(dev.split(":")[1]), {}).setdefault(cat, []).append((s, e, n))
same("devices", sorted(mine), sorted(device))
same("devices of the reference", sorted(map(str, mine)), sorted(want["devices"]))
for d, kinds in device.items():
    ref = want["devices"][str(d)]
    every = [x for rows in kinds.values() for x in rows]
    got = [x[:2] for rows in mine[d].values() for x in rows]
    for kind, rows in kinds.items():
        same(f"gpu:{d} {kind} rows", sorted(x[:2] for x in mine[d][kind]), sorted(rows))
        same(f"gpu:{d} {kind} count", len(mine[d][kind]), ref[f"n_{kind}s" if kind == "kernel" else f"n_{kind}"])
        same(f"gpu:{d} {kind} union", union(x[:2] for x in mine[d][kind]), ref[f"{kind}_union_ns"])
        same(f"gpu:{d} {kind} union of the export", union(rows), ref[f"{kind}_union_ns"])
    same(f"gpu:{d} busy", union(got), ref["busy_union_ns"])
    same(f"gpu:{d} busy of the export", union(every), ref["busy_union_ns"])
    span = max(e for _, e in got) - min(s for s, _ in got)
    same(f"gpu:{d} span", span, ref["span_ns"])
    same(f"gpu:{d} idle", span - union(got), ref["idle_ns"])
    nccl = [x[:2] for x in mine[d]["kernel"] if "nccl" in x[2].lower()]
    same(f"gpu:{d} nccl union", union(nccl), ref["nccl_union_ns"])
    same(f"gpu:{d} kernel sum", sum(e - s for s, e, _ in mine[d]["kernel"]), ref["kernel_sum_ns"])
    bytes_ = {}
    for k, b in src.execute("SELECT copyKind, sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE deviceId=? GROUP BY 1", (d,)):
        bytes_[str(k)] = b
    same(f"gpu:{d} bytes of the export", bytes_, ref["memcpy_bytes_by_kind"])
    kinds = {"1": "HtoD", "2": "DtoH", "8": "DtoD"}
    same(f"gpu:{d} bytes", dict(ours.execute("SELECT copy_kind, sum(d.bytes) FROM slice s JOIN detail d ON d.id=s.detail JOIN track t ON t.id=s.track WHERE copy_kind IS NOT NULL AND device=? GROUP BY 1", (f"gpu:{d}",))),
         {kinds[k]: b for k, b in ref["memcpy_bytes_by_kind"].items()})

# names: per full name of each kernel
def by_name(rows):
    out = {}
    for n, s, e in rows:
        a = out.setdefault(n, [0, 0, 1 << 62, 0])
        a[0] += 1; a[1] += e - s; a[2] = min(a[2], e - s); a[3] = max(a[3], e - s)
    return out
same("kernels by name", by_name((n, s, e) for d in mine.values() for s, e, n in d["kernel"]),
     by_name(src.execute("SELECT value, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id=demangledName")))
short = {}
for n, c, t in src.execute("SELECT value, count(*), sum(end-start) FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id=shortName GROUP BY 1"):
    short[n] = [n, c, t]
for row in want["top_kernels(name,n,sum_ns)"]:
    same("top kernel of the export", short.get(row[0]), row)

# launches: per process, since correlation ids are the process's
calls = {(proc, corr) for s, e, n, cat, corr, tk, dev, tid, proc, pid, det in ours_rows if tk == "thread" and cat in ("runtime", "driver") and corr is not None}
linked = sum(1 for r in ours_rows if r[5] == "stream" and r[3] == "kernel" and (r[8], r[4]) in calls)
same("kernels with their launch", linked, want["kernels_with_runtime_launch(same pid)"])
apis = {}
for n, c in src.execute("SELECT value, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id=nameId GROUP BY 1"):
    n = re.sub(r"_v\d{4,5}$", "", n)
    apis[n] = apis.get(n, 0) + c
got = {}
for r in ours_rows:
    if r[3] in ("runtime", "driver"):
        got[r[2]] = got.get(r[2], 0) + 1
        same("runtime or driver", r[3], "runtime" if r[2].startswith("cuda") else "driver")
same("calls by name", got, apis)

# synchronisation: by type; each on a device of its own process
types = {"Event Sync": 1, "Stream Wait Event": 2, "Stream Sync": 3, "Context Sync": 4}
sync = {}
for r in ours_rows:
    if r[3] == "sync":
        a = sync.setdefault(types[r[2]], [0, 0]); a[0] += 1; a[1] += r[1] - r[0]
same("syncs", [[k, *v] for k, v in sorted(sync.items())], want["sync_by_type(type,count,sum_ns)"])
own = {r[8]: r[6] for r in ours_rows if r[3] == "kernel"}
same("syncs on the device of their process", {(r[8], r[6]) for r in ours_rows if r[3] == "sync"} - set(own.items()), set())

# counts of every table that is read
cats = {}
for r in ours_rows:
    cats[r[3]] = cats.get(r[3], 0) + 1
counts = want["counts"]
same("kernels", cats["kernel"], counts["CUPTI_ACTIVITY_KIND_KERNEL"])
same("copies", cats["memcpy"], counts["CUPTI_ACTIVITY_KIND_MEMCPY"])
same("memsets", cats["memset"], counts["CUPTI_ACTIVITY_KIND_MEMSET"])
same("calls", cats.get("runtime", 0) + cats.get("driver", 0), counts["CUPTI_ACTIVITY_KIND_RUNTIME"])
same("syncs counted", cats["sync"], counts["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"])
same("ranges", cats.get("op", 0) + cats.get("nvtx", 0) + cats.get("NCCL", 0), counts["NVTX_EVENTS"])
overhead = sum(src.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD") if t in tables)
same("overhead", cats.get("overhead", 0), overhead)
same("every row", len(ours_rows), ours.execute("SELECT count(*) FROM slice").fetchone()[0])
same("losses", ours.execute("SELECT count(*) FROM loss").fetchone()[0], 0)

# NVTX: names without what PyTorch appends, times, threads
def ranges_of_export():
    for s, e, t, tid in src.execute("SELECT start, end, COALESCE(text, (SELECT value FROM StringIds WHERE id=textId)), globalTid FROM NVTX_EVENTS"):
        m = re.search(r", (seq|op_id) = -?\d", t)
        yield s, e, t[:m.start()] if m else t, tid & 0xffffff, (tid >> 24) & 0xffffff
same("NVTX", sorted(ranges_of_export()), sorted((r[0], r[1], r[2], r[7], r[9]) for r in ours_rows if r[3] in ("op", "nvtx", "NCCL")))
print("\n".join(failures[:20]))
sys.exit(1 if failures else 0)
EOF
for name in nsys_h100_2gpu_1s.sqlite.gz nsys_mfu_2gpu_after.sqlite.gz; do
    plain=$work/here/${name%.gz}
    gzip -dc "$TRACES/$name" > "$plain"
    expect 0 "$TACHO" import "$TRACES/$name" -o packed.tacho
    expect 0 "$TACHO" import "$plain" -o plain.tacho
    grep -q ' 0 lost' "$work/err" || fail "$name: $(cat "$work/err")"
    for run in packed plain; do
        python3 "$work/check.py" "$plain" $run.tacho "$name" "$TRACES/expected.json" > "$work/out" || fail "$name, $run: $(cat "$work/out")"
    done
    rm -f packed.tacho plain.tacho

    # cut off: what is left is read, and the loss is told; never a crash
    size=$(stat -c %s "$plain")
    RANDOM=${SEED:-4711}
    for i in $(seq "${ROUNDS:-30}"); do
        head -c $(((RANDOM * 32768 + RANDOM) % size)) "$plain" > cut.sqlite
        "$TACHO" import cut.sqlite -o cut.tacho > "$work/out" 2> "$work/err" < /dev/null
        rc=$?
        case $rc in
        0) grep -q 'lost' "$work/err" || fail "cut $i: no word of it" ;;
        3) grep -q '^tacho: cut.sqlite: ' "$work/err" || fail "cut $i: $(cat "$work/err")" ;;
        *) fail "cut $i: exit code $rc: $(head -c 1000 "$work/err")" ;;
        esac
        rm -f cut.tacho
    done
    # the same of the compressed export
    size=$(stat -c %s "$TRACES/$name")
    for i in 1 2 3 4 5 6; do
        head -c $((size * i / 7)) "$TRACES/$name" > cut.sqlite.gz
        "$TACHO" import cut.sqlite.gz -o cut.tacho > "$work/out" 2> "$work/err" < /dev/null
        rc=$?
        [ $rc = 0 ] || [ $rc = 3 ] || fail "cut gzip $i: exit code $rc: $(head -c 1000 "$work/err")"
        grep -Eq 'lost|^tacho: cut.sqlite.gz: ' "$work/err" || fail "cut gzip $i: $(cat "$work/err")"
        rm -f cut.tacho
    done
    [ -z "$(find . -mindepth 1 ! -name "*sqlite*")" ] || fail "left behind: $(ls -A)"
done
ls "${TMPDIR:-/tmp}"/tacho-import-* > /dev/null 2>&1 && fail "an unpacked export was left behind"
exit 0
