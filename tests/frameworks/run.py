#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests with real frameworks: programs as people write them, unchanged, whose own timers are the truth.

usage: tests/frameworks/run.py BUILD [REGEX]

The frameworks are in BUILD/frameworks, a virtual environment that `make frameworks` makes (or TORCH_PYTHON names a python3 that
has them); without it every test is skipped.
Each test records under a limit of LIMIT seconds of wall clock, all of them together under ALL (environment: FRAMEWORKS_SECONDS).
What other programs of the machine do changes what a test measures: one that fails is tried a second time, and a line "retry:" says so.
FRAMEWORKS_SCREENS names a folder that gets the first screen of each report, to be looked at.
Last line: "N passed, N failed, N skipped". Exit status: 0 when none failed.
"""

import json
import os
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT, ALL = 180, int(os.environ.get("FRAMEWORKS_SECONDS", "900"))
HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(sys.argv[1])
TACHO = os.path.join(BUILD, "tacho")
PYTHON = os.environ.get("TORCH_PYTHON") or os.path.join(BUILD, "frameworks", "bin", "python")


class Skipped(Exception):
    pass


class Run:
    """One recording of a program: its own truth, the report, and the file. start: what runs it in place of the interpreter."""

    def __init__(self, program, *arguments, needs=(), ranks=0, framework="torch", options=(), start=None):
        for name in (framework,) + needs:
            if subprocess.run([PYTHON, "-c", "import importlib.util as u; exit(not u.find_spec('%s'))" % name]).returncode:
                raise Skipped("%s is not in %s" % (name, PYTHON))
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "run.tacho")
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)] if ranks else []
        command = list(start or [PYTHON]) + launcher + [os.path.join(HERE, program)] + [a.replace("FOLDER", self.folder.name) for a in arguments]
        environment = dict(os.environ, TACHO_HOOK="debug", NO_COLOR="1", HF_HUB_OFFLINE="1")
        record = [TACHO, "run", "--overhead", "0", "-o", path, *options, "--"] + command
        done = subprocess.run(record, capture_output=True, text=True, timeout=LIMIT, env=environment)
        assert done.returncode == 0, done.stderr if len(done.stderr) < 6000 else done.stderr[:4000] + " ... " + done.stderr[-2000:]
        self.truth = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])  # launchers may add lines
        report = subprocess.run([TACHO, "report", path, "--json"], capture_output=True, text=True, timeout=LIMIT)
        assert report.returncode == 0, report.stderr
        self.report = json.loads(report.stdout)
        self.file = sqlite3.connect(path)
        self.look_at_screen(path, "-".join((program.split(".")[0],) + arguments).replace("-FOLDER", ""))

    def look_at_screen(self, path, name):
        """At most 28 lines of 80 columns; the first ten say what holds the run back, what to do and how sure that is."""
        report = subprocess.run([TACHO, "report", path, "--width", "80"], capture_output=True, text=True, timeout=LIMIT)
        self.screen = report.stdout.splitlines()
        if os.environ.get("FRAMEWORKS_SCREENS"):
            with open(os.path.join(os.environ["FRAMEWORKS_SCREENS"], name + ".txt"), "w") as file:
                file.write(report.stdout)
        assert report.returncode == 0 and len(self.screen) <= 28 and max(map(len, self.screen)) <= 80, report.stdout
        top = " ".join(self.screen[:10])
        if self.report["verdict"].startswith(("STEPS ONLY", "NO STEPS")):  # nothing that could hold it back is known
            return
        assert self.report["verdict"].split(":")[0] in top and "confidence" in top, top
        if self.report["findings"]:
            assert self.report["findings"][0]["id"] in top, top

    def ranges(self, name):
        """Their durations, in ms."""
        rows = self.file.execute("SELECT x.dur / 1e6 FROM slice x JOIN string s ON s.id = x.name WHERE s.text = ? ORDER BY x.start", (name,))
        return [row[0] for row in rows if row[0] is not None]

    def names(self, pattern):
        """Those of ranges that are like a pattern of SQL."""
        query = "SELECT DISTINCT s.text FROM slice x JOIN string s ON s.id = x.name WHERE s.text LIKE ?"
        return [row[0] for row in self.file.execute(query, (pattern,))]

    def same(self, name, truth, allowed=0.1, least_ms=0.15):
        """As many ranges of that name as the program timed, and the median within the allowed part."""
        got, want = self.ranges(name), self.truth[truth]
        assert len(got) == len(want), "%s: %d ranges, %d in the program" % (name, len(got), len(want))
        middle, true = statistics.median(got), statistics.median(want)
        assert abs(middle - true) <= max(allowed * true, least_ms), "%s: %.3f ms, the program says %.3f" % (name, middle, true)


def flops(*arguments):
    """Those of a step are those of torch.utils.flop_counter; with attention that has no mask the model's have no recomputation."""
    run = Run("flops.py", *arguments)
    utilization = run.report["utilization"]
    counted = run.truth["forward"] + run.truth["backward"]
    got = utilization["hardware_flops_per_step"]
    assert got and abs(got - counted) <= 0.005 * counted, (got, counted)
    assert utilization["mfu"] and utilization["peak_source"].startswith("measured"), utilization
    return run


def test_flops_gpt():
    flops_of_gpt()


