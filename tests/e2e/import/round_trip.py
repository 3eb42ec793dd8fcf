#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two runs have the same device unions, streams, details, and the same count and sum of each name. usage: round_trip.py RUN RUN"""
import gc, sqlite3, sys
gc.disable()  # looking for garbage among a hundred thousand rows takes most of the time, and there is none
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
def facts(path):
    db = sqlite3.connect(path)
    rows = db.execute("""SELECT s.start, s.dur, (SELECT text FROM string WHERE id=s.name), (SELECT text FROM string WHERE id=s.category),
        t.kind, t.device, t.tid, s.correlation FROM slice s JOIN track t ON t.id=s.track""").fetchall()
    names, spans, streams = {}, {}, {}
    for s, d, n, c, k, dev, tid, corr in rows:
        a = names.setdefault((k, c, n), [0, 0])
        a[0] += 1
        a[1] += d or 0
        if k == "stream" and d is not None:
            spans.setdefault((dev, c), []).append((s, s + d))
            streams.setdefault((dev, tid, c), []).append((s, s + d, corr))
    details = db.execute("SELECT sum(bytes), count(grid), count(copy_kind) FROM slice JOIN detail ON detail.id=slice.detail").fetchall()
    return names, {k: union(v) for k, v in spans.items()}, {k: sorted(v, key=str) for k, v in streams.items()}, details
a, b = facts(sys.argv[1]), facts(sys.argv[2])
for what, x, y in zip(("names", "unions", "streams", "details"), a, b):
    if x != y:
        print(what, [(k, x.get(k), y.get(k)) for k in set(x) | set(y) if x.get(k) != y.get(k)][:3] if isinstance(x, dict) else (x, y))
sys.exit(0 if a == b else 1)
