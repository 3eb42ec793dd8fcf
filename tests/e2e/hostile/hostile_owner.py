# SPDX-License-Identifier: Apache-2.0
"""Another user leaves runs, links, pipes, mount points and races where root runs tacho: nothing outside of a run may be touched.

usage: hostile_owner.py TACHO TARGET ROUNDS SEED     as root, in a mount namespace of its own, in an empty folder

Each round makes a place that the other user (uid 65534) can write to, plants one thing in it, lets root run one command there, and
compares what must be as before: a folder of root's that every planted thing leads to, and, where nothing races, the place itself.
Prints what was touched, then "rounds: N, touched: N, hung: N".
"""
import ctypes
import hashlib
import os
import random
import shutil
import signal
import sqlite3
import stat
import struct
import subprocess
import sys
import time

OTHER = 65534
RENAME_EXCHANGE = 2
PR_SET_NAME = 15
HERE = -100  # AT_FDCWD
LIMIT_S = 40
libc = ctypes.CDLL(None, use_errno=True)
work = os.getcwd()
precious = os.path.join(work, "precious")
place = os.path.join(work, "place")
out = os.path.join(work, "out")


# ---- what must not change


def describe(path):
    info = os.lstat(path)
    content = ""
    if stat.S_ISLNK(info.st_mode):
        content = os.readlink(path)
    elif stat.S_ISREG(info.st_mode):
        with open(path, "rb") as file:
            content = hashlib.sha256(file.read()).hexdigest()
    return info.st_ino, info.st_mode, info.st_uid, info.st_gid, info.st_mtime_ns, content


def snapshot(root):
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = describe(path)
    return found


def differences(before, after):
    for name in sorted(set(before) | set(after)):
        if name not in after:
            yield f"{name} was removed"
        elif name not in before:
            yield f"{name} was made (uid {after[name][2]})"
        elif before[name] != after[name]:
            yield f"{name} was changed"


# ---- the runs that are planted