def flops_of_gpt(*how):
    utilization = flops("gpt", *how).report["utilization"]
    width, length, tokens, layers, words = 64, 96, 4 * 96, 3, 512
    weights = layers * 12 * width * width + words * width
    # six FLOPs for each weight and token; four products of forward and backward for each of T (T + 1) / 2 pairs
    want = 6 * weights * tokens + layers * 12 * width * 4 * length * (length + 1) // 2
    assert utilization["model_flops_per_step"] == want, (utilization["model_flops_per_step"], want)


def test_flops_of_a_model_that_is_called_by_name():
    flops("gpt", "keywords")


def test_flops_resnet():
    flops("resnet")


def test_flops_bert():
    flops("bert")


def test_flops_of_convolutions_in_groups():
    truth = flops("grouped").truth
    assert truth["between_groups"] > 0.05 * truth["backward"], "flop_counter counts pairs of channels of different groups: %s" % truth


def test_an_update_begins_where_its_closure_returns():
    run = Run("programs.py", "closure")
    run.same("Adam.step", "update", 0.15)


def test_lightning_updates():
    run = Run("programs.py", "lightning", "FOLDER", needs=("pytorch_lightning",))
    got, want = run.ranges("Adam.step"), run.truth["update"]
    middle, true = statistics.median(got), statistics.median(want)
    assert len(got) == 30 and middle <= true and middle >= 0.7 * true, (len(got), middle, true)


def test_checkpoints_are_phases():
    run = Run("programs.py", "checkpoints", "FOLDER", needs=("safetensors",))
    for name in ("torch.save", "safetensors.save_file", "fsync"):
        run.same(name, name, 0.15, 0.5)
    phases = {phase["name"]: phase for phase in run.report["phases"]}
    total = sum(sum(times) for times in run.truth.values())
    got = phases["checkpoint"]["wall_ms"]
    assert abs(got - total) <= 0.15 * total + 1, (got, total, phases)


def test_what_surrounds_an_update_is_seen():
    run = Run("programs.py", "seen", needs=("nvtx",))
    for name in ("zero_grad", "augment", "by nvtx", "cross_entropy", "clip_grad_norm_", "SGD.step"):
        assert len(run.ranges(name)) in (20, 21), (name, len(run.ranges(name)))
    assert run.report["steps"]["samples_per_step"] == 256, run.report["steps"]
    assert len(run.ranges("StepLR.step")) + len(run.ranges("LRScheduler.step")) >= 20, "schedulers"
    assert run.truth["scripted"] is True


def test_a_skipped_update_ends_its_step():
    run = Run("programs.py", "scaler")
    assert run.report["steps"]["count"] == 24, run.report["steps"]["count"]
    rows = run.file.execute("SELECT max(value), count(*) FROM counter c JOIN track t ON t.id = c.track WHERE t.name = 'overflows'")
    assert rows.fetchone() == (6.0, 24)
    assert finding(run.report, "DEAD_SCALE"), run.report["findings"]


def test_updates_that_a_scaler_skips_now_and_then():
    run = Run("programs.py", "scaler", "rarely")
    advice = finding(run.report, "SKIPPED_UPDATES")
    assert advice and "10 of 80 updates" in advice["claim"] and "bf16" in advice["action"], run.report["findings"]


def test_trainer_of_transformers():
    run = Run("programs.py", "trainer", "FOLDER", needs=("transformers", "accelerate"))
    assert run.report["steps"]["count"] in (20, 21), run.report["steps"]["count"]
    assert "checkpoint" in [phase["name"] for phase in run.report["phases"]], run.report["phases"]
    assert run.report["run"]["around"].startswith("HF Trainer "), run.report["run"]
    assert len(run.ranges("callbacks on_step_end")) == 20 and run.ranges("Trainer._save_checkpoint")
    assert run.report["utilization"]["mfu"], run.report["utilization"]
    assert (run.report["steps"]["samples_per_step"], run.report["steps"]["tokens_per_step"]) == (4, 4 * 32), run.report["steps"]


def test_a_rank_that_sleeps_before_forward():
    run = Run("programs.py", "ranks", ranks=2)
    frontier = run.report["ranks"]["frontier"]
    assert frontier["stage"] == "host" and frontier["rank"] == 1, frontier
    stages = {row["rank"]: row["stage_ms"] for row in run.report["ranks"]["ranks"]}
    assert 58 <= stages[1]["host"] - stages[0]["host"] <= 75, stages
    assert run.report["communication"]["overlap_pct"] is None, run.report["communication"]["overlap_pct"]
    advice = json.dumps([finding.get("action") for finding in run.report["findings"]])
    assert "overlap the gradients" not in advice, advice
    late = next((f for f in run.report["findings"] if f["id"] in ("STRAGGLER", "SLOW_STAGE")), None)
    assert late and "ranks (programs.py:%d)" % line_of("time.sleep(0.06)") in late["action"], run.report["findings"]


def finding(report, name):
    return next((f for f in report["findings"] if f["id"] == name), None)


