# SPDX-License-Identifier: Apache-2.0
"""Tests of run.py with the programs of jax_more.py."""

import json
import os
import statistics
import subprocess

from __main__ import HERE, LIMIT, PYTHON, Run, finding


def recorded(*arguments, options=()):
    return Run("jax_more.py", *arguments, framework="jax", options=options)


def test_a_jitted_function_is_what_it_is_without_tacho():
    """Copies, pickles, attributes, methods, trees, stages, transformations, errors: the same is said of each."""
    run = recorded("objects")
    command = [PYTHON, os.path.join(HERE, "jax_more.py"), "objects"]
    plain = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=LIMIT).stdout.strip().splitlines()[-1])
    pairs = list(zip(run.truth["said"], plain["said"]))
    assert len(pairs) == len(plain["said"]) and run.names("jit decorated"), run.names("jit %")
    assert run.truth["said"] == plain["said"], [pair for pair in pairs if pair[0] != pair[1]]


SAVED = """SELECT s.text, coalesce(d.kind, ''), count(*) FROM slice x JOIN string s ON s.id = x.name LEFT JOIN detail d ON d.id = x.detail
    WHERE s.text LIKE 'numpy.%' OR s.text = 'pickle.dump' GROUP BY 1, 2 ORDER BY 1, 2"""


def test_metrics_in_files_are_no_checkpoint():
    for how in ("metrics", "metrics where the program marks its steps"):
        run = recorded("saves", how)
        rows = run.file.execute(SAVED).fetchall()
        assert rows == [("numpy.save", "host", 120), ("numpy.savez", "host", 60), ("pickle.dump", "host", 120)], (how, rows)
        assert finding(run.report, "CHECKPOINT") is None, (how, run.report["findings"])
        middle, true = run.report["steps"]["median_ms"], statistics.median(run.truth["save"])
        assert middle > 0.9 * true, "%s: steps of %.3f ms, files of %.3f" % (how, middle, true)


def test_files_of_the_state_are_checkpoints():
    for how in ("as arrays of NumPy", "one by one", "as one vector", "beside other things"):
        run = recorded("saves", "weights " + how)
        rows = run.file.execute(SAVED).fetchall()
        assert len(rows) == 1 and rows[0][1] == "checkpoint" and rows[0][2] in (60, 120), (how, rows)


def test_jax_batches_that_a_thread_makes():
    """By a jitted function, two batches before the training, and by one that passes something on as the update does."""
    for how in ("plain", "statistics"):
        steps_are_those_of(recorded("prefetches", how))


def test_jax_training_on_another_thread():
    for how in ("alone", "after the main thread"):
        steps_are_those_of(recorded("in_a_thread", how), 10)


def test_jax_trainings_that_follow_each_other():
    """Each has an update of its own; what it takes until the next one is known is no more than some steps."""
    count = recorded("searches", "").report["steps"]["count"]
    assert 3 * 60 - 6 <= count <= 3 * 60, count
    count = recorded("stages", "").report["steps"]["count"]
    assert 60 + 120 - 30 <= count <= 180, count


THREADS = """SELECT t.tid, count(*) FROM slice x JOIN string s ON s.id = x.name JOIN track t ON t.id = x.track WHERE s.text = ?
    AND x.dur IS NOT NULL GROUP BY 1 ORDER BY 2 DESC"""


def steps_are_those_of(run, fewer=3):
    """As many as there are updates, but for those that show which thread trains, and on their thread."""
    count = len(run.truth["step"])
    updates, steps = (run.file.execute(THREADS, (name,)).fetchall() for name in ("jit move", "step"))
    assert updates[0][1] == count and steps[0][0] == updates[0][0] and len(steps) == 1, (updates, steps)
    assert count - fewer <= run.report["steps"]["count"] <= count, run.report["steps"]
    query = "SELECT x.dur / 1e6 FROM slice x JOIN string s ON s.id = x.name JOIN track t ON t.id = x.track WHERE s.text = 'step' AND t.tid = ?"
    times = [row[0] for row in run.file.execute(query, updates[0][:1]) if row[0] is not None]
    middle, true = statistics.median(times), statistics.median(run.truth["step"])
    assert 0.9 * true <= middle <= 1.25 * true + 0.3, (middle, true)


def test_values_in_texts_are_waits():
    """Each is as long as the program measured it, and the steps are explained."""
    run = recorded("prints")
    with open(os.path.join(HERE, "jax_more.py")) as file:
        lines = {text.split("# of ")[1].strip(): number for number, text in enumerate(file, 1) if "# of " in text}
    for how in ("format", "str", "repr", "tobytes"):
        run.same("%s jax_more.py:%d" % ("tobytes" if how == "tobytes" else "print", lines[how]), how, 0.1, 0.3)
    assert finding(run.report, "UNATTRIBUTED") is None, run.report["findings"]


def test_a_generator_of_the_program_is_named():
    """It makes batches for more than half of the step, while the device has nothing to do."""
    run = recorded("generates", "1")
    share = 100 * sum(run.truth["batch"][2:]) / sum(run.truth["step"][2:])
    python = run.report["python"]
    lines = [line for line in python["lines"] if line["function"].split(".")[-1] in ("generator", "batch", "sort")]
    got = sum(line["own_pct"] for line in lines)
    allowed = 5 + 300 * (share / 100 * (1 - share / 100) / python["looks"]) ** 0.5
    assert abs(got - share) <= allowed, (got, share, python["looks"], lines)
    advice, others = finding(run.report, "PYTHON_HOST"), finding(run.report, "OTHER_PROGRAMS")
    # beside other programs most looks find the thread waiting for a core, and those left may be too few to say anything
    assert advice or others, run.report["findings"]
    assert not advice or "generator (jax_more.py:" in advice["claim"], advice
    assert not advice or advice is next(f for f in run.report["findings"] if f is not others), run.report["findings"]
