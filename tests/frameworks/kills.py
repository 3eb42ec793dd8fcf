#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills programs of PyTorch, their workers, their launchers and what records them, at moments drawn by seed.

usage: tests/frameworks/kills.py BUILD [--rounds N] [--seed N] [--seconds N] [--out FILE] [--report]

Each round starts a program (killed.py), with or without loader workers, ranks and a launcher, and sends one signal to one process.
Then every process of it ends, tacho has the exit status that the death has, the file is whole and readable, and each update that the
program wrote into its journal has ended a step of the file: none is missing, none is there twice. Rounds are lines of JSON in FILE
(default: BUILD/kills-SEED.jsonl); those that are there are not run again. --seconds: no round begins later.
Last line: "N passed, N failed".
"""

import argparse
import glob
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 90  # seconds until everything has ended
PATIENCE = 15  # seconds, for processes that are expected to stay
MARK = "TACHO_KILLS_ROUND"

HOW = ("inline", "fork", "spawn", "forkserver", "torchrun", "accelerate")
VICTIMS = ("program", "recorder", "both", "worker", "launcher")
SIGNALS = ("KILL", "KILL", "KILL", "TERM", "INT")
WORKERS = ("fork", "spawn", "forkserver")
LAUNCHED = ("torchrun", "accelerate")


def make_round(seed, number):
    r = random.Random("%d %d" % (seed, number))
    one = {"number": number, "how": HOW[number % len(HOW)]}
    victims = [v for v in VICTIMS if (v != "worker" or one["how"] in WORKERS) and (v != "launcher" or one["how"] in LAUNCHED)]
    one["victim"] = r.choice(victims)
    one["signal"] = "KILL" if one["victim"] in ("recorder", "both") else r.choice(SIGNALS)
    one["updates"] = r.choice((0, r.randint(1, 100), r.randint(1, 100)))  # 0: while it starts
    one["seconds"] = r.uniform(0.05, 3)  # only then
    return one


def processes(mark):
    """pid -> its command, of everything that the round has started and that is not over."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if ("%s=%s" % (MARK, mark)).encode() in file.read().split(b"\0"):
                    with open(path.replace("environ", "cmdline"), "rb") as file:
                        found[int(path.split("/")[2])] = file.read().decode(errors="replace").replace("\0", " ")
        except OSError:  # it is over
            pass
    return found


def wait_until(condition, seconds=LIMIT):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    return condition()


def children(pid):
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


def updates(folder):
    """rank -> (pid, updates in its journal)"""
    found = {}
    for path in glob.glob(os.path.join(folder, "journal.*")):
        with open(path) as file:
            lines = file.read().split("\n")[:-1]
        if lines:
            found[path.rsplit(".", 1)[1]] = (int(lines[-1]), len(lines))
    return found