def test_garbage_is_collected_less_often():
    """The gain that is promised is what the program gains that follows the advice. Blocks of its steps with and without it take turns
    in one process, so that whatever else runs on the machine slows both: the gain of each pair of blocks is one measurement."""
    run = Run("programs.py", "garbage", "FOLDER")
    assert len(run.ranges("gc.collect 2")) >= 60
    advice = finding(run.report, "GARBAGE")
    assert advice and advice["gain_pct"]["low"] > 0, run.report["findings"]
    plain = subprocess.run([PYTHON, os.path.join(HERE, "programs.py"), "garbage"], capture_output=True, text=True, timeout=LIMIT)
    truth = json.loads(plain.stdout.strip().splitlines()[-1])
    blocks = [[sum(truth[every][i : i + 20]) for i in range(0, 80, 20)] for every in ("every 1", "every 10")]
    gains = [100 * (before / after - 1) for before, after in zip(*blocks)]
    low, high = advice["gain_pct"]["low"], advice["gain_pct"]["high"]
    assert min(gains) <= high and max(gains) >= low, "%s %% are not in [%.1f, %.1f]" % (gains, low, high)


def test_the_range_with_most_host_time_is_named():
    run = Run("programs.py", "augments")
    run.same("mix rows", "mix rows")
    with open(os.path.join(HERE, "programs.py")) as file:
        line = next(number for number, text in enumerate(file, 1) if "i * i for i in range(60000)" in text)
    advice = finding(run.report, "PYTHON_HOST")  # by its range, or with enough looks at Python's frames by its line
    assert advice and ("mix rows" in advice["claim"] or "programs.py:%d" % line in advice["claim"]), run.report["findings"]
    assert "tacho_nvtx.h" not in json.dumps(run.report["findings"]), run.report["findings"]


def test_what_replicas_do_beside_reducing():
    """Each with its measured time, and nothing of it where neither is asked for."""
    run = Run("programs.py", "replicas", "both", ranks=2)
    habits = {
        "unused parameters looked for": ("DDP_UNUSED_PARAMETERS", "find_unused_parameters=False"),
        "buffers broadcast": ("DDP_BUFFERS", "broadcast_buffers=False"),
    }
    for name, (identity, option) in habits.items():
        share, advice = 100 * sum(run.ranges(name)) / sum(run.ranges("step")), finding(run.report, identity)
        assert advice or share < 4, (name, share, run.report["findings"])
        assert not advice or option in advice["action"] and advice["gain_pct"]["high"] > 0, advice
    assert finding(run.report, "DDP_BUFFERS"), "60 broadcasts of three buffers each"
    assert len(run.ranges("buffers broadcast")) == len(run.ranges("unused parameters looked for")) == 60
    plain = Run("programs.py", "replicas", "plain", ranks=2)
    assert not finding(plain.report, "DDP_BUFFERS") and not plain.ranges("unused parameters looked for"), plain.report["findings"]


def test_collectives_of_the_program_are_named_by_line():
    """The loss of each step is reduced, and a barrier stands after it: what they take, and what following the advice brings."""
    run = Run("programs.py", "logs_loss", "each", ranks=2)
    line = "all_reduce programs.py:%d" % line_of("dist.all_reduce(shown)")
    assert len(run.ranges(line)) == 120, run.ranges(line)[:4]
    advice, share = finding(run.report, "SMALL_COLLECTIVE"), 0
    for name in (line, "barrier programs.py:%d" % line_of("dist.barrier()")):
        share += 100 * sum(run.ranges(name)) / sum(run.ranges("step"))
    communication = run.report["communication"]  # where ranks wait for each other most of that time, fewer calls are no cure
    waits = 2 * (communication["exposed_waiting_ms"] or 0) > 0.9 * communication["exposed_ms"]
    assert advice or share < 4 or waits, (share, communication, run.report["findings"])
    assert not advice or "programs.py:" in advice["claim"] and "every N steps" in advice["action"], advice
    assert finding(Run("programs.py", "logs_loss", "rarely", ranks=2).report, "SMALL_COLLECTIVE") is None


def test_collectives_that_wait_for_no_other_rank_are_named():
    """Of one rank none of that time is waiting, whatever else the machine does: here the rule has no excuse."""
    run = Run("programs.py", "logs_loss", "alone", ranks=1)
    advice = finding(run.report, "SMALL_COLLECTIVE")
    assert advice and "programs.py:" in advice["claim"] and "every N steps" in advice["action"], run.report["findings"]


def test_switches_for_debugging_are_found():
    """What is said to be the least that anomaly detection costs is no more than what it costs in blocks of the same program."""
    run = Run("programs.py", "debugs", "anomalies")
    advice = finding(run.report, "DEBUG_MODE")
    assert advice and run.report["findings"][0]["id"] in ("DEBUG_MODE", "OTHER_PROGRAMS"), run.report["findings"]
    said = float(re.search(r"([\d.]+) % of the step at least", json.dumps(advice["evidence"])).group(1))
    plain = subprocess.run([PYTHON, os.path.join(HERE, "programs.py"), "debugs", "both"], capture_output=True, text=True, timeout=LIMIT)
    truth = json.loads(plain.stdout.strip().splitlines()[-1])
    cost = 100 * (1 - statistics.median(truth["off"]) / statistics.median(truth["on"]))
    assert 0 < said <= 1.3 * cost + 3, (said, cost)
    assert finding(Run("programs.py", "debugs", "profiler").report, "DEBUG_MODE"), "torch.profiler is on in all steps"
    assert finding(Run("programs.py", "debugs", "off").report, "DEBUG_MODE") is None


