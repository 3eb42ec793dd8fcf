#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
# What large files take: events a second of an XPlane (2 million) are at least two thirds of those of a Kineto trace with as many kernels,
# by processor time; a memory snapshot of 1 GB is read in 10 s of processor time with at most 500 MB. One whose events refer to stacks that
# came before, as PyTorch writes it, has 15 times as many events: it is read with at most 500 MB, and its time is printed.
set -u
cd "$(dirname "$0")/../../.." || exit 1
TACHO=${TACHO:-$PWD/build/tacho}
command -v python3 > /dev/null || { echo "needs python3"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/tacho-import-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
PYTHONPATH=tests/e2e/import PYTHONDONTWRITEBYTECODE=1 python3 - "$TACHO" "$work" "${EVENTS:-2000000}" "${SNAPSHOT_MB:-1000}" << 'END'
import io, os, pickle, sqlite3, sys
from formats import Plane, field

tacho, work, events, megabytes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
LINE = 1000  # events of one line, a ms apart


def imported(path, least):
    """Processor seconds, and the most memory, of an import of at least that many rows."""
    out, child = os.path.join(work, "out.tacho"), os.fork()
    if not child:
        with open(os.path.join(work, "err"), "w") as err:
            os.dup2(err.fileno(), 2)
        os.execv(tacho, [tacho, "import", path, "-o", out])
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"{path}: {open(os.path.join(work, 'err')).read()}")
    print(f"{os.path.basename(path)}: {os.path.getsize(path) / 1e6:.0f} MB, {usage.ru_utime + usage.ru_stime:.2f} s of processor time, "
          f"{usage.ru_maxrss / 1024:.0f} MB", flush=True)
    with sqlite3.connect(f"file:{out}?mode=ro", uri=True) as run:
        rows = run.execute("SELECT count(*) FROM slice").fetchone()[0]
    if rows < least:
        sys.exit(f"{path}: only {rows} rows")
    os.remove(out)
    os.remove(path)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def xplane(path):
    """One stream, its line cut into pieces that begin a second after each other."""
    plane, head = Plane("/device:GPU:0 (fake)"), field(1, 7) + field(2, "Stream #7(Compute)")
    before = len(plane.out)
    plane.line(7, "Stream #7(Compute)", 0, [(f"kernel_{i % 40}", i * 1_000_000_000, 700_000_000, {"correlation_id": i}, {}) for i in range(LINE)])
    line = plane.out[before:]
    own = line[line.index(head + field(3, 0)) + len(head + field(3, 0)):]  # the events
    plane.out = plane.out[:before] + b"".join(
        field(3, head + field(3, 1_700_000_000_000_000_000 + piece * LINE * 1_000_000) + own) for piece in range(events // LINE))
    with open(path, "wb") as f:
        f.write(plane.bytes())


def kineto(path):
    with open(path, "w") as f:
        f.write('{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"GPU"}],"traceEvents":[\n')
        for i in range(events):
            f.write(f'{{"ph":"X","cat":"kernel","name":"kernel_{i % 40}","pid":0,"tid":7,"ts":{1_700_000_000_000 + i},"dur":0.7,'
                    f'"args":{{"device":0,"stream":7,"correlation":{i}}}}},\n')
        f.write('{"ph":"M","name":"process_name","pid":0,"tid":0,"ts":0,"args":{"name":"python"}}]}')


def snapshot(path):
    """Pickled without references, so that each event brings its stack of 12 frames."""
    def plain(value):
        out = io.BytesIO()
        pickler = pickle.Pickler(out, 4)
        pickler.fast = True
        pickler.dump(value)
        data = out.getvalue()[2:-1]
        return data[9:] if data[:1] == b"\x95" else data  # without the head of a frame

    frames = [{"filename": f"/srv/model/layer{i}.py", "line": 100 + i, "name": f"forward_{i}"} for i in range(12)]
    mark = 0x7F0123456789
    events_of = [plain({"action": action, "addr": mark, "size": 4096, "stream": 0, "time_us": 0x6AABBCCDDEE, "frames": frames})
                 for action in ("alloc", "free_requested", "free_completed")]
    address, time = mark.to_bytes(6, "little"), (0x6AABBCCDDEE).to_bytes(6, "little")
    with open(path, "wb") as f:
        f.write(b"\x80\x04}(" + plain("segments") + b"]" + plain("device_traces") + b"](](")
        written = moment = 0
        while written < megabytes << 20:
            moment += 1
            place = (0x7F0000000000 + (moment % 5000) * 4096).to_bytes(6, "little")
            for event in events_of:
                when = (0x6AABB000000 + moment).to_bytes(6, "little")
                written += f.write(event.replace(address, place).replace(time, when))
        f.write(b"eeu.")
    return moment


def shared(path):
    """As PyTorch pickles it: keys, texts and stacks come once, then by number. Three batches of 1,000 events come again and again."""
    frames = [{"filename": f"/srv/model/layer{i // 9}.py", "line": i, "name": f"forward_{i % 37}"} for i in range(500)]
    stacks = [[frames[(7 * i + 3 * k) % 500] for k in range(30)] for i in range(200)]
    start = 0x6AABBCCDDEE00

    def three_batches():
        return [{"action": action, "addr": 0x7F0000000000 + i * 4096, "size": 512 * (1 + i % 90), "stream": 0, "time_us": start + 3 * i + k,
                 "compile_context": "N/A", "user_metadata": "", "frames": stacks[(i + k) % 200]}
                for i in range(1000) for k, action in enumerate(("alloc", "free_requested", "free_completed"))]

    def pickled(history):
        out = io.BytesIO()
        pickler = pickle._Pickler(out, 4)
        pickler.framer.start_framing = lambda: None
        pickler.dump({"segments": [], "device_traces": [history]})
        return out.getvalue()

    first, tail = three_batches(), b"au."
    head = pickled(first)[:-len(tail)]
    again = bytearray(pickled(first + three_batches())[len(head):-len(tail)])
    times = [again.index((start + i).to_bytes(7, "little")) for i in range(3000)]
    moment = start
    with open(path, "wb") as f:
        written = f.write(head)
        while written < megabytes << 20:
            for at in times:
                moment += 1
                again[at:at + 7] = moment.to_bytes(7, "little")
            written += f.write(again)
        f.write(tail)
    return (moment - start) // 3


fast, slow, large = (os.path.join(work, name) for name in ("kineto.json", "big.xplane.pb", "big.pickle"))
kineto(fast)
kineto_s, _ = imported(fast, events)
xplane(slow)
xplane_s, _ = imported(slow, events)
wrong = []
if xplane_s > 1.5 * kineto_s:
    wrong.append(f"XPlane takes {xplane_s / kineto_s:.2f} times as long as Kineto")
for kind in (snapshot, shared):
    snapshot_s, memory = imported(large, kind(large))
    if (kind is snapshot and snapshot_s > 10 * megabytes / 1000) or memory > 500e6:
        wrong.append(f"the snapshot ({kind.__name__}) takes {snapshot_s:.1f} s and {memory / 1e6:.0f} MB")
sys.exit("; ".join(wrong) or 0)
END
