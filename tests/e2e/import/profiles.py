#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes traces of Perfetto and profiles of pprof with known answers, and compares exported profiles with folded stacks.
usage: profiles.py make FOLDER | pprof PROFILE FOLDED"""
import gzip, os, re, sys, zlib

from formats import field, fields, varint

# ---- Perfetto ----------------------------------------------------------------------------------------------------------------------


def packet(body):
    return field(1, body)


def event(kind, track=None, name=None, category=None, more=b""):
    body = field(9, kind) + more
    body += field(11, track) if track is not None else b""
    body += field(10, name) if isinstance(name, int) else field(23, name) if name else b""
    return body + (field(3, category) if isinstance(category, int) else field(22, category) if category else b"")


def perfetto():
    """As the SDK writes it: names once, times as differences in us to the packet before on a clock of the writer's own, a default
    track; then a second writer with absolute times, a track that is no thread, and a counter. Boot time 5 s is 0 of that clock."""
    seq = field(10, 7)
    clocks = field(6, field(1, field(1, 6) + field(2, 5_000_000_000)) + field(1, field(1, 64) + field(2, 0) + field(3, 1) + field(4, 1000)))
    defaults = field(59, field(58, 64) + field(11, field(11, 11)))
    out = packet(seq + field(8, 1) + clocks + defaults + field(13, 1))
    out += packet(seq + field(60, field(1, 10) + field(3, field(1, 500) + field(6, "trainer") + field(8, "rank=3"))))
    out += packet(seq + field(60, field(1, 11) + field(5, 10) + field(4, field(1, 500) + field(2, 501) + field(5, "main loop"))))
    names = field(12, field(2, field(1, 1) + field(2, "step 1")) + field(1, field(1, 1) + field(2, "train")) +
                  field(3, field(1, 1) + field(2, "tokens")))
    note = field(4, field(1, 1) + field(4, 2048)) + field(4, field(10, "note") + field(6, 'a "b"'))
    out += packet(seq + field(8, 100) + field(13, 2) + names + field(11, event(1, None, 1, 1, note)))  # at 100 us
    out += packet(seq + field(8, 50) + field(13, 2) + field(11, event(1, None, "inner", 1)))  # at 150
    out += packet(seq + field(8, 25) + field(13, 2) + field(11, event(2)))  # inner ends at 175
    out += packet(seq + field(8, 25) + field(13, 2) + field(11, event(3, None, "mark", "log")))  # at 200
    out += packet(seq + field(8, 300) + field(13, 2) + field(11, event(2)))  # step 1 ends at 500
    two = field(10, 9)
    out += packet(two + field(60, field(1, 20) + field(5, 10) + field(2, "queue")))
    out += packet(two + field(60, field(1, 21) + field(5, 10) + field(2, "loss") + field(8, b"")))
    out += packet(two + field(8, 5_000_600_000) + field(11, event(1, 20, "copy", "dma")))
    out += packet(two + field(8, 5_000_650_000) + field(11, event(4, 21, more=field(44, 0.25))))
    out += packet(two + field(8, 5_000_700_123) + field(11, event(2, 20)))
    out += packet(two + field(8, 5_000_700_200) + field(11, event(2, 20)))  # an end too many
    out += packet(two + field(8, 5_000_800_000) + field(11, event(1, 20, "never ends", "dma")))
    return out + packet(two + field(8, 5_000_800_001) + field(1, field(1, 3)))  # ftrace


# ---- pprof -------------------------------------------------------------------------------------------------------------------------


def pprof(types, samples, period=10_000_000):
    """A profile of main -> work (two functions inlined into it) -> leaf."""
    strings = ["", "samples", "count", "cpu", "nanoseconds", "inuse_space", "bytes", "main", "work", "inlined", "leaf", "a.go"]
    out = b"".join(field(1, field(1, strings.index(t)) + field(2, strings.index(u))) for t, u in types)
    for stack, values in samples:
        out += field(2, field(1, b"".join(map(varint, stack))) + field(2, b"".join(map(varint, values))))
    lines = {1: [(7, 5)], 2: [(9, 31), (8, 30)], 3: [(10, 70)], 4: []}
    for location, functions in lines.items():
        out += field(4, field(1, location) + field(3, 0x1000 * location) + b"".join(field(4, field(1, f) + field(2, n)) for f, n in functions))
    for function in (7, 8, 9, 10):
        out += field(5, field(1, function) + field(2, function) + field(4, 11))
    out += b"".join(field(6, text) for text in strings)
    return out + field(9, 1_700_000_000_000_000_000) + field(10, 1_000_000_000) + field(12, period)


def make(folder):
    os.makedirs(folder)
    cpu = pprof([("samples", "count"), ("cpu", "nanoseconds")],
                [((3, 2, 1), (60, 600_000_000)), ((2, 1), (30, 300_000_000)), ((4, 1), (5, 50_000_000))])
    trace = perfetto()
    ftrace = b"".join(packet(field(8, 10 + i) + field(10, 1) + field(1, field(1, i))) for i in range(3))
    put = {"sdk.pftrace": trace, "cut.perfetto-trace": trace[:-30], "ftrace.pftrace": ftrace,
           "packed.pftrace": packet(field(10, 1) + field(50, zlib.compress(trace)[:-9])),
           "damaged.pftrace": packet(field(10, 1) + field(50, b"x" * 60)),
           "cpu.pb.gz": gzip.compress(cpu), "cut.pb": cpu[:150],
           "heap.pb.gz": gzip.compress(pprof([("inuse_space", "bytes")], [((3, 2, 1), (4096,))]))}
    for name, data in put.items():
        with open(f"{folder}/{name}", "wb") as f:
            f.write(data)


def folded_of(path):
    """The stacks of a profile in the form of folded lines without process and thread, with the sum of their last value."""
    with open(path, "rb") as f:
        data = f.read()
    table, functions, locations, samples = [], {}, {}, []
    for number, value in fields(data):
        if number == 6:
            table.append(value.decode())
        elif number == 5:
            part = dict(fields(value))
            functions[part[1]] = (part[2], part.get(4, 0))
        elif number == 4:
            part = dict(fields(value))
            line = dict(fields(part[4]))
            locations[part[1]] = (line[1], line.get(2, 0))
        elif number == 2:
            samples.append(dict((n, v) for n, v in fields(value) if n < 3))

    def numbers(packed):
        value = shift = 0
        for byte in packed:
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                yield value
                value = shift = 0

    sums = {}
    for sample in samples:
        names = []
        for location in numbers(sample[1]):
            function, line = locations[location]
            name, file = (table[i] for i in functions[function])
            names.append(f"{name} ({file}:{line})" if file else name)
        stack = ";".join(re.sub("[;%\x00-\x1f\x7f]", lambda m: f"%{ord(m[0]):02X}", name) for name in reversed(names))
        sums[stack] = sums.get(stack, 0) + list(numbers(sample[2]))[-1]
    return sums


def compare(profile, folded):
    wanted = {}
    with open(folded, newline="\n") as f:
        for line in f:
            stack, value = line.rstrip("\n").rsplit(" ", 1)
            stack = stack.split(";", 2)[2]
            wanted[stack] = wanted.get(stack, 0) + int(value)
    own = folded_of(profile)
    if own != wanted:
        sys.exit(f"{len(own)} stacks of {sum(own.values())} ns, not {len(wanted)} of {sum(wanted.values())}: {set(own) ^ set(wanted)}"[:600])


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        compare(*sys.argv[2:4])