def test_threads_that_the_program_sets():
    """One thread leaves the other cores idle, and a variable of the environment would not change it."""
    run = Run("programs.py", "threads")
    counters = dict(run.file.execute("SELECT t.name, max(c.value) FROM counter c JOIN track t ON t.id = c.track GROUP BY t.name"))
    assert (counters["host.threads"], counters["host.threads_by_variable"]) == (run.truth["threads"], 0) == (1, 0), counters
    keys = dict(run.file.execute("SELECT key, value FROM run"))
    usable, whole = int(keys["cpu.usable"]), int(keys["cpu.cores"])  # two CPUs may share a core
    cores, others = len(os.sched_getaffinity(0)) * whole // max(usable, whole), run.report["system"]["other_cores"]
    advice = finding(run.report, "IDLE_CORES")
    assert advice or cores - 1 - others < 0.7, (cores, others, run.report["findings"])
    assert not advice or "torch.set_num_threads(%d)" % cores in advice["action"], advice


def test_micro_steps_are_counted():
    run = Run("programs.py", "accumulates", "last", ranks=2)
    # four micro-steps with 32 samples each, on two ranks; what another model is given is no sample more
    assert (run.report["steps"]["micro_steps"], run.report["steps"]["samples_per_step"]) == (4, 128), run.report["steps"]
    assert not Run("programs.py", "augments").report["steps"]["micro_steps"]


def test_compilations_have_reasons():
    run = Run("programs.py", "compiles")
    again, broken = finding(run.report, "RECOMPILE"), finding(run.report, "GRAPH_BREAK")
    assert again and "size" in json.dumps(again["evidence"]) and "dynamic=True" in again["action"], (again, run.report["findings"])
    assert broken and "graph break programs.py:" in json.dumps(broken["evidence"]), broken


def test_jax_recompilations_have_a_finding():
    run = Run("jax_programs.py", "shapes", framework="jax")
    advice = finding(run.report, "RECOMPILE")
    assert advice and "args[1] float32[" in json.dumps(advice["evidence"]) and "pad" in advice["action"], run.report["findings"]


def test_jax_steps_compilations_and_waits():
    """Steps are the calls of the update, once it is known; what was compiled again has the argument that made it so."""
    run = Run("jax_programs.py", "trains", framework="jax")
    assert run.report["steps"]["count"] in (58, 59), run.report["steps"]["count"]
    names = [row[0] for row in run.file.execute("SELECT DISTINCT text FROM string WHERE text LIKE '%compile update%' OR text LIKE 'float %'")]
    assert "recompile update: args[1] float32[200,64], was float32[256,64]" in names, names
    waits = [name for name in names if name.startswith("float jax_programs.py:")]
    assert len(waits) == 1, names
    run.same(waits[0], "float", allowed=0.2, least_ms=0.3)
    assert len(run.ranges("jit update")) == 60 and "compile" in [phase["name"] for phase in run.report["phases"]]


def test_jax_gradients_and_update_in_two_functions():
    run = Run("jax_programs.py", "optimizer", framework="jax")
    assert run.report["steps"]["count"] in (run.truth["steps"] - 2, run.truth["steps"] - 1), run.report["steps"]
    assert len(run.ranges("jit apply")) == run.truth["steps"]


def test_jax_host_time_by_line():
    run = Run("jax_programs.py", "host", framework="jax", options=("--stacks",))
    share = 100 * sum(run.truth["augment"][2:]) / sum(run.truth["step"][2:])
    lines = [line for line in run.report["python"]["lines"] if "augment" in line["function"] and line["program"]]
    got, looks = sum(line["own_pct"] for line in lines), run.report["python"]["looks"]
    assert abs(got - share) <= 3 + 300 * (share / 100 * (1 - share / 100) / looks) ** 0.5, (got, share, looks)
    advice = finding(run.report, "PYTHON_HOST")
    # beside other programs most looks find the thread waiting for a core, and those left may be too few to say anything
    assert advice or finding(run.report, "OTHER_PROGRAMS"), run.report["findings"]
    assert not advice or "augment" in advice["claim"], advice


