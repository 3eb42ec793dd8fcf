# SPDX-License-Identifier: Apache-2.0
"""Holds the events in an HTML report against the file of the run: timeline_exact.py PAGE RUN

Reads the data as timeline.js does. Every range of a thread, less the marks of steps and a loader's waits for room in its queue, must be
there with its name, and start and end to the unit of the page.
"""
import base64
import collections
import json
import re
import sqlite3
import sys


def numbers(text):
    value, shift, out = 0, 0, []
    for byte in base64.b64decode(text):
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            out.append(value)
            value, shift = 0, 0
    return out


def main():
    page = open(sys.argv[1], encoding="utf-8").read()
    data = json.loads(re.search(r'id="chart-data">(.*?)</script>', page, re.S).group(1))["events"]
    unit, seen = data["unit"], collections.Counter()
    for track in data["tracks"]:
        at, parts = 0, numbers(track["data"])
        if len(parts) != 3 * track["n"]:
            sys.exit("%s: %d numbers of %d events" % (track["name"], len(parts), track["n"]))
        for i in range(0, len(parts), 3):
            at += parts[i]
            kind = data["kinds"][parts[i + 2] // 8]
            seen[(track["name"], kind[1] or kind[0], at, at + parts[i + 1])] += 1
    run = sqlite3.connect(sys.argv[2])
    origin = run.execute('select min(start) from (select start from slice union all select start from step union all '
                         'select start from process union all select time from counter)').fetchone()[0]
    rows = run.execute("""select t.name, n.text, s.start, s.start + s.dur from slice s join track t on t.id = s.track
                          join string n on n.id = s.name left join detail d on d.id = s.detail
                          where t.kind = 'thread' and s.dur > 0 and coalesce(d.schema, '') != 'tacho.step'
                          and coalesce(d.kind, '') != 'queue_wait'""").fetchall()
    bad = [r for r in rows if not seen[(r[0], r[1], (r[2] - origin) // unit, (r[3] - origin) // unit)]]
    total = sum(seen.values())
    print("%d ranges in the file, %d in the page, %d not found there: %s" % (len(rows), total, len(bad), bad[:3]))
    return bool(bad) or not rows or total < len(rows)


sys.exit(main())