def record_dead(tacho, target, name):
    """A run whose recorder and target were killed, with its pools inside of its folder, so that copies of it are runs too."""
    recorder = subprocess.Popen(
        [tacho, "run", "--no-peak", "--no-counters", "--pool", "1", "-o", name, "--", target, "--forever", "--rate", "500"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    live = os.path.join(work, name + ".tacho.live")
    while not os.path.exists(live + "/run.db-wal"):
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(recorder.pid, signal.SIGKILL)
    recorder.wait()
    pools = os.path.realpath(live + "/segments")
    if os.path.islink(live + "/segments"):
        os.unlink(live + "/segments")
        shutil.copytree(pools, live + "/segments")
        shutil.rmtree(pools)
    return live


def copy_run(live, to, uid):
    shutil.copytree(live, to)
    for folder, folders, files in os.walk(to):
        for name in folders + files:
            os.chown(os.path.join(folder, name), uid, uid)
    os.chown(to, uid, uid)
    return to


def make_precious(live, finished):
    """Files of root, with the names that tacho gives: a run that is not finished, another database in WAL mode, and others."""
    shutil.copytree(live, precious)
    shutil.copytree(precious + "/segments", precious + "/pools")
    os.unlink(precious + "/run.db-shm")
    db = sqlite3.connect(precious + "/wal.db")
    db.executescript("PRAGMA journal_mode=WAL; CREATE TABLE t(x); INSERT INTO t VALUES(1)")
    db.close()
    shutil.copy(finished, precious + "/finished.tacho")
    shutil.copytree(live, os.path.join(precious, "other.tacho.live"))
    for name in ("keep", "reserve", "full", "run", "control", "pool.1.0", "gpu.1.0", "none.1", "run.db.finish", "request"):
        with open(os.path.join(precious, name), "w") as file:
            file.write("keep\n")
    for folder, _, _ in os.walk(precious):
        os.chmod(folder, 0o700)


# ---- the ways in which a name leads elsewhere


def put(kind, path, target):
    """Puts something of the other user at `path` that leads to `target`, a file of root's."""
    if os.path.lexists(path) and not (os.path.isdir(path) and not os.path.islink(path)):
        os.unlink(path)
    if kind == "symlink":
        os.symlink(target, path)
        os.lchown(path, OTHER, OTHER)
    elif kind == "hard link":
        os.link(target, path)
    elif kind == "pipe":
        os.mkfifo(path)
        os.chown(path, OTHER, OTHER)


def mount(source, path):
    if subprocess.run(["mount", "--bind", source, path], check=False).returncode != 0:
        raise SystemExit("no bind mounts here")


FILES = ["run.db", "run.db-wal", "run.db-shm", "run.db-journal", "run.db.finish", "lock", "reserve", "full", "segments/run", "segments/control"]


class Round:
    """One place, what is planted in it, and the command that root runs there."""

    def __init__(self, number, templates, tacho, chance):
        self.templates, self.tacho, self.chance = templates, tacho, chance
        self.swaps, self.mounted, self.process, self.strict, self.what = [], [], None, True, ""
        self.kept_environment = {"HOME": os.environ.get("HOME", "/")}
        self.sticky = chance.random() < 0.5
        os.mkdir(place)
        os.chmod(place, 0o1777 if self.sticky else 0o755)
        if not self.sticky:
            os.chown(place, OTHER, OTHER)
        self.live = os.path.join(place, "zz.tacho.live")
        self.command = chance.choice(COMMANDS)
        KINDS[number % len(KINDS)](self)

    def theirs(self):
        copy_run(self.templates["live"], self.live, OTHER)

    def aside(self, name):
        return os.path.join(place, name)

    # ---- what is planted

    def file_leads_elsewhere(self):
        self.theirs()
        name, kind = self.chance.choice(FILES), self.chance.choice(["symlink", "hard link", "pipe"])
        target = os.path.join(precious, self.chance.choice(["keep", "wal.db", os.path.basename(name)]))
        put(kind, os.path.join(self.live, name), target if os.path.exists(target) else precious + "/keep")
        self.what = f"{kind} as {name}"

    def segments_lead_elsewhere(self):
        self.theirs()
        shutil.rmtree(self.live + "/segments")
        put("symlink", self.live + "/segments", self.chance.choice([precious, precious + "/pools"]))
        self.what = "segments are a link"

    def folder_is_a_link(self):
        put("symlink", self.live, self.chance.choice([precious, precious + "/other.tacho.live"]))
        self.what = "the live folder is a link"

    def mount_points(self):
        self.theirs()
        where = self.chance.choice([self.live + "/segments", self.live + "/run.db-wal", self.live + "/run.db-shm"])
        mount(precious + ("/pools" if where.endswith("segments") else "/keep"), where)
        self.mounted.append(where)
        self.what = f"mount point at {os.path.basename(where)}"

    def finished_with_neighbours(self):
        """A finished file, or one in WAL mode, and what SQLite would use beside it."""
        run = self.aside("zz.tacho")
        source = self.chance.choice(["done", "live"])
        shutil.copy(self.templates["done"] if source == "done" else self.templates["live"] + "/run.db", run)
        os.chown(run, OTHER, OTHER)
        kind = self.chance.choice(["symlink", "hard link", "pipe"])
        suffix = self.chance.choice(["-wal", "-shm", "-journal"])
        put(kind, run + suffix, precious + self.chance.choice(["/keep", "/run.db-wal"]))
        if self.chance.random() < 0.5:
            shutil.copy(self.templates["live"] + "/run.db-wal", run + ".wal")
            os.chown(run + ".wal", OTHER, OTHER)
            if suffix != "-wal":
                os.rename(run + ".wal", run + "-wal")
        self.what = f"{kind} as zz.tacho{suffix} ({source})"

    def foreign_database(self):
        """An export of another tool in WAL mode, and what SQLite would use beside it."""
        run = self.aside("zz.sqlite")
        shutil.copy(self.templates["live"] + "/run.db", run)
        os.chown(run, OTHER, OTHER)
        kind, suffix = self.chance.choice(["symlink", "hard link", "pipe", ""]), self.chance.choice(["-wal", "-shm", "-journal"])
        put(kind, run + suffix, precious + "/keep")
        self.command = self.chance.choice([["import", "zz.sqlite", "-o", out + "/run.tacho"], ["report", "zz.sqlite"]])
        self.what = f"{kind or 'nothing'} as zz.sqlite{suffix}"

    def super_journal(self):
        """A journal that names a file to be removed."""
        run, victim = self.aside("zz.tacho"), (precious + "/keep").encode()
        shutil.copy(self.templates["done"], run)
        magic = bytes([0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7])
        pages = os.path.getsize(run) // 4096
        head = magic + struct.pack(">IIIII", 0, 1, pages, 512, 4096)
        tail = struct.pack(">I", 0x40000000 // 4096 + 1) + victim + struct.pack(">II", len(victim), sum(victim)) + magic
        with open(run + "-journal", "wb") as file:
            file.write(head.ljust(512, b"\0") + tail)
        for name in (run, run + "-journal"):
            os.chown(name, OTHER, OTHER)
        self.what = "super-journal"

    def memory(self):
        """Folders in /dev/shm with names of root's."""
        folder = f"/dev/shm/tacho-0-{self.chance.randrange(100000, 999999)}"
        if self.chance.random() < 0.5:
            os.mkdir(folder, 0o755)
            os.chown(folder, OTHER, OTHER)
            put("symlink", folder + "/run", precious + "/pools/run")
            put("pipe", folder + "/pool.1.0", precious + "/keep")
        else:
            put("symlink", folder, precious)
        self.mounted.append("shm:" + folder)
        self.command = ["doctor", "--clean"]
        self.strict = False
        self.what = "a name of root's in memory"

    def job_folder(self):
        """The folder of a job is there already."""
        os.environ.update(SLURM_JOB_ID="7", SLURM_PROCID="0", SLURM_NTASKS="2", SLURM_LOCALID="0", SLURM_NNODES="2", SLURM_STEP_ID="0")
        name = 0xCBF29CE484222325
        for byte in b"7.0":
            name = (name ^ byte) * 0x100000001B3 % 2**64
        folder = self.aside(f".tacho-job-{name:016x}")
        os.mkdir(folder)
        os.chown(folder, OTHER, OTHER)
        os.chmod(folder, 0o777)
        put(self.chance.choice(["symlink", "hard link", "pipe"]), folder + "/request", precious + "/request")
        self.command = ["run", "--no-peak", "--no-counters", "--gpu", "later", "-o", "mine", "--", "true"]
        self.strict = False
        self.what = "a folder of the job"

    def home(self):
        """Root's HOME is the other user's, as sudo may leave it: his caches and settings lead elsewhere."""
        os.environ["HOME"] = place
        self.kept_environment |= {name: os.environ.pop(name) for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME") if name in os.environ}
        os.makedirs(place + "/.cache/tacho/imports")
        os.makedirs(place + "/.config/tacho")
        if self.chance.random() < 0.5:
            shutil.rmtree(place + "/.cache/tacho")
            put("symlink", place + "/.cache/tacho", precious)
        else:
            for pid in range(os.getpid(), os.getpid() + 300):
                put("symlink", f"{place}/.cache/tacho/{self.templates['peak']}.{pid}", precious + "/keep")
        for name in ("classes.tsv", "top.conf"):
            put(self.chance.choice(["symlink", "pipe"]), f"{place}/.config/tacho/{name}", precious + "/keep")
        for folder, _, _ in os.walk(place):
            os.chown(folder, OTHER, OTHER)
        self.sticky = False
        os.chmod(place, 0o755)
        self.command = self.chance.choice([["run", "--no-counters", "-o", out + "/mine", "--", "true"],
                                           ["report", self.templates["done"]], ["top", "--batch", "-n", "1", self.templates["done"]]])
        self.what = "a home that is another user's"

    # ---- races: the other user swaps two names all the time

    def race_of_folders(self):
        self.theirs()
        put("symlink", self.aside("x"), self.chance.choice([precious, precious + "/other.tacho.live"]))
        self.swaps = [(self.live, self.aside("x"))]
        self.what = "race: the live folder and a link"

    def race_of_files(self):
        self.theirs()
        name = self.chance.choice(FILES)
        target = os.path.join(precious, self.chance.choice(["keep", os.path.basename(name)]))
        put(self.chance.choice(["symlink", "hard link"]), self.live + "/x", target if os.path.exists(target) else precious + "/keep")
        if not os.path.lexists(os.path.join(self.live, name)):
            shutil.copy(self.live + "/run.db-wal", os.path.join(self.live, name))
            os.chown(os.path.join(self.live, name), OTHER, OTHER)
        self.swaps = [(os.path.join(self.live, name), self.live + "/x")]
        self.what = f"race: {name} and a link"

    def race_of_segments(self):
        self.theirs()
        put("symlink", self.live + "/x", self.chance.choice([precious, precious + "/pools"]))
        self.swaps = [(self.live + "/segments", self.live + "/x")]
        self.what = "race: segments and a link"

    def race_of_finished(self):
        run = self.aside("zz.tacho")
        shutil.copy(self.templates["live"] + "/run.db", run)
        shutil.copy(self.templates["live"] + "/run.db-wal", run + "-wal")
        for name in (run, run + "-wal"):
            os.chown(name, OTHER, OTHER)
        suffix = self.chance.choice(["-wal", "-shm", ""])
        put(self.chance.choice(["symlink", "hard link"]), self.aside("x"), precious + self.chance.choice(["/wal.db", "/keep"]))
        if suffix == "-shm":
            shutil.copy(self.templates["live"] + "/run.db-wal", run + suffix)
            os.chown(run + suffix, OTHER, OTHER)
        self.swaps = [(run + suffix, self.aside("x"))]
        self.what = f"race: zz.tacho{suffix} and a link"

    def race_of_own(self):
        """Root's own run in a folder of the other user, who moves it away and puts something else there."""
        os.chmod(place, 0o755)
        os.chown(place, OTHER, OTHER)
        copy_run(self.templates["live"], self.live, 0)
        if self.chance.random() < 0.5:
            put("symlink", self.aside("x"), self.chance.choice([precious, precious + "/other.tacho.live"]))
        else:
            copy_run(self.templates["live"], self.aside("x"), OTHER)
            shutil.rmtree(self.aside("x") + "/segments")
            put("symlink", self.aside("x") + "/segments", precious + "/pools")
        self.swaps = [(self.live, self.aside("x"))]
        self.command = self.chance.choice([["recover", "zz"], ["report", "latest"], ["report", "zz.tacho.live"]])
        self.what = "race: root's run and what is not"

    def race_while_recording(self):
        os.chmod(place, 0o755)
        os.chown(place, OTHER, OTHER)
        put("symlink", self.aside("x"), precious)
        self.swaps = [(self.aside("mine.tacho.live"), self.aside("x"))]
        self.command = ["run", "--no-peak", "--no-counters", "-o", "mine", "--", self.templates["target"], "--events", "500"]
        self.what = "race: a folder that is being recorded into"

    # ---- doing it

    def start_other(self):
        """The other user's process: called like a recorder, with a lock that is held, and swapping. It tells when it has begun."""
        begun, begins = os.pipe()
        self.process = os.fork()
        if self.process:
            os.close(begins)
            os.read(begun, 1)
            os.close(begun)
            return
        try:
            os.setgroups([])
            os.setgid(OTHER)
            os.setuid(OTHER)
            libc.prctl(PR_SET_NAME, b"tacho", 0, 0, 0)
            try:
                os.open(self.live + "/lock", os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
            except OSError:
                pass
            os.write(begins, b"x")
            while True:
                for left, right in self.swaps:
                    libc.renameat2(HERE, left.encode(), HERE, right.encode(), RENAME_EXCHANGE)
                if not self.swaps:
                    time.sleep(1)
        finally:
            os._exit(0)

    def run(self):
        """What was touched; empty where nothing was."""
        self.start_other()
        before, around = snapshot(precious), snapshot(place)
        try:
            subprocess.run([self.tacho, *self.command], cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return ["hung"]
        finally:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        found = list(differences(before, snapshot(precious)))
        if self.strict and not self.swaps:
            found += ["of the other user: " + line for line in differences(around, snapshot(place))]
        return found

    def clean(self):
        for path in self.mounted:
            if path.startswith("shm:"):
                path = path[4:]
                if os.path.islink(path):
                    os.unlink(path)
                else:
                    shutil.rmtree(path, ignore_errors=True)
            else:
                subprocess.run(["umount", path], check=True)
        shutil.rmtree(place, ignore_errors=True)
        for name in [name for name in os.environ if name.startswith("SLURM_")]:
            del os.environ[name]
        os.environ.update(self.kept_environment)


KINDS = [
    Round.file_leads_elsewhere, Round.race_of_folders, Round.segments_lead_elsewhere, Round.race_of_files, Round.folder_is_a_link,
    Round.race_of_segments, Round.mount_points, Round.race_of_finished, Round.finished_with_neighbours, Round.race_of_own,
    Round.super_journal, Round.race_of_files, Round.memory, Round.race_of_own, Round.finished_with_neighbours, Round.race_of_finished,
    Round.file_leads_elsewhere, Round.race_while_recording, Round.race_of_folders, Round.job_folder, Round.foreign_database,
    Round.home,
]
COMMANDS = [
    ["report", "latest"], ["report", "zz"], ["report", "zz.tacho.live"], ["top", "--batch", "-n", "1"], ["top", "--batch", "-n", "1", "latest"],
    ["top", "--batch", "-n", "1", "zz"], ["recover", "zz.tacho.live"], ["capture", "zz"], ["sql", "zz", "SELECT count(*) FROM slice"],
    ["export", "zz", "--format", "csv", "-o", out + "/csv"], ["merge", "zz", "zz", "-o", out + "/merged.tacho"], ["advise", "zz"], ["ls"], ["ls", "."],
    ["diff", "zz", "zz"], ["verify", "zz", "1"], ["report", "zz", "--html", "-o", out + "/page.html"],
]


def main(arguments):
    tacho, target, rounds, seed = arguments[0], arguments[1], int(arguments[2]), int(arguments[3])
    os.mkdir(out)
    subprocess.run([tacho, "run", "--no-peak", "--no-counters", "-o", "done", "--", target, "--events", "300"],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    cache = os.path.join(os.environ["XDG_CACHE_HOME"], "tacho")
    subprocess.run([tacho, "run", "--no-counters", "-o", "peak", "--", "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    templates = {"peak": next(name for name in os.listdir(cache) if name.startswith("peak-")), "live": record_dead(tacho, target, "dead"), "done": os.path.join(work, "done.tacho"), "target": target}
    make_precious(templates["live"], templates["done"])
    kept, touched, hung = os.path.join(work, "kept"), 0, 0
    shutil.copytree(precious, kept)
    for number in range(rounds):
        this = Round(number, templates, tacho, random.Random(seed * 100000 + number))
        found = this.run()
        this.clean()
        shutil.rmtree(out)
        os.mkdir(out)
        hung += found == ["hung"]
        if found:
            touched += found != ["hung"]
            print(f"FAIL: round {number}, {'sticky' if this.sticky else 'their own'} folder, {this.what}, tacho {' '.join(this.command)}: "
                  + "; ".join(found[:6]), flush=True)
            shutil.rmtree(precious, ignore_errors=True)
            shutil.copytree(kept, precious, symlinks=True)
    print(f"rounds: {rounds}, touched: {touched}, hung: {hung}")
    return 1 if touched or hung else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