def test_jax_writes_its_profile_where_asked():
    """Eight steps, marked, in a file that is read as any profile of JAX; the program itself is recorded as without it."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TACHO_JAX_PROFILE"] = folder
        try:
            run = Run("jax_programs.py", "trains", framework="jax")
        finally:
            del os.environ["TACHO_JAX_PROFILE"]
        assert run.report["steps"]["count"] in (58, 59), run.report["steps"]["count"]
        files = [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names if name.endswith(".xplane.pb")]
        assert len(files) == 1, files
        done = subprocess.run([TACHO, "report", folder, "--json"], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
    assert 6 <= report["steps"]["count"] <= 8, report["steps"]
    took = statistics.median(run.truth["step"][9:16])
    assert 0.3 * took <= report["steps"]["median_ms"] <= 3 * took, (report["steps"]["median_ms"], took)


def test_jax_evaluations_and_checkpoints_are_phases():
    """As long as the program measured them; what is evaluated between two updates is no part of a step."""
    run = Run("jax_programs.py", "looks", "FOLDER", framework="jax")
    phases = {phase["name"]: phase for phase in run.report["phases"]}
    want = sum(run.truth["evaluation"])
    assert abs(phases["evaluation"]["wall_ms"] - want) <= 0.25 * want + 3, (want, phases)
    want = sum(run.truth["checkpoint"]) + sum(run.truth["pickle"])
    assert abs(phases["checkpoint"]["wall_ms"] - want) <= 0.2 * want + 3, (want, phases)


def test_jax_what_keeps_memory_is_named():
    run = Run("jax_programs.py", "keeps", framework="jax")
    advice = finding(run.report, "LEAK")
    assert advice and "list kept_arrays of keeps (jax_programs.py:" in advice["action"], (run.report["leak"], advice)


def test_jax_objects_stay_what_they_are():
    Run("jax_programs.py", "objects", framework="jax")


def test_memory_that_a_step_keeps():
    """Its rate is that of the program, and it is the first thing that is said."""
    run = Run("programs.py", "leaks")
    leak = run.report["leak"]
    assert leak["found"] and abs(leak["bytes_per_step"] - run.truth["kept"]) <= 0.1 * run.truth["kept"], (leak, run.truth)
    advice = finding(run.report, "LEAK")
    assert advice and not run.report["healthy"], run.report["findings"]
    assert "list kept_here of leaks (programs.py:%d)" % line_of("kept_here.append(") in advice["action"], advice
    assert "loss.item()" in advice["action"], advice


def line_of(text):
    """Of programs.py, the first one with that text."""
    with open(os.path.join(HERE, "programs.py")) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def test_what_keeps_memory_is_named():
    """An attribute of an object of the program, and a variable with the graphs of all steps, each by the line that adds to it."""
    for how, wanted in (
        ("attribute", "dict history of Recorder (programs.py:%d)" % line_of("self.history[index] =")),
        ("graph", "graph total of keeps (programs.py:%d)" % line_of("total = total + loss")),
    ):
        run = Run("programs.py", "keeps", how)
        advice = finding(run.report, "LEAK")
        assert advice and wanted in advice["action"], (how, run.report["leak"], advice)


def test_workers_are_started_in_each_epoch():
    """What it takes is what the program measures from the end of the last batch of an epoch to the first one of the next; kept workers are
    not named."""
    run = Run("programs.py", "epochs", "again")
    advice = finding(run.report, "WORKERS_RESTARTED")
    assert advice and "persistent_workers=True" in advice["action"], run.report["findings"]
    said = float(re.search(r"([\d.]+) % of the steps' time", advice["claim"]).group(1))
    want = 100 * (sum(run.truth["first batch"][1:]) + sum(run.truth["end"][:-1])) / sum(run.truth["epoch"][1:])
    assert abs(said - want) <= 0.2 * want + 2, (said, want)
    assert finding(Run("programs.py", "epochs", "keep").report, "WORKERS_RESTARTED") is None


def test_lines_of_python():
    """Shares of lines by looks at Python's frames, against the program's own timers, beside the same thread's sleep."""
    run = Run("programs.py", "lines", options=("--stacks",))
    python, steps = run.report["python"], sum(run.truth["step"])
    for name, slept in (("augment", False), ("waits", True)):
        share = sum(run.truth[name]) / steps
        got = sum(line["own_pct"] for line in python["lines"] if line["function"].endswith("." + name)) / 100
        allowed = 0.03 + 3 * (share * (1 - share) / python["looks"]) ** 0.5
        assert abs(got - share) <= allowed, (name, got, share, python["looks"])
    assert python["unattributed"]["asleep_pct"] > 30, python["unattributed"]
    advice = finding(run.report, "PYTHON_HOST")
    assert advice and "waits (programs.py:" in advice["claim"], advice


def test_lines_of_loader_workers():
    """The transform of the program that takes longest in the workers is named with its line."""
    run = Run("programs.py", "transforms", options=("--stacks",))
    workers = [line for line in run.report["python"]["worker_lines"] if line["program"]]
    assert workers and workers[0]["function"].endswith("slow_crop"), workers[:3]
    stall = finding(run.report, "INPUT_STALL")
    assert stall and any("Pictures.slow_crop (programs.py:" in text for text in stall["evidence"]), run.report["findings"]


def test_batches_of_an_evaluation_are_a_part_of_it():
    """The data set of the evaluation takes longer than the model: it is no input of the steps."""
    run = Run("programs.py", "validates")
    phases = {phase["name"]: phase for phase in run.report["phases"]}
    want = sum(run.truth["evaluation"])
    assert 0.75 * want <= phases["evaluation"]["wall_ms"] <= 1.05 * want, (want, phases)
    ids = [f["id"] for f in run.report["findings"]]
    assert "INPUT_STALL" not in ids and "EVALUATION" in ids, run.report["findings"]


def test_lines_without_asking():
    """Nobody has to ask for lines: of a loop of Python that nothing marks, and of a data set that is read on the step's thread."""
    run = Run("programs.py", "lines")
    advice = finding(run.report, "PYTHON_HOST")
    assert advice and re.search(r"(waits|augment) \(programs.py:", advice["claim"]), run.report["findings"]
    run = Run("programs.py", "inline")
    stall = finding(run.report, "INPUT_STALL")
    assert stall and any("Pictures.slow_crop (programs.py:" in text for text in stall["evidence"]), run.report["findings"]


