# SPDX-License-Identifier: Apache-2.0
"""Lines about what is recorded, each against the books that tests/gpu/work.cu keeps of itself."""
import os
import signal
import subprocess
import time

from board import LATE_WAITS, REHEARSAL, TACHO, WORK, ask, books, kernels, losses, near, one, rows_of, short, size

PLAIN = ("--overhead", "0")  # no step is left unrecorded
MILLISECOND = "2000000"  # cycles of a kernel: about that long


def own_job(board, number, name, mode, steps, count, *more, options=PLAIN):
    path, own, status, err = board.record(name, [WORK, mode, str(steps), str(count), *map(str, more)], options)
    if status:
        board.row(number, f"{mode} job", f"status {status}: " + "; ".join(x for x in err.splitlines() if not x.startswith("tacho:"))[:200],
                  "FAIL")
        return None, own
    return path, own


def counts(board):
    """Kernels of a millisecond each, so that the gaps between them are small beside them."""
    path, own = own_job(board, "1a", "counts", "gpu", size(40), 20, MILLISECOND)
    if not path:
        return
    k, lost = kernels(path), losses(path)
    board.row("1a", "kernels of a CUDA program", f"{k['n']} of {own['kernels']}, lost {short(lost)}",
              "ok" if k["n"] == own["kernels"] and not lost else "FAIL")
    board.row("1a", "their time, beside CUDA events", f"{k['ms']:.3f} ms of {own['device_ms']:.3f} ms",
              "ok" if near(k["ms"], own["device_ms"], 0.02) else "FAIL")


def one_stream(board):
    """Short kernels, launched fast: the first buffer of records comes back soon and shows one stream, and waits are no longer recorded."""
    path, own = own_job(board, "1b", "one-stream", "launch", size(400, 300), size(500, 250))
    if not path:
        return
    waits, late, lost = rows_of(path, "sync")["n"], one(path, f"SELECT count(*) AS n FROM loss WHERE {LATE_WAITS}"), losses(path)
    calls = one(path, "SELECT count(*) AS n FROM slice JOIN string ON string.id = name WHERE text LIKE 'cudaStreamSynchronize%'")
    times = ask(path, "SELECT min(start) AS first, max(start) AS last, max(CASE WHEN text = 'sync' THEN start END) AS wait FROM slice "
                      "JOIN string ON string.id = category WHERE text IN ('kernel', 'sync')")[0]
    span, until = times["last"] - times["first"], (times["wait"] or times["first"]) - times["first"]
    board.row("1b", "a program with one stream", f"{waits} rows of waits, the last one after {until / 1e9:.2f} of {span / 1e9:.2f} s; {calls} calls that "
              f"wait; {late} notes about them, lost {short(lost)}",
              "ok" if 0 < waits < calls == own["steps"] and until < span / 2 and not late and not lost else "FAIL")


def streams(board):
    """What streams wait for is recorded until one of them is seen to have all the work, and again once a second one is used: each call that makes
    a stream wait has its row, or lies in the time that the file notes."""
    one_stream(board)
    path, own = own_job(board, "1b", "two-streams", "streams", size(600, 320), size(400, 250), 0)
    if not path:
        return
    gap, lost = ask(path, f"SELECT t0, t1 FROM loss WHERE {LATE_WAITS}"), losses(path)
    first, last = (gap[0]["t0"], gap[0]["t1"]) if gap else (0, 0)
    calls = ask(path, "SELECT c.start, c.correlation IN (SELECT w.correlation FROM slice w JOIN string k ON k.id = w.name WHERE k.text = "
                      "'Stream Wait Event') AS has FROM slice c JOIN string n ON n.id = c.name WHERE n.text LIKE 'cudaStreamWaitEvent%'")
    has = sum(c["has"] for c in calls)
    inside = sum(not c["has"] and first - 10000 <= c["start"] <= last + 10000 for c in calls)  # 10 us for the conversion of clocks
    named = one(path, "SELECT count(*) AS n FROM slice JOIN string ON string.id = name JOIN detail ON detail.id = detail "
                      "WHERE text = 'Stream Wait Event' AND payload LIKE '%\"record_correlation\"%'")
    noted = f"a gap of {(last - first) / 1e9:.2f} s is noted" if gap else "no gap is noted"
    board.row("1b", "waits between two streams", f"of {own['waits']} calls {has} have their row, {inside} lie in the gap, {len(calls) - has - inside} "
              f"elsewhere; {noted}; {named} rows name the event's call; {kernels(path)['n']} of {own['kernels']} kernels, lost {short(lost)}",
              "ok" if len(gap) <= 1 and len(calls) == own["waits"] == has + inside and has and named >= has - 2
              and kernels(path)["n"] == own["kernels"] and not lost else "FAIL")