def command_of(one, python, folder):
    program = [os.path.join(HERE, "killed.py"), os.path.join(folder, "journal"), one["how"] if one["how"] in WORKERS else "inline"]
    if one["how"] == "torchrun":
        return [python, "-m", "torch.distributed.run", "--nproc-per-node", "2"] + program
    if one["how"] == "accelerate":
        launch = ["--cpu", "--num_processes", "1", "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
        return [os.path.join(os.path.dirname(python), "accelerate"), "launch"] + launch + program
    return [python] + program


def victims_of(one, recorder, folder):
    """Their pids; the program's is in its journal once it has made an update."""
    first = wait_until(lambda: children(recorder.pid) or recorder.poll() is not None, 10)
    launched = first[0] if isinstance(first, list) else recorder.pid
    journal = updates(folder)
    program = journal[min(journal)][0] if journal else launched
    if one["victim"] == "worker":
        return [pid for pid in children(program)][-1:]
    return {"program": [program], "recorder": [recorder.pid], "both": [recorder.pid, program], "launcher": [launched]}[one["victim"]]


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def statuses(one):
    """What tacho may end with: the death of what it started; an interpreter that is told to end while it starts says 1."""
    number = getattr(signal, "SIG" + one["signal"])
    if one["victim"] in ("recorder", "both"):
        return (-signal.SIGKILL, 0)
    direct = one["victim"] == "launcher" or (one["victim"] == "program" and one["how"] not in LAUNCHED)
    if direct and number == signal.SIGKILL:
        return (128 + number, 0)
    return (128 + number, 1, 0)


def steps_of(path, faults):
    """pid -> steps that ended"""
    file = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
    if file.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
        faults.append("the file is not whole")
    for name, in file.execute("SELECT name FROM sqlite_master WHERE name LIKE 'live%'"):
        faults.append("live table %s" % name)
    rows = file.execute('SELECT p.pid, count(*), count(DISTINCT s."index") FROM step s JOIN process p ON p.id = s.process '
                        'WHERE s."end" IS NOT NULL GROUP BY 1').fetchall()
    faults += ["pid %d: a step is there twice" % pid for pid, count, different in rows if count != different]
    return {pid: count for pid, count, _ in rows}


def check_file(one, build, folder, faults):
    """A recorder that was killed leaves a live folder, which `recover` finishes."""
    path, tacho = os.path.join(folder, "run.tacho"), os.path.join(build, "tacho")
    if one["victim"] in ("recorder", "both") and os.path.exists(path + ".live"):
        done = subprocess.run([tacho, "recover", path + ".live"], capture_output=True, text=True, timeout=LIMIT)
        if done.returncode:
            faults.append("recover: exit %d: %s" % (done.returncode, done.stderr[-300:]))
    if os.path.exists(path + ".live"):
        faults.append("the live folder is left")
    journal = updates(folder)
    if not os.path.exists(path):
        # a recorder that is killed before it has a live folder has recorded nothing, and the program ran without one
        if one["victim"] not in ("recorder", "both") or journal and one["updates"]:
            faults.append("no file: %s" % os.listdir(folder))
        return
    done = subprocess.run([tacho, "report", path, "--json"], capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        faults.append("report: exit %d: %s" % (done.returncode, done.stderr[-300:]))
    ended = steps_of(path, faults)
    for rank, (pid, count) in journal.items():
        if not count <= ended.get(pid, 0) <= count + 1:
            faults.append("rank %s: %d updates, %d steps" % (rank, count, ended.get(pid, 0)))


def outlives(one, python, known={}):
    """Do processes of this program outlive its death without tacho? The workers of PyTorch's loader look for the death of their
    parent, which the fork server is; that lives as long as they do. A program that is told to end (SIGTERM) takes none of them with it
    either; an interrupted one does. Ranks whose torchrun is killed before they have found each other wait for minutes."""
    how, number = one["how"], getattr(signal, "SIG" + one["signal"])
    starts = how == "torchrun" and number == signal.SIGKILL and one["victim"] != "recorder" and not one["updates"]
    if not starts and (number == signal.SIGINT or one["victim"] not in ("program", "both") or how not in WORKERS):
        return False
    if (how, number) not in known:
        with tempfile.TemporaryDirectory() as folder:
            mark = "%d-%s" % (os.getpid(), how)
            program = subprocess.Popen(command_of(one, python, folder), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, env=dict(os.environ, **{MARK: mark}))
            has_begun = (lambda: len(processes(mark)) > 2) if starts else (lambda: any(n > 20 for _, n in updates(folder).values()))
            wait_until(lambda: program.poll() is not None or has_begun())
            program.send_signal(number)
            program.wait()
            wait_until(lambda: not processes(mark), PATIENCE)
            known[how, number] = bool(processes(mark))
            send(processes(mark), signal.SIGKILL)
    return known[how, number]


def run_round(one, build, python, seed):
    with tempfile.TemporaryDirectory() as folder:
        mark, faults = "%d-%d-%d" % (os.getpid(), seed, one["number"]), []
        command = [os.path.join(build, "tacho"), "run", "--no-peak", "--no-counters", "--overhead", "0",
                   "-o", os.path.join(folder, "run.tacho"), "--"] + command_of(one, python, folder)
        environment = dict(os.environ, **{MARK: mark, "NO_COLOR": "1"})
        with open(os.path.join(folder, "out"), "w") as out:
            recorder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True)
        if one["updates"]:
            wait_until(lambda: recorder.poll() is not None or any(n >= one["updates"] for _, n in updates(folder).values()))
        else:
            time.sleep(one["seconds"])
        send(victims_of(one, recorder, folder), getattr(signal, "SIG" + one["signal"]))
        if outlives(one, python) and not wait_until(lambda: not processes(mark), PATIENCE):
            send(set(processes(mark)) - {recorder.pid}, signal.SIGKILL)
        wait_until(lambda: recorder.poll() is not None)
        left = None if wait_until(lambda: not processes(mark)) else processes(mark)
        if left:
            faults.append("still there: %s" % left)
            send(left, signal.SIGKILL)
        status = recorder.wait()
        if status not in statuses(one):
            faults.append("exit status %d, not one of %s" % (status, statuses(one)))
        check_file(one, build, folder, faults)
        if faults:
            with open(os.path.join(folder, "out")) as file:
                faults.append(file.read()[-600:])
        return {"round": one, "status": status, "updates": updates(folder), "faults": faults}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--out")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    build, begun = os.path.abspath(options.build), time.monotonic()
    python = os.environ.get("TORCH_PYTHON") or os.path.join(build, "frameworks", "bin", "python")
    if not os.access(python, os.X_OK):
        print("no PyTorch in %s: make frameworks" % python)
        sys.exit(77)
    path = options.out or os.path.join(build, "kills-%d.jsonl" % options.seed)
    results = []
    if os.path.exists(path):
        with open(path) as file:
            results = [json.loads(line) for line in file]
    done = {result["round"]["number"] for result in results}
    for number in range(options.rounds):
        if options.report or number in done or time.monotonic() - begun > options.seconds:
            continue
        result = run_round(make_round(options.seed, number), build, python, options.seed)
        results.append(result)
        with open(path, "a") as file:
            file.write(json.dumps(result) + "\n")
    for result in results:
        if result["faults"]:
            print("FAIL: %s: %s" % (result["round"], "; ".join(result["faults"])))
    for how in HOW:
        mine = [result["round"] for result in results if result["round"]["how"] == how]
        print("%-11s %3d rounds: %s" % (how, len(mine), ", ".join(
            "%d %s" % (sum(one["victim"] == victim for one in mine), victim) for victim in VICTIMS)))
    failed = sum(bool(result["faults"]) for result in results)
    print("%d passed, %d failed" % (len(results) - failed, failed))
    sys.exit(failed != 0)


main()