def test_values_read_from_a_device():
    """Each by its line and as long as the program measured it; a program of the CPU has none, and PyTorch's own methods."""
    run = Run("programs.py", "values", "late")
    names = [row[0] for row in run.file.execute("SELECT DISTINCT text FROM string WHERE text LIKE '% programs.py:%'")]
    for what in ("item", "cpu", "float"):
        mine = [name for name in names if name.startswith(what + " programs.py:")]
        assert len(mine) == 1, names
        run.same(mine[0], what, 0.15, 0.3)
    verdict = run.report["verdict"]
    assert "tacho_nvtx.h" not in verdict and ("torch.profiler" in verdict or not verdict.startswith("STEPS ONLY")), verdict
    advice = finding(run.report, "SYNC_ITEM")
    assert advice and "programs.py:" in advice["claim"] and advice["gain_pct"]["high"] > 0, run.report["findings"]
    assert not any("programs.py:" in f["claim"] for f in run.report["findings"] if f["id"] == "PYTHON_HOST"), run.report["findings"]
    share = 100 * sum(sum(run.truth[what][1:]) for what in ("item", "cpu", "float")) / sum(run.ranges("step")[1:])
    said = float(re.search(r"([\d.]+) % of the step", advice["claim"]).group(1))
    assert abs(said - share) <= 0.1 * share + 1, (said, share)
    host = Run("programs.py", "values", "cpu")
    assert finding(host.report, "SYNC_ITEM") is None and host.truth["own"] is True and run.truth["own"] is False
    assert not [name for name, in host.file.execute("SELECT text FROM string WHERE text LIKE 'item programs.py:%'")]


def test_a_small_batch_pays_for_calls():
    """What is said of calls of operators is a part of the CPU time of a step with few rows. With many rows it is a small one."""
    run = Run("programs.py", "small", "4")
    advice = finding(run.report, "SMALL_BATCH_HOST")
    assert advice or finding(run.report, "OTHER_PROGRAMS"), run.report["findings"]  # steps that wait for a core are longer
    assert not advice or "larger batch" in advice["action"], advice
    calls_are_a_part(run, 50, 100, 100)
    assert finding(Run("programs.py", "small", "4096").report, "SMALL_BATCH_HOST") is None


def calls_are_a_part(run, forward, backward, nodes):
    """What is said of calls is no more than the CPU time of a step that consists of little else; at least so many calls and nodes."""
    counters = dict(run.file.execute("SELECT t.name, max(c.value) FROM counter c JOIN track t ON t.id = c.track GROUP BY t.name"))
    counts = [counters["host." + name] for name in ("operators_forward", "operators_backward", "nodes_backward")]
    each = [counters["host." + name] for name in ("operator_forward_us", "operator_backward_us", "node_us")]
    assert all(count >= least for count, least in zip(counts, (forward, backward, nodes))), counters
    calls, took = sum(count * us for count, us in zip(counts, each)) / 1e3, statistics.median(run.truth["cpu"])
    assert 0.2 * took <= calls <= took, (calls, counts, each, sorted(run.truth["cpu"])[::20])


def test_a_node_with_many_operators():
    """What PyTorch takes for a node of the graph counts once for it, not for each operator that it calls."""
    run = Run("programs.py", "repeats", "4")
    calls_are_a_part(run, 8, 3200, 10)
    advice = finding(run.report, "SMALL_BATCH_HOST")
    assert advice or finding(run.report, "OTHER_PROGRAMS"), run.report["findings"]