def kill(board):
    """SIGKILL after some seconds. What the last flush (once a second) has not brought back is read from the buffers, as far as CUPTI has
    written there: at least what is older than two seconds must be in the file."""
    path, own, status, _ = board.record("kill", [WORK, "kill", str(size(400, 250)), "10", MILLISECOND], PLAIN)
    k, ended = kernels(path), one(path, "SELECT count(*) FROM process WHERE exit_status = 137")
    launched = own.get("kernels", 0)
    times = ask(path, "SELECT min(start) AS first, max(start) AS last FROM slice JOIN string ON string.id = category WHERE text = 'kernel'")
    span = ((times[0]["last"] or 0) - (times[0]["first"] or 0)) / 1e9 if times else 0
    board.row("6", "SIGKILL in the middle of a step", f"status {status}, {k['n']} of {launched} kernels over {span:.1f} s, lost "
              f"{short(losses(path))}", "ok" if status == 128 + signal.SIGKILL and ended and k["n"] >= launched / 2 > 0 else "FAIL")


def capture(board):
    """A window by step numbers, and one that is opened while the job runs."""
    path, _ = own_job(board, "8", "window", "gpu", size(60, 30), 10, options=(*PLAIN, "--steps", "10:19"))
    if path:
        k = kernels(path)["n"]
        board.row("8", "--steps 10:19", f"{k} kernels of 100, lost {short(losses(path))}", "ok" if k == 100 else "FAIL")
    path = board.file("asked.tacho")
    command = [TACHO, "run", "--no-peak", "--no-counters", *PLAIN, "--gpu", "later", "-o", path, "--", WORK, "gpu", str(size(500, 400)),
               "10", MILLISECOND]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=board.folder) as job:
        for _ in range(100):  # until it has made steps
            if one(os.path.join(path + ".live", "run.db"), "SELECT count(*) AS n FROM step") > 3 or job.poll() is not None:
                break
            time.sleep(0.1)
        said = board.run([TACHO, "capture", "--steps", "5", path + ".live"])
        try:
            job.communicate(timeout=board.left())
        except subprocess.TimeoutExpired:
            job.kill()
    k = kernels(path)["n"]
    board.row("8", "tacho capture --steps 5", f"{(said[1] + said[2]).replace(board.folder + '/', '').strip()[:100]}; {k} kernels of 50",
              "ok" if said[0] == 0 and k == 50 else "FAIL")


