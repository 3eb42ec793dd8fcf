#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tacho and other tools say first of ten drawn programs, and what each costs: the table of docs/comparison.md.

usage: tests/frameworks/beside.py BUILD [--seed N] [--tools A,B] [--causes A,B] [--pairs N] [--folder FOLDER] [--report]

The programs are draws (draws.py) of ten causes. Each tool runs each program as its documentation says: torch.profiler around the whole
script (profiled.py), `py-spy record`, `scalene run`, `traceml run` with its two calls in the program, and `tacho run --stacks`. The
first screen is the first 24 lines of its report (80 columns wide where it asks for a width); the whole of it is kept in FOLDER/TOOL-CAUSE.txt. A
screen names the cause if one of the words of WORDS is in it: the line or function that was planted, or what the field calls it.
--pairs: so many runs without the tool and with it, in turn; the cost is the median of the ratios of their steps. It needs a machine
that does nothing else. Results are lines of JSON in FOLDER/beside.jsonl; what is there is not run again. --report: the table only.
"""

import argparse
import collections
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import draws

HERE = os.path.dirname(os.path.abspath(__file__))
LINES, COLUMNS = 24, 80
LIMIT = 300

# cause -> the planted line of draw.py, and words of the field, as regular expressions
WORDS = {
    "slow_loader": (r"time.sleep(milliseconds / 1e3 / ROWS)", "input.?(stall|bound)|data ?loader|__getitem__|data wait"),
    "host_python": (r"while time.thread_time() < end:", r"\bspin\b"),
    "host_sleep": (r"time.sleep(milliseconds / 1e3)", r"\bsleep\b"),
    "garbage": (r"gc.collect()", r"garbage|gc\.collect"),
    "checkpoint": (r"torch.save(", r"checkpoint|torch\.save|\bsave\b"),
    "evaluation": (r"net(held)", "evaluation"),
    "leak": (r"kept.append(torch.ones(", "leak|memory (grows|creep|growth|rising)|grows"),
    "recompile": (r"run(x), y)", "compil"),
    "ddp_microstep": (r"loss.backward()", "no_sync|micro.?step|accumulat"),
    "straggler": (r"time.sleep(milliseconds / 1e3)", r"\bsleep\b|straggler|rank 1"),
}


def planted_lines(text):
    with open(os.path.join(HERE, "draw.py")) as file:
        return [number for number, line in enumerate(file, 1) if text in line]


def names_cause(cause, screen):
    text, words = WORDS[cause]
    lines = "|".join(r"draw\.py[: (]+(line )?%d\b" % number for number in planted_lines(text))
    return bool(re.search("%s|%s|%s" % (lines, words, re.escape(text.strip())), screen, re.I))


# ---- tools: a command, and what they report afterwards ------------------------------------------


def program_of(draw, folder):
    return [os.path.join(HERE, "draw.py"), json.dumps(draw), "planted", folder]


def launcher_of(python, draw):
    return [python] + (["-m", "torch.distributed.run", "--nproc-per-node", str(draw["ranks"])] if draw["ranks"] > 1 else [])


class Tool:
    """needs: a program beside the interpreter. environment: for the program."""

    needs, environment = None, {}

    def __init__(self, build, python):
        self.build, self.python, self.beside = build, python, os.path.dirname(python)

    def command(self, draw, folder):
        return launcher_of(self.python, draw) + program_of(draw, folder)

    def report(self, folder, output):
        return output

    def output(self, folder):
        """What the program printed that the tool did not pass on."""
        return ""

    def path(self, name):
        return os.path.join(self.beside, name)


class Tacho(Tool):
    def command(self, draw, folder):
        return [os.path.join(self.build, "tacho"), "run", "--stacks", "-o", os.path.join(folder, "run.tacho"), "--"] + super().command(draw, folder)

    def report(self, folder, output):
        command = [os.path.join(self.build, "tacho"), "report", "--width", str(COLUMNS), os.path.join(folder, "run.tacho")]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT).stdout


class TorchProfiler(Tool):
    def command(self, draw, folder):
        return launcher_of(self.python, draw) + [os.path.join(HERE, "profiled.py"), os.path.join(folder, "table")] + program_of(draw, folder)

    def report(self, folder, output):
        with open(os.path.join(folder, "table")) as file:
            return file.read()


class PySpy(Tool):
    """Its flame graph as a table: the innermost lines with most samples, as `py-spy top` lists them."""

    needs = "py-spy"

    def command(self, draw, folder):
        record = [self.path("py-spy"), "record", "--subprocesses", "--idle", "--format", "raw", "--rate", "100", "-o"]
        return record + [os.path.join(folder, "raw"), "--"] + super().command(draw, folder)

    def report(self, folder, output):
        own, total = collections.Counter(), 0
        with open(os.path.join(folder, "raw")) as file:
            for line in file:
                stack, count = line.rsplit(" ", 1)
                own[stack.split(";")[-1]] += int(count)
                total += int(count)
        return "\n".join("%6.1f %%  %s" % (100 * n / total, name) for name, n in own.most_common(LINES))


class Scalene(Tool):
    needs = "scalene"

    def command(self, draw, folder):
        run = [self.python, "-m", "scalene", "run", "--cpu-only", "-o", os.path.join(folder, "scalene.json")]
        program = program_of(draw, folder)
        if draw["ranks"] > 1:  # what it profiles is the launcher, which it does not look beyond
            return run + ["-m", "torch.distributed.run", "---", "--nproc-per-node", str(draw["ranks"])] + program
        return run + program[:1] + ["---"] + program[1:]

    def report(self, folder, output):
        command = [self.python, "-m", "scalene", "view", "--cli", "-r", os.path.join(folder, "scalene.json")]
        environment = dict(os.environ, COLUMNS=str(COLUMNS))
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LIMIT).stdout


class TraceML(Tool):
    """The two calls that its documentation asks for are in draw.py, where DRAW_TRACEML is set."""

    needs, environment = "traceml", {"DRAW_TRACEML": "1"}

    def command(self, draw, folder):
        program = program_of(draw, folder)
        ranks = ["--nproc-per-node", str(draw["ranks"])] if draw["ranks"] > 1 else []
        return [self.path("traceml"), "run", program[0], "--mode=summary", "--logs-dir", folder, *ranks, "--args", *program[1:]]

    @staticmethod
    def read(folder, name):
        for path, _, names in os.walk(folder):
            if name in names:
                with open(os.path.join(path, name)) as file:
                    return file.read()
        return ""

    def output(self, folder):
        return self.read(folder, "training.stdout.log")

    def report(self, folder, output):
        return self.read(folder, "final_summary.txt") or output


TOOLS = {"tacho": Tacho, "torch.profiler": TorchProfiler, "py-spy": PySpy, "Scalene": Scalene, "TraceML": TraceML}


# ---- runs ----------------------------------------------------------------------------------------


def run(tool, draw):
    """Seconds of its steps, and the report."""
    folder = tempfile.mkdtemp()
    try:
        environment = dict(os.environ, NO_COLOR="1", **tool.environment)
        done = subprocess.run(tool.command(draw, folder), capture_output=True, text=True, timeout=LIMIT, env=environment, cwd=folder)
        lines = [line for line in (done.stdout + tool.output(folder)).splitlines() if line.startswith('{"steps"')]
        if not lines:
            raise RuntimeError("exit %d: %s" % (done.returncode, (done.stderr or done.stdout)[-500:]))
        return json.loads(lines[-1])["seconds"], without_colours(tool.report(folder, done.stdout))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def without_colours(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def first_screen(text):
    return "\n".join(text.splitlines()[:LINES])


def costs(tool, bare, draw, pairs):
    """Ratios of the steps with the tool to those without it, in turn."""
    ratios = []
    for i in range(pairs):
        with_tool, without = (run(tool, draw)[0], run(bare, draw)[0]) if i % 2 else reversed((run(bare, draw)[0], run(tool, draw)[0]))
        ratios.append(with_tool / without)
    return ratios


def measure(name, cause, options, build, python):
    tool, bare, result = TOOLS[name](build, python), Tool(build, python), {"tool": name, "cause": cause}
    draw = draws.make_draw(options.seed, list(WORDS).index(cause), cause)
    if cause not in ("slow_loader", "recompile"):  # a loader without workers, as most scripts have; TraceML times nothing without one
        draw["data"] = "cached"
    try:
        if tool.needs and not os.access(tool.path(tool.needs), os.X_OK):
            raise RuntimeError("%s is not beside %s: make frameworks-beside" % (tool.needs, python))
        _, text = run(tool, draw)
        with open(os.path.join(options.folder, "%s-%s.txt" % (name, cause)), "w") as file:
            file.write(text)
        result["named"], result["lines"] = names_cause(cause, first_screen(text)), len(text.splitlines())
        result["anywhere"] = names_cause(cause, text)
        result["ratios"] = costs(tool, bare, draw, options.pairs)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        result["failed"] = str(error)[:400]
    return result


def cell(result):
    if result is None:
        return "-"
    if "failed" in result:
        return "did not run"
    words = "yes" if result["named"] else "further down" if result["anywhere"] else "no"
    if result["ratios"]:
        words += ", %+.1f %%" % (100 * (statistics.median(result["ratios"]) - 1))
    return words


def table(results):
    print("| planted cause | %s |\n|---|%s" % (" | ".join(TOOLS), "---|" * len(TOOLS)))
    for cause in WORDS:
        print("| %s | %s |" % (cause, " | ".join(cell(results.get((name, cause))) for name in TOOLS)))
    for name in TOOLS:
        mine = [r for (tool, _), r in results.items() if tool == name]
        ratios = [statistics.median(r["ratios"]) for r in mine if r.get("ratios")]
        cost = "; steps %+.1f %% (median of programs)" % (100 * (statistics.median(ratios) - 1)) if ratios else ""
        print("%s: names %d of %d on its first screen, %d anywhere%s" % (
            name, sum(r.get("named", False) for r in mine), len(mine), sum(r.get("anywhere", False) for r in mine), cost))
        for r in mine:
            if "failed" in r:
                print("  %s: %s" % (r["cause"], r["failed"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seed", type=int, default=20261127)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--causes", default=",".join(WORDS))
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--folder")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    python = os.environ.get("TORCH_PYTHON") or os.path.join(build, "frameworks", "bin", "python")
    options.folder = os.path.abspath(options.folder or os.path.join(build, "beside"))
    os.makedirs(options.folder, exist_ok=True)
    path, results = os.path.join(options.folder, "beside.jsonl"), {}
    if not os.access(python, os.X_OK):
        print("no PyTorch in %s: make frameworks" % python)
        sys.exit(77)
    if os.path.exists(path):
        with open(path) as file:
            results = {(r["tool"], r["cause"]): r for r in map(json.loads, file)}
    for cause in options.causes.split(","):
        for name in options.tools.split(","):
            done = results.get((name, cause))
            if options.report or (done and "failed" not in done and len(done["ratios"]) >= options.pairs):
                continue
            results[name, cause] = result = measure(name, cause, options, build, python)
            with open(path, "a") as file:
                file.write(json.dumps(result) + "\n")
            print("%-15s %-15s %s" % (cause, name, cell(result)), flush=True)
    table(results)


main()
