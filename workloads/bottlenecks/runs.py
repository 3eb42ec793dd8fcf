# SPDX-License-Identifier: Apache-2.0
"""Runs of a draw: its commands, how long their steps take, and what other programs used of the machine beside them."""
import glob
import hashlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from draws import HERE, changed, fill

TACHO = os.path.abspath(os.environ.get("TACHO", "build/tacho"))
TRAIN = os.path.abspath(os.environ.get("TRAIN", "build/train"))
CORES = len(os.sched_getaffinity(0))
SKIPPED_STEPS = 3  # of each run: caches and memory pools fill
LONGEST = 300  # seconds of a run
IMAGES = 4000
BURSTS = """
import time
while True:
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    time.sleep(0.2)
"""
NEIGHBOURS = {
    "cpu": ["sh", "-c", "while :; do :; done"],
    "bursts": [sys.executable, "-c", BURSTS],
    "memory": [sys.executable, "-c", "a = bytearray(64 << 20)\nb = bytearray(64 << 20)\nwhile True: a[:] = b"],
}


class Failed(Exception):
    """A run that did not end well; the text says which and why."""


def write_whole(path, text):
    """Writes a file under another name and renames it: after an interruption the old one is there, whole."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def engine():
    """Names the program `train` by its code and constants: the folder that it was built in, which debug information has, is no other engine."""
    sections = ["--only-section=.text", "--only-section=.rodata"]
    with tempfile.NamedTemporaryFile() as code:
        try:
            subprocess.run(["objcopy", "-O", "binary", *sections, TRAIN, code.name], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            shutil.copyfile(TRAIN, code.name)
        with open(code.name, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()[:12]


def cache_of(store, threads):
    """The cache of a calibration with that number of threads: the efficiency curve holds for one number only."""
    return os.path.join(store, "cache", str(threads))


def threads_of(environment):
    """Threads of a run for which the machine is calibrated: one, or as many as there are cores."""
    return 1 if str(environment.get("OMP_NUM_THREADS")) == "1" else CORES


class Processors:
    """Cores that programs other than this one's children used since it was made, as a mean."""

    def __init__(self):
        self.begun, self.busy, self.own = time.monotonic(), self.machine(), self.children()

    @staticmethod
    def machine():
        with open("/proc/stat", encoding="utf-8") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def children():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def others(self):
        seconds = max(1e-3, time.monotonic() - self.begun)
        return max(0.0, (self.machine() - self.busy - (self.children() - self.own)) / seconds)


class Bench:
    """Runs of one draw. `folder` holds what runs write and need; it is removed by the caller."""

    def __init__(self, recipe, folder, store):
        self.recipe, self.folder, self.store = recipe, folder, store
        self.others = 0.0  # cores that other programs used during the last run
        self.places = {"FOLDER": folder, "CORES": CORES, "TOKENIZER": os.path.join(store, "tokenizer"), "IMAGES": os.path.join(store, "images")}

    def command(self, options, steps, timers):
        words = [TRAIN, self.recipe["base"][0]]
        for option, value in options.items():
            if value is not None:
                words += [option] if value is True else [option, str(value)]
        words += [] if "--log-every" in options else ["--log-every", "0"]
        words += ["--steps", str(steps), "--timers", timers]
        ranks = self.recipe.get("ranks", 1)
        launcher = ["mpirun", "-np", str(ranks), "--bind-to", "none", "--oversubscribe"] if ranks > 1 else []
        return launcher + fill(words, self.places)

    def words(self, fix, steps, timers, record):
        """The whole command of a run, under tacho and under limits where it is to be."""
        options, _, _, limits = changed(self.recipe, fix)
        limited = [sys.executable, os.path.join(HERE, "limited.py")]
        words = self.command(options, steps, timers)
        if self.recipe.get("log"):
            words = limited + ["log", os.path.join(self.folder, "log")] + words
        if record:
            words = [TACHO, "run", "--overhead", "0", "-o", record, "--"] + words
        if limits:
            words = limited + ["limits", json.dumps(fill(limits, self.places) | {"folder": self.folder})] + words
        return words

    def environment(self, fix):
        _, own, _, _ = changed(self.recipe, fix)
        own = {name: str(value) for name, value in fill(own, self.places).items() if value is not None}
        return os.environ | own | {
            "XDG_CACHE_HOME": cache_of(self.store, threads_of(own)),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }

    def start(self, words, environment, neighbour):
        """Runs the command, with its neighbour beside it."""
        beside = subprocess.Popen(NEIGHBOURS[neighbour], start_new_session=True) if neighbour else None
        try:
            return subprocess.run(
                words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{' '.join(words)}: longer than {LONGEST} s") from error
        finally:
            if beside:
                os.killpg(beside.pid, 9)
                beside.wait()

    def cool(self, fix):
        """Puts the images out of the page cache, or all of them in, where the recipe is about that."""
        for path in glob.glob(os.path.join(self.places["IMAGES"], "*", "*")) if self.recipe.get("cold") else ():
            with open(path, "rb") as file:
                if (fix or {}).get("warm"):
                    file.read()
                else:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def run(self, fix, steps, record=None):
        """Seconds a step; with `record` under tacho, which writes that file."""
        _, _, neighbour, _ = changed(self.recipe, fix)
        self.cool(fix)
        timers = os.path.join(self.folder, "timers")
        words = self.words(fix, steps, timers, record)
        used = Processors()
        done = self.start(words, self.environment(fix), neighbour)
        self.others = used.others()
        if done.returncode:
            raise Failed(f"{' '.join(words)}: exit status {done.returncode}: {done.stderr[-300:]}")
        return max(seconds_of(path) for path in glob.glob(timers + "*")) / (fix or {}).get("samples", 1)


def seconds_of(timers):
    """Seconds that a step took, its share of evaluations and checkpoints included, but for what is written beside the steps; removes the file."""
    with open(timers, encoding="utf-8") as file:
        told = json.load(file)
    os.remove(timers)
    walls = [step["wall_ns"] for step in told["steps"]]
    threads = [thread for thread in told["threads"] if not thread["name"].startswith("checkpoint-")]
    phases = sum(name["ns"] for thread in threads for name in thread["names"] if name["name"] in ("evaluation", "checkpoint"))
    counted = walls[SKIPPED_STEPS:] or walls
    return (statistics.fmean(counted) + phases / len(walls)) / 1e9