def graphs(board):
    """A CUDA graph by its nodes, as a whole, and in windows."""
    steps, nodes = size(100, 10), size(200, 20)
    path, own = own_job(board, "9", "graph-nodes", "graph", steps, nodes)
    if path:
        k = kernels(path)["n"]
        linked = one(path, "SELECT count(*) AS n FROM slice k JOIN string c ON c.id = k.category WHERE c.text = 'kernel' AND k.correlation IN "
                           "(SELECT l.correlation FROM slice l JOIN string n ON n.id = l.name WHERE n.text LIKE '%GraphLaunch%')")
        board.row("9", "kernels of a CUDA graph", f"{k} of {own['kernels']}, {linked} with the launch of their graph, lost "
                  f"{short(losses(path))}", "ok" if k == own["kernels"] == linked else "FAIL")
    path, own = own_job(board, "9", "graph-whole", "graph", steps, nodes, options=(*PLAIN, "--cuda-graphs", "whole"))
    if path:
        whole, k = rows_of(path, "graph")["n"], kernels(path)["n"]
        board.row("9", "a CUDA graph as a whole", f"{whole} rows of {steps} launches, {k} kernels", "ok" if whole == steps else "FAIL")
    path, own = own_job(board, "9", "graph-windows", "graph", steps, nodes, options=(*PLAIN, "--every", "2"))
    if path:
        k, lost = kernels(path)["n"], losses(path)
        wrong = one(path, "SELECT count(*) AS n FROM slice k JOIN string c ON c.id = k.category WHERE c.text = 'kernel' AND k.correlation IN (SELECT "
                          "l.correlation FROM slice l JOIN string lc ON lc.id = l.category JOIN string n ON n.id = l.name WHERE lc.text IN "
                          "('runtime', 'driver') AND n.text NOT LIKE '%GraphLaunch%')")
        version = one(path, "SELECT value FROM run WHERE key = 'cupti.version'", "?")
        board.row("9", "a CUDA graph in every second step", f"CUPTI {version}: {k} kernels of {own['kernels'] // 2}, {wrong} with a wrong launch, "
                  f"lost {short(lost)}", "ok" if near(k, own["kernels"] / 2, 0.02) and not wrong else "FAIL")


def replay(board):
    """Thirty million kernels of a graph, or as many as there is time for: what CUPTI keeps on the device stays below its limit. Writing
    and analysing the rows takes longer than the kernels. `run.sh KIT OUT 9b` gives it all of the time."""
    seconds = max(int(board.left() / 2.5), 2)
    path, own, status, err = board.record("replay", [WORK, "replay", "20" if REHEARSAL else "30000", str(size(1000)), str(seconds)], (*PLAIN, "--max-size", "0"))
    if status or "kernels" not in own:
        board.row("9b", "a graph replayed", f"status {status}: {err.strip()[-200:]}", "FAIL")
        return
    k, lost = kernels(path)["n"], losses(path)
    counted = sum(r["count"] or 0 for r in lost)
    limit = one(path, "SELECT value FROM run WHERE key = 'cupti.device_memory'", "not known")
    board.row("9b", "a graph replayed", f"{own['kernels'] / 1e6:.1f} million kernels in {own['seconds']:.0f} s: {k} recorded, lost {short(lost)}; "
              f"device memory grew by {own['grown_mib']:.0f} MiB, CUPTI may take {limit}",
              "ok" if k + counted >= own["kernels"] * 0.999 and own["grown_mib"] <= 600 else "FAIL")


def memory(board):
    path, own = own_job(board, "11", "memory", "memory", 1, 1, options=(*PLAIN, "--gpu-memory"))
    if path:
        most = one(path, "SELECT max(value) AS n FROM counter JOIN track ON track.id = track WHERE name = 'gpu_memory_allocated'", None)
        board.row("11", "peak of device memory", f"{most} of {own['peak_bytes']} bytes", "ok" if near(most, own["peak_bytes"], 0.05) else "FAIL")


def cost(board):
    bare = books(board.run([WORK, "cost", str(size(20)), "2000"])[1]).get("launch_ns")
    for kinds, text in (("10", "kernels"), ("10,5", "kernels, runtime"), ("10,5,1,2", "copies too"), ("10,5,1,2,36", "events too"),
                        ("10,5,1,2,38", "synchronization too"), ("10,5,1,2,17", "CUPTI's overhead too"), ("", "all of the default")):
        _, own, status, _ = board.record("cost", [WORK, "cost", str(size(20)), "2000"], PLAIN, {"TACHO_GPU_KINDS": kinds})
        ns = own.get("launch_ns")
        board.row("2b", f"a launch, with {text}", f"{ns} ns, bare {bare} ns" + (f": {ns - bare:+.0f} ns" if ns and bare else ""),
                  "printed" if status == 0 and ns else "FAIL")
