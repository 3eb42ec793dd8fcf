# SPDX-License-Identifier: Apache-2.0
# What each device did, where the time of its steps went, and why it did not compute, by brute force: both parts of a trace read once.
# TRACE: Kineto JSON[.gz] or Nsight SQLite[.gz]; exact.py says how it is called.
import collections

import absent_exact
import exact
import gpu_exact

Op = collections.namedtuple("Op", gpu_exact.Op._fields + ("what",))  # what: before copies of a communicator became communication
Trace = collections.namedtuple("Trace", "nsight ops rows calls edges")


def read(path):
    nsight = ".sqlite" in path
    if nsight:
        with exact.nsight(path) as db:
            ops, rows = gpu_exact.nsight(db)
            waits, memory = absent_exact.nsight_waits(db)
    else:
        events = exact.kineto(path)["traceEvents"]
        ops, rows = gpu_exact.kineto(events)
        waits, memory = absent_exact.kineto_waits(events)
    calls = gpu_exact.launches(ops, rows)
    named = gpu_exact.comm_copies(ops, calls, rows)
    edges = absent_exact.Edges([Op(*n, what=o.kind) for o, n in zip(ops, named)], calls, rows, waits, memory)
    return Trace(nsight, named, rows, calls, edges)


def compare(trace, reports):
    check, [report] = gpu_exact.Check(), reports
    gpu_exact.devices(check, trace.ops, report)
    if not trace.nsight:
        waiting = sorted({(call.start, call.end) for call, _, _ in trace.edges.syncs})
        gpu_exact.budget(check, trace.ops, trace.calls, trace.rows, report, waiting)
    absent_exact.compare(check, trace.edges, trace.rows, report)
    return check.done, check.wrong, ""


exact.run(read, compare)
