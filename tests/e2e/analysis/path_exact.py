# SPDX-License-Identifier: Apache-2.0
# usage: path_exact.py RUN.tacho PATH.csv REPORT.json LEAST
# Holds the stretches of a critical path (tacho export --critical-path -f csv) against the run itself: they cover each window once, every
# one lies inside its range and on its track, neighbours are tied by something that the run shows, the report's sums are theirs, and at
# least LEAST per cent of the path are explained.
import csv, json, sqlite3, sys
from collections import defaultdict

db = sqlite3.connect(sys.argv[1])
rows = list(csv.DictReader(open(sys.argv[2], newline="", encoding="utf-8")))
report = json.load(open(sys.argv[3]))["critical_path"]
failures = []


def check(ok, what):
    if not ok and len(failures) < 20:
        failures.append(what)


tracks = {i: (kind, process) for i, kind, process in db.execute("SELECT id, kind, process FROM track")}
slices, launch_of, ops = defaultdict(set), {}, defaultdict(list)
text = {None: None, **dict(db.execute("SELECT id, text FROM string"))}
for track, start, dur, name, category, correlation in db.execute("SELECT track, start, dur, name, category, correlation FROM slice"):
    name, category = text[name], text[category]
    slices[track, start, start + (dur or 0)].add(name)
    kind, process = tracks[track]
    if category in ("runtime", "driver") and correlation is not None:
        launch_of.setdefault((process, correlation), []).append((start, start + (dur or 0), track))
    if kind == "stream" and category not in ("sync", "annotation") and correlation is not None:
        ops[track, start].append((process, correlation))
last = db.execute("SELECT max(start + dur) FROM slice").fetchone()[0]

windows = defaultdict(list)
for r in rows:
    for k in ("window", "start_ns", "end_ns", "track", "range_start_ns", "range_end_ns"):
        r[k] = int(r[k]) if r[k] else None
    windows[r["window"]].append(r)

total, causes = 0, defaultdict(int)
for w, path in windows.items():
    start, end = path[0]["start_ns"], path[-1]["end_ns"]
    total += end - start
    check(sum(r["end_ns"] - r["start_ns"] for r in path) == end - start, f"window {w}: the sum is not the window")
    for a, b in zip(path, path[1:]):
        check(a["end_ns"] == b["start_ns"], f"window {w}: a hole or an overlap at {a['end_ns']}")
    for r in path:
        check(r["start_ns"] < r["end_ns"], f"an empty stretch at {r['start_ns']}")
        causes[r["cause"]] += r["end_ns"] - r["start_ns"]
        check((r["how"] == "gap") == (r["cause"] == "gap") == (r["track"] is None), f"half a gap: {r}")
        if r["range_start_ns"] is not None and r["cause"] != "dispatch":
            check(r["range_start_ns"] <= r["start_ns"] and r["end_ns"] <= r["range_end_ns"], f"outside of its range: {r}")
            found = slices.get((r["track"], r["range_start_ns"], r["range_end_ns"]))
            inferred = r["name"].endswith("(inferred from time)") # a wait that is no range of the file
            check(not inferred or r["how"] != "recorded", f"an inferred wait is said to be recorded: {r}")
            if r["range_end_ns"] < last and not inferred: # a range without an end is said to end with the run
                check(found is not None and r["name"] in found, f"no such range in the run: {r}")
    for a, b in zip(path, path[1:]):
        link = a["link"]
        check((link == "none") == (a["how"] == "gap" or b["how"] == "gap"), f"a gap that is not marked: {a} {b}")
        if link == "none":
            continue
        ka, kb = tracks[a["track"]][0], tracks[b["track"]][0]
        if link in ("same", "order"):
            check(a["track"] == b["track"], f"{link} over tracks: {a} {b}")
        elif link == "launch":
            check(ka == "thread" and kb == "stream", f"a launch from {ka} to {kb}: {a} {b}")
            at = b["end_ns"] if b["cause"] == "dispatch" else b["start_ns"]
            calls = [c for k in ops.get((b["track"], at), []) for c in launch_of.get(k, [])]
            check(any(c[0] < a["end_ns"] <= max(c[1], a["end_ns"]) and a["start_ns"] <= c[1] and c[2] == a["track"] for c in calls),
                  f"no call of this correlation: {a} {b}")
        elif link == "stream":
            check(ka == kb == "stream", f"{link} from {ka} to {kb}")
        elif link == "sync":
            check(ka == "stream" and kb == "thread", f"{link} from {ka} to {kb}")
        elif link == "collective":
            check(ka == "stream" or kb == ka, f"{link} from {ka} to {kb}: {a} {b}") # to a thread from a thread only
        elif link in ("handoff", "fork"):
            check(ka != "stream" and kb != "stream" and a["track"] != b["track"], f"{link}: {a} {b}")
        else:
            check(link in ("credit", "nearest"), f"an unknown link {link}")
        if link == "nearest":
            check(a["how"] == "inferred", f"nearest is not inferred: {a}")
        if link == "collective":
            check(tracks[a["track"]][1] != tracks[b["track"]][1], f"a collective inside of one process: {a} {b}")

# the windows begin and end with steps
steps = db.execute('SELECT start, "end" FROM step WHERE "end" IS NOT NULL').fetchall()
streams = any(kind == "stream" for kind, _ in tracks.values())
for w, path in windows.items():
    start, end = path[0]["start_ns"], path[-1]["end_ns"]
    if not streams and steps:
        check(any(s == start for s, _ in steps) and any(e == end for _, e in steps), f"window {w} is not made of steps")
        inside = [(s, e) for s, e in steps if s >= start and e <= end]
        check(len(inside) >= min(3, report["steps"]), f"window {w} holds {len(inside)} steps")
    elif streams:
        kernels = {s for (t, s, e) in slices if tracks[t][0] == "stream"}
        ends = kernels | {e for (t, s, e) in slices if tracks[t][0] == "stream"}
        check(start in kernels and end in ends, f"window {w} does not begin and end with kernels")

us = lambda ns: ns / 1000
near = lambda x, ns: abs(x - us(ns)) < 0.0011
check(near(report["window_us"], total) and near(report["length_us"], total), f"report: {report['length_us']} us, path: {us(total)} us")
check(abs(sum(report["by_cause_us"].values()) - us(total)) < 0.02, "by_cause_us does not sum to length_us")
check(set(report["by_cause_us"]) == set(causes), f"causes {sorted(causes)}")
for k, ns in causes.items():
    check(near(report["by_cause_us"].get(k, -1), ns), f"{k}: {report['by_cause_us'].get(k)} us, path: {us(ns)} us")
gaps = causes.get("gap", 0)
check(abs(report["explained_pct"] - 100 * (total - gaps) / total) < 1e-6, "explained_pct")
check(abs(report["recorded_pct"] + report["inferred_pct"] + report["gap_pct"] - 100) < 1e-6, "recorded, inferred, gap do not sum to 100")
check(report["explained_pct"] >= float(sys.argv[4]), f"less than {sys.argv[4]} % of the path is explained: {report['explained_pct']} %")
check(report["explained_pct"] >= 90 or report["doubt"], "a cause is claimed below 90 %")
for f in failures:
    print(f)
print(f"{len(rows)} stretches, explained {report['explained_pct']:.2f} % (recorded {report['recorded_pct']:.1f}, inferred "
      f"{report['inferred_pct']:.1f}), think {report['think_pct']:.1f} %")
sys.exit(1 if failures else 0)
