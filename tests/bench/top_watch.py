# SPDX-License-Identifier: Apache-2.0
# For tests/bench/top.sh: runs the dashboard on a pseudo terminal, reads what it writes as a terminal would, and measures.
# usage: top_watch.py TACHO RUN ROWS COLUMNS steady SECONDS     bytes and processor time of a steady state: "KIB_S SHARE RSS_MIB"
#        top_watch.py TACHO RUN ROWS COLUMNS pairs PAIRS        attached and detached in turn; a line a block: "PAIR TOP T0 T1", ns of
#                                                               CLOCK_MONOTONIC as in the run's file, TOP 1: with the dashboard
#        top_watch.py TACHO RUN ROWS COLUMNS first TURNS        "FIRST_MS ANALYSED_MS PEAK_MIB REST_MIB": medians
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import sys
import termios
import time

tacho, run, rows, columns, what, amount = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], float(sys.argv[6])


def begin():
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.execv(tacho, [tacho, "top", run])
    return pid, fd


def end(pid, fd):
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    os.close(fd)


def read_until(fd, moment, stop=lambda seen: False):
    seen = b""
    while (left := moment - time.monotonic()) > 0:
        if select.select([fd], [], [], min(left, 0.2))[0]:
            seen += os.read(fd, 65536)
            if stop(seen):
                break
    return seen


def ticks(pid):
    fields = open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def memory(pid):
    return {line.split(":")[0]: int(line.split()[1]) / 1024 for line in open("/proc/%d/status" % pid) if line.startswith(("Vm", "Rss"))}


SETTLE_S, BLOCK_S = 1.5, 4  # what opening costs is not what watching costs


def block(pair, attached):
    if attached:
        pid, fd = begin()
        read_until(fd, time.monotonic() + SETTLE_S)
    else:
        time.sleep(SETTLE_S)
    t0 = time.monotonic_ns()
    if attached:
        read_until(fd, time.monotonic() + BLOCK_S)
    else:
        time.sleep(BLOCK_S)
    print(pair, int(attached), t0, time.monotonic_ns(), flush=True)
    if attached:
        end(pid, fd)


if what == "pairs":
    for pair in range(int(amount)):
        for attached in (pair % 2 == 1, pair % 2 == 0):  # each comes first as often as the other: drift cancels
            block(pair, attached)
elif what == "first":
    turns = []
    for _ in range(int(amount)):
        t0 = time.monotonic()
        pid, fd = begin()
        # the frame is there when its last row is: the key bar; the header tells a step by then
        seen = read_until(fd, t0 + 60, lambda s: b"step " in s and b"help" in s)
        first = time.monotonic() - t0
        read_until(fd, t0 + 60, lambda s: b"BOUND" in seen + s)
        analysed = time.monotonic() - t0
        time.sleep(0.3)
        m = memory(pid)
        end(pid, fd)
        turns.append((first * 1e3, analysed * 1e3, m["VmHWM"] - m["RssFile"], m["RssAnon"]))  # without its libraries
    print(*("%.1f" % statistics.median(x) for x in zip(*turns)))
else:
    pid, fd = begin()
    read_until(fd, time.monotonic() + 8)  # the first frame and the first analyses are not steady
    t0, before = time.monotonic(), ticks(pid)
    seen = read_until(fd, t0 + amount)
    lasted, used = time.monotonic() - t0, (ticks(pid) - before) / os.sysconf("SC_CLK_TCK")
    print("%.2f %.2f %.1f" % (len(seen) / 1024 / lasted, 100 * used / lasted, memory(pid)["VmRSS"]))
    end(pid, fd)
