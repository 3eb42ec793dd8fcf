# SPDX-License-Identifier: Apache-2.0
"""The board of tests/gpu/checks.py: runs commands, keeps the rows, and writes one archive after each check.

A row is what one line of docs/gpu-results.md says: number, what was compared, what was measured, verdict. Verdicts: ok, FAIL, printed (a
number with no bound), open (this machine cannot measure it, and why).
"""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

KIT, OUT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
REHEARSAL = os.environ.get("TACHO_GPU_REHEARSAL", "")  # a folder with substitutes for the programs of this one
PROGRAMS = REHEARSAL or HERE
TACHO, WORK = os.path.join(KIT, "tacho"), os.path.join(REHEARSAL or KIT, "work")
ARCHIVE = os.path.join(OUT, "gpu-results.tar.gz")
TIMED_OUT = 124
KEPT_FILES, KEPT_BYTES = 5, 12 << 20  # recordings of checks that failed
KEEP = os.environ.get("TACHO_GPU_KEEP", "")  # a folder for the recordings of all checks
LOG_BYTES = 2 << 20
STARTED = time.monotonic()
LATE_WAITS = "reason LIKE 'waits between streams not recorded%'"  # in SQL: until a second stream was noticed


def size(count, least=1):
    """A number of steps or kernels: a tenth of it in a rehearsal."""
    return max(count // 10, least) if REHEARSAL else count


def version():
    """What tacho calls itself, and a digest of the programs: rows of another build are not taken over."""
    digest = hashlib.sha256()
    for name in ("tacho", "libtacho.so", "libtacho_gemm.so", "train", "libtrain_cuda.so"):
        if os.path.exists(os.path.join(KIT, name)):
            with open(os.path.join(KIT, name), "rb") as f:
                digest.update(f.read())
    said = subprocess.run([TACHO, "version"], capture_output=True, text=True, check=False).stdout.strip()
    return f"{said} (build {digest.hexdigest()[:12]})"


class Board:
    """All state of one call: rows, the log, deadlines, and what a former call has left."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tacho-gpu-")
        self.rows = []  # [number, what, measured, verdict, when]
        self.done = {}  # name of a check: its seconds
        self.log, self.said, self.kept = [], [], []
        self.deadline = STARTED
        self.doctor = ""
        self.version = version()
        self.read_former()

    def read_former(self):
        """Takes over the rows of a former call of the same tacho: from its archive, or from a results.json that was carried here."""
        former = None
        try:
            if os.path.exists(ARCHIVE):
                with tarfile.open(ARCHIVE) as archive:
                    former = json.load(archive.extractfile("results.json"))
                    self.log.append(archive.extractfile("log.txt").read().decode("utf-8", "replace"))
            elif os.path.exists(os.path.join(KIT, "results.json")):
                with open(os.path.join(KIT, "results.json"), encoding="utf-8") as f:
                    former = json.load(f)
        except (OSError, ValueError, KeyError, tarfile.TarError, AttributeError) as error:
            print(f"former results not read: {error}")
        if former and former.get("version") == self.version and former.get("rehearsal") == bool(REHEARSAL):
            self.rows, self.done = former["rows"], former["done"]
            print(f"going on with {len(self.done)} checks of a former call")

    def row(self, number, what, measured, verdict):
        self.rows.append([number, what, str(measured), verdict, time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())])
        print(f"{number:>4}  {verdict:<8} {what}: {measured}", flush=True)

    def drop(self, numbers):
        self.rows = [r for r in self.rows if r[0] not in numbers]

    def left(self):
        return max(1.0, self.deadline - time.monotonic())

    def file(self, name):
        return os.path.join(self.folder, name)

    def run(self, command, env=None, log_output=True):
        """Exit status (124: out of time), standard output and error. Whatever it started ends with it."""
        began = time.monotonic()
        with subprocess.Popen(command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace", start_new_session=True, cwd=self.folder) as child:
            try:
                out, err = child.communicate(timeout=self.left())
                status = child.returncode
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                out, err = child.communicate()
                status, err = TIMED_OUT, err + f"\nout of time after {time.monotonic() - began:.0f} s\n"
        said = [f"$ {' '.join(command)}" + "".join(f" {k}={v}" for k, v in (env or {}).items()),
                f"status {status}, {time.monotonic() - began:.1f} s"]
        for text in (err, out if log_output else ""):
            said += text.rstrip().splitlines() if len(text) < 6000 else [text[:3000], "...", text[-3000:]]
        self.said.append("\n".join(said) + "\n")
        return status, out, err

    def record(self, name, command, options=(), env=None):
        """Runs a command under tacho. Returns (path of the file, the command's own books, exit status, messages)."""
        path = self.file(name + ".tacho")
        if os.path.exists(path):
            os.unlink(path)
        status, out, err = self.run([TACHO, "run", "--no-peak", "--no-counters", "-o", path, *options, "--", *command], env)
        self.said.append("losses: " + json.dumps(ask(path, "SELECT source, reason, count FROM loss")) + "\n")
        return path, books(out), status, err

    def end_check(self, name, numbers, seconds):
        """Notes a check as done, keeps the recordings of one that failed, and writes the archive."""
        failed = any(r[0] in numbers and r[3] == "FAIL" for r in self.rows)
        for file in sorted(os.listdir(self.folder)):
            path = self.file(file)
            if KEEP and file.endswith(".tacho") and os.path.isfile(path):
                shutil.copy(path, KEEP)
            if file.endswith(".tacho") and failed and len(self.kept) < KEPT_FILES and \
                    os.path.getsize(path) + sum(map(os.path.getsize, self.kept)) <= KEPT_BYTES:
                self.kept.append(shutil.copy(path, os.path.join(self.folder, "kept-" + file[:-6])))
            elif not file.startswith("kept-"):
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        self.done[name] = round(seconds, 1)
        self.log += self.said
        if failed:
            print("".join(self.said)[-3000:], flush=True)
        self.said = []

    def write(self, page):
        """The archive, in one step: of two calls of it either the former or the new one is there."""
        parts = {"gpu-results.md": page,
                 "results.json": json.dumps({"version": self.version, "rehearsal": bool(REHEARSAL), "rows": self.rows, "done": self.done},
                                            indent=1),
                 "log.txt": "".join(self.log)[-LOG_BYTES:]}
        new = os.path.join(OUT, ".gpu-results.new")
        with tarfile.open(new, "w:gz", compresslevel=6) as archive:
            for name, text in parts.items():
                path = self.file("kept-part")
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                archive.add(path, name)
            for path in self.kept:
                archive.add(path, os.path.basename(path)[5:] + ".tacho")
        os.replace(new, ARCHIVE)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def books(text):
    """The last line of JSON that a program has printed: its own account of what it did."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except ValueError:
                return {}
    return {}


def ask(path, query):
    done = subprocess.run([TACHO, "sql", "--json", path, query], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 and done.stdout.strip() else []


def one(path, query, otherwise=0):
    rows = ask(path, query)
    return next(iter(rows[0].values())) if rows else otherwise


def rows_of(path, category, window=None):
    """Rows of a category, or those that began in [from, to) of CLOCK_MONOTONIC: how many, and their milliseconds."""
    inside = f"AND start BETWEEN {int(window[0])} AND {int(window[1])}" if window else ""
    rows = ask(path, "SELECT count(*) AS n, coalesce(sum(dur), 0) / 1e6 AS ms FROM slice JOIN string ON string.id = category "
                     f"WHERE text = '{category}' {inside}")
    return rows[0] if rows else {"n": 0, "ms": 0}


def kernels(path, window=None):
    return rows_of(path, "kernel", window)


def losses(path):
    """What the recorder says is missing of the device; not the note when waits between streams were not recorded, which line 1b is about."""
    return ask(path, f"SELECT source, reason, count FROM loss WHERE source IN ('agent', 'cupti') AND NOT {LATE_WAITS}")


def near(a, b, share):
    return bool(a and b) and abs(a - b) <= share * abs(b)


def short(rows):
    return "; ".join(f"{r['reason'][:60]} ({r['count']})" for r in rows) or "nothing"
