# SPDX-License-Identifier: Apache-2.0
# For tests/bench/top.sh: what the dashboard costs the run that it watches. Blocks of one job with the dashboard (1) and without it
# (0) stand beside each other in pairs; of each block the median of its steps and the target's processor time a step are taken from
# the run's own file. What is told is the median over the pairs with a 95 % interval (bootstrap), so that a neighbour who disturbs
# some blocks does not decide. The noise is the same of blocks without it, each cut in halves. OVER: all of the interval is above
# the noise.
# usage: top_pairs.py RUN.tacho BLOCKS      BLOCKS: lines "PAIR TOP T0 T1", ns
import bisect
import random
import sqlite3
import statistics as st
import sys

db = sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True)
steps = sorted(db.execute('SELECT start, "end" - start FROM step WHERE "end" IS NOT NULL AND NOT paused'))
starts = [s[0] for s in steps]
cpu = db.execute("SELECT c.time, c.value FROM counter c JOIN track t ON t.id = c.track "
                 "WHERE t.name = 'cpu_time' ORDER BY c.time").fetchall()
times = [c[0] for c in cpu]


def cpu_at(t):
    i = min(max(bisect.bisect(times, t), 1), len(cpu) - 1)
    (t0, v0), (t1, v1) = cpu[i - 1], cpu[i]
    return v0 + (v1 - v0) * (t - t0) / (t1 - t0)


def block(t0, t1):
    """median step ns, processor ns a step"""
    inside = steps[bisect.bisect_left(starts, t0):bisect.bisect_left(starts, t1)]
    return st.median(d for _, d in inside), (cpu_at(t1) - cpu_at(t0)) / len(inside)


def interval(x):
    draw = random.Random(1)
    m = sorted(st.median(draw.choices(x, k=len(x))) for _ in range(2000))
    return st.median(x), m[50], m[1949]


of = {}
for line in open(sys.argv[2]):
    pair, top, t0, t1 = map(int, line.split())
    of.setdefault(pair, {})[top] = (t0, t1)
both = [p for p in of.values() if len(p) == 2]
for k, name in enumerate(("median step", "processor time a step")):
    slower = [100 * (block(*p[1])[k] / block(*p[0])[k] - 1) for p in both]
    halves = [(block(t0, (t0 + t1) // 2)[k], block((t0 + t1) // 2, t1)[k]) for t0, t1 in (p[0] for p in both)]
    noise = interval([100 * (b / a - 1) for a, b in halves])
    floor = max(abs(noise[1]), abs(noise[2]))
    median, low, high = interval(slower)
    print("dashboard: the run that is watched, %s\t%+.2f %% [%+.2f, %+.2f] (%d pairs of 4 s), noise %.2f %%\twithin\t%s" % (
        name, median, low, high, len(both), floor, "ok" if low <= floor else "OVER"))