def test_an_operator_is_timed_without_the_end_of_a_node():
    """Nodes of autograd's graph that end while operators of a backward pass are timed would count for each of these."""
    if not os.path.exists(PYTHON):
        raise Skipped("no %s" % PYTHON)
    done = subprocess.run([PYTHON, os.path.join(HERE, "timed_alone.py")], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    counts, said = measured["alive"], sorted((name, round(us, 6)) for name, us in measured["said"].items())
    assert said == [("host.node_us", 2.0), ("host.operator_backward_us", 4.0), ("host.operator_forward_us", 1.0)], said
    assert counts and len(counts) % 4 == 0, counts
    for first in range(0, len(counts), 4):
        assert counts[first + 1] == counts[first + 2] == counts[first + 3] > counts[first], counts


def test_programs_keep_what_they_do_with_values():
    """Compiled, scripted and traced code and classes of the program see no recorded method: the same graphs, the same calls."""
    run = Run("programs.py", "unchanged")
    plain = subprocess.run([PYTHON, os.path.join(HERE, "programs.py"), "unchanged"], capture_output=True, text=True, timeout=LIMIT)
    truth = json.loads(plain.stdout.strip().splitlines()[-1])
    assert run.truth["replaced"] and not truth["replaced"], (run.truth["replaced"], truth["replaced"])
    assert run.truth["said"] == truth["said"], [pair for pair in zip(run.truth["said"], truth["said"]) if pair[0] != pair[1]]


def test_parameters_are_gathered_again():
    """What is said of gathers in backward is of the size that keeping the parameters brings, in steps that take turns: beside other
    programs one rank more often waits for the other one."""
    run = Run("programs.py", "sharded", "give back", ranks=2)
    advice = finding(run.report, "FSDP_RESHARD")
    assert advice and "reshard_after_forward=False" in advice["action"], run.report["findings"]
    assert run.report["run"]["around"].startswith("FSDP2"), run.report["run"]["around"]
    said = json.dumps([[f["id"], f["action"]] for f in run.report["findings"]])
    assert "bucket" not in said and "DDP" not in said, said
    launch = [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", os.path.join(HERE, "programs.py"), "sharded", "both"]
    done = subprocess.run(launch, capture_output=True, text=True, timeout=LIMIT)
    truth = json.loads(done.stdout.strip().splitlines()[-1])
    gain = statistics.median(100 * (before / after - 1) for before, after in zip(truth["give back"][2:], truth["keep"][2:]))
    assert advice["gain_pct"]["high"] >= 0.5 * gain, (advice["gain_pct"], gain)
    keep = Run("programs.py", "sharded", "keep", ranks=2)
    assert finding(keep.report, "FSDP_RESHARD") is None, keep.report["findings"]
    assert keep.ranges("all_gather_single (parameters)"), "forward gathers all the same"


def test_buckets_of_gradients():
    """One bucket for nearly all gradients is named, with PyTorch's own timers; buckets of 4 MiB are not."""
    run = Run("programs.py", "buckets", "1000", ranks=2)
    counters = dict(run.file.execute("SELECT t.name, max(c.value) FROM counter c JOIN track t ON t.id = c.track GROUP BY t.name"))
    assert counters["ddp.buckets"] == len(run.truth["sizes"]) and counters["ddp.gradient_bytes"] == sum(run.truth["sizes"]), counters
    query = "SELECT c.value FROM counter c JOIN track t ON t.id = c.track WHERE t.name = 'ddp.communication_ms'"
    times = [row[0] for row in run.file.execute(query)]
    assert min(abs(ms - run.truth["communication_ms"]) for ms in times) < 1e-3 and len(times) >= 8, (times, run.truth)
    share = 100 * sum(run.ranges("gradients reduced")) / sum(run.ranges("step"))
    advice = finding(run.report, "DDP_BUCKETS")
    waits = [f["id"] for f in run.report["findings"]]
    assert advice or share < 4 or {"STRAGGLER", "SLOW_STAGE", "EXPOSED_COMM", "OTHER_PROGRAMS"} & set(waits), (share, run.report["findings"])
    assert not advice or "bucket_cap_mb=" in advice["action"], advice
    said = [(f["id"], f["action"]) for f in Run("programs.py", "buckets", "4", ranks=2).report["findings"]]
    assert not [row for row in said if row[0] == "DDP_BUCKETS" or "bucket" in row[1] or "overlap" in row[1]], said


def test_frameworks_are_named():
    """By what the program calls of them, with whole evaluations, checkpoints and callbacks."""
    run = Run("programs.py", "accelerated", "FOLDER", needs=("accelerate",))
    assert run.report["run"]["around"].startswith("accelerate "), run.report["run"]
    run.same("Accelerator.save_state", "save", 0.15, 0.5)
    run = Run("programs.py", "evaluates", "FOLDER", needs=("pytorch_lightning",))
    assert run.report["run"]["around"].startswith("Lightning "), run.report["run"]
    phases = {phase["name"]: phase for phase in run.report["phases"]}
    want = sum(run.truth["validation"])
    assert want <= phases["evaluation"]["wall_ms"] <= 1.5 * want + 100, (want, phases)
    calls = run.ranges("callbacks on_train_batch_end")
    assert len(calls) == 40 and sum(calls) >= sum(run.truth["callback"]), (len(calls), sum(calls))
    run = Run("programs.py", "script")
    assert run.report["run"]["around"] == "nanoGPT-style script", run.report["run"]
    sharded = Run("programs.py", "sharded", "first version", ranks=2)
    assert sharded.report["run"]["around"].startswith("FSDP ") and sharded.names("all_gather% (parameters)"), sharded.report["run"]
    phases = {phase["name"]: phase for phase in run.report["phases"]}
    want = sum(run.truth["estimate_loss"])
    assert abs(phases["evaluation"]["wall_ms"] - want) <= 0.15 * want + 2, (want, phases)
    got = run.ranges("get_batch")
    assert abs(statistics.median(got) - statistics.median(run.truth["get_batch"])) <= 0.2, "get_batch"


def test_the_other_package_of_lightning():
    run = Run("programs.py", "evaluates", "FOLDER", "lightning.pytorch", needs=("lightning",))
    assert run.report["run"]["around"].startswith("Lightning ") and len(run.ranges("callbacks on_train_batch_end")) == 40, run.report["run"]


def test_deepspeed_itself():
    """Two ranks: a step has two micro-steps, and ends when the engine has counted an update."""
    run = Run("programs.py", "engine", "FOLDER", ranks=2, needs=("deepspeed",))
    assert run.report["run"]["around"].startswith("DeepSpeed "), run.report["run"]
    assert run.report["steps"]["count"] in (38, 39, 40), run.report["steps"]
    assert run.report["steps"]["micro_steps"] == 2 and run.report["steps"]["samples_per_step"] == 64, run.report["steps"]
    assert len(run.ranges("DeepSpeedEngine.save_checkpoint")) == 2, run.names("DeepSpeed%")


def test_timm_itself():
    run = Run("programs.py", "vision", "FOLDER", needs=("timm", "torchvision"))
    assert run.report["run"]["around"].startswith("timm ") and run.report["steps"]["count"] in (19, 20), run.report["run"]
    run.same("CheckpointSaver.save_checkpoint", "save", 0.15, 0.5)


def test_flax_optax_and_orbax_themselves():
    run = Run("jax_programs.py", "flax", "FOLDER", framework="jax", needs=("flax", "optax", "orbax"))
    assert run.report["steps"]["count"] in (58, 59), run.report["steps"]
    run.same("CheckpointManager.save", "save", 0.15, 1)
    assert "checkpoint" in [phase["name"] for phase in run.report["phases"]], run.report["phases"]


def test_operators_without_flops_are_listed():
    run = Run("flops.py", "bert")
    names = run.report["utilization"]["uncounted_operators"]
    assert "aten::native_layer_norm" in names and "aten::addmm" not in names and "aten::view" not in names, names


def program_beside_python(name):
    path = os.path.join(os.path.dirname(PYTHON), name)
    if not os.access(path, os.X_OK):
        raise Skipped("%s is not beside %s" % (name, PYTHON))
    return path


def recorded(run):
    """All steps of `augments`, with the program's own range."""
    assert run.report["steps"]["count"] in (59, 60), run.report["steps"]["count"]
    run.same("mix rows", "mix rows", 0.3, 2)


def test_in_a_notebook():
    recorded(Run("programs.py", "augments", needs=("ipykernel",), start=(PYTHON, os.path.join(HERE, "kernel.py"))))


def test_under_uv():
    uv = program_beside_python("uv")
    recorded(Run("programs.py", "augments", start=(uv, "run", "--offline", "--no-project", "--python", PYTHON)))


def test_under_accelerate_launch():
    launch = (program_beside_python("accelerate"), "launch", "--cpu", "--num_processes", "1", "--num_machines", "1")
    run = Run("programs.py", "accelerated", "FOLDER", needs=("accelerate",), start=launch + ("--mixed_precision", "no", "--dynamo_backend", "no"))
    assert run.report["steps"]["count"] == 20 and run.report["run"]["around"].startswith("accelerate "), run.report["steps"]


def test_under_the_launcher_of_deepspeed():
    """Two ranks, which `deepspeed` starts by a process of its own."""
    launch = (program_beside_python("deepspeed"), "--num_gpus", "2", "--no_local_rank")
    run = Run("programs.py", "engine", "FOLDER", needs=("deepspeed",), start=launch)
    assert run.report["run"]["around"].startswith("DeepSpeed ") and run.report["run"]["ranks"] == 2, run.report["run"]
    assert run.report["steps"]["count"] in (38, 39, 40), run.report["steps"]


def test_the_module_tacho_is_installed_from_the_tree():
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
        shutil.copytree(os.path.join(HERE, "..", "..", "profiler", "python"), source)
        install = [PYTHON, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", target, source]
        done = subprocess.run(install, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        code = "import tacho; tacho.step(); tacho.counter('x', 1); tacho.range('y').__enter__(); print(tacho.__file__)"
        done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=target))
        assert done.stdout.startswith(target), done


def test_the_hook():
    """The end-to-end test of the hook, with the PyTorch that is here in place of its substitute only."""
    command = [os.path.join(os.path.dirname(HERE), "run"), BUILD, "/34_python_hook"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * LIMIT, env=dict(os.environ, TORCH_PYTHON=PYTHON))
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout


def main():
    import crossing_tests, devices_tests, findings_tests, jax_more_tests, loops_tests, recipes_tests  # read names of this file
    parts = (crossing_tests, devices_tests, findings_tests, jax_more_tests, loops_tests, recipes_tests)
    named = {**globals(), **{name: value for part in parts for name, value in vars(part).items()}}
    tests = [(name[5:], test) for name, test in named.items() if name.startswith("test_")]
    tests = [t for t in tests if re.search(sys.argv[2] if len(sys.argv) > 2 else "", t[0])]
    passed = failed = skipped = 0
    begun = time.monotonic()
    for name, test in tests:
        start, word = time.monotonic(), "pass"
        for is_last in (False, True):
            try:
                if not os.access(PYTHON, os.X_OK):
                    raise Skipped("make frameworks has made no %s" % os.path.relpath(PYTHON))
                if time.monotonic() - begun > ALL:
                    raise Skipped("the %d s of FRAMEWORKS_SECONDS are used up" % ALL)
                test()
                passed += 1
                break
            except Skipped as reason:
                skipped, word = skipped + 1, "skip: %s" % reason
                break
            except (Exception, subprocess.TimeoutExpired) as error:
                word = "%s: %s" % (type(error).__name__, str(error)[:6000])
            if is_last:
                failed, word = failed + 1, "FAIL: " + word
            else:
                print("retry: frameworks/%s: %s" % (name, word), flush=True)
                word = "pass"
        print("%-55s %6.1f s  %s" % ("frameworks/" + name, time.monotonic() - start, word), flush=True)
    print("%d passed, %d failed%s" % (passed, failed, ", %d skipped" % skipped if skipped else ""))
    sys.exit(failed != 0)


main()
