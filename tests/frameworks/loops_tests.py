# SPDX-License-Identifier: Apache-2.0
"""Tests of run.py with the programs of loops.py."""

import os
import re

from __main__ import HERE, Run, finding, flops_of_gpt


def line_of(text):
    with open(os.path.join(HERE, "loops.py")) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def phase(run, name):
    """How often there was one, and how long in all, ms."""
    row = next((row for row in run.report["phases"] if row["name"] == name), {"count": 0, "wall_ms": 0.0})
    return row["count"], row["wall_ms"]


def test_an_evaluation_is_one_however_many_batches_it_has():
    """Its batches and its loss are a part of it, whether the loss is a module or not, and with gradients that nothing needs."""
    for how in ("plainly", "forgets"):
        run = Run("loops.py", "validates", how)
        count, took = phase(run, "evaluation")
        want = sum(run.truth["evaluation"])
        assert count == 6 and 0.8 * want <= took <= 1.02 * want, (how, count, took, want)
        advice = finding(run.report, "EVALUATION")
        assert advice and "6 times, every 10 steps" in advice["evidence"][0], (how, run.report["findings"])
        assert finding(run.report, "INPUT_STALL") is None, (how, run.report["findings"])
        assert run.report["steps"]["samples_per_step"] == 128, (how, run.report["steps"])


def test_training_in_evaluation_mode_is_training():
    run = Run("loops.py", "stays_in_evaluation")
    waits = [row for row in run.file.execute(BY_ROLE, ("DataLoader.__next__",))]
    assert dict(waits).get("input_wait", 0) >= 95, waits
    assert finding(run.report, "INPUT_STALL"), run.report["findings"]


BY_ROLE = """SELECT coalesce(d.kind, ''), count(*) FROM slice x JOIN string s ON s.id = x.name LEFT JOIN detail d ON d.id = x.detail
    WHERE s.text = ? GROUP BY 1"""


def test_a_helper_of_the_training_is_no_evaluation():
    run = Run("loops.py", "distils")
    assert phase(run, "evaluation")[0] <= 1 and finding(run.report, "EVALUATION") is None, run.report["phases"]
    run = Run("loops.py", "averages")
    count, took = phase(run, "evaluation")
    want = sum(run.truth["evaluation"])
    assert count == 6 and 0.9 * want <= took <= 1.02 * want, (count, took, want)


def test_a_gan_accumulates_nothing():
    run = Run("loops.py", "adversaries")
    steps = run.report["steps"]
    assert steps["count"] == 60 and not steps["micro_steps"] and steps["samples_per_step"] == 32, steps


def test_the_next_stage_has_steps_of_its_own():
    run = Run("loops.py", "stages")
    assert 40 + 160 - 26 <= run.report["steps"]["count"] <= 200, run.report["steps"]


def test_updates_by_hand_are_steps():
    steps = Run("loops.py", "by_hand").report["steps"]
    assert 160 - 50 <= steps["count"] <= 160 and steps["samples_per_step"] == 128, steps


def test_jax_without_jit():
    verdict = Run("jax_programs.py", "plain", framework="jax").report["verdict"]
    assert verdict.startswith("NO STEPS") and "jax.jit" in verdict, verdict


def test_a_jitted_function_that_passes_a_key_on_is_no_update():
    assert Run("jax_programs.py", "batches_from_a_key", framework="jax").report["steps"]["count"] in (38, 39)


def test_a_checkpoint_is_one_however_many_files_it_has():
    run = Run("loops.py", "saves")
    assert phase(run, "checkpoint")[0] == 6 and len(run.ranges("torch.save")) == 18, run.report["phases"]
    advice = finding(run.report, "CHECKPOINT")
    assert advice and "6 times, every 10 steps" in advice["evidence"][0], run.report["findings"]


def test_flops_of_checkpointing():
    """Blocks that run once more in a backward pass are no part of the model's FLOPs, and a part of the backward pass alone."""
    for how in ("checkpoint", "reentrant"):
        flops_of_gpt(how)


def test_operators_of_all_models_of_a_step_count():
    """Not those of the one that was called last, nor those of a loss, which has none when it is a function."""
    run = Run("loops.py", "encodes")
    query = "SELECT c.value FROM counter c JOIN track t ON t.id = c.track WHERE t.name = 'host.operators_forward' ORDER BY c.time"
    counts = [row[0] for row in run.file.execute(query)]
    assert counts and counts[-1] == run.truth["operators"], (counts, run.truth)


def test_flops_of_a_model_without_modules():
    """Its backward pass is counted where the loss is a module, its forward pass is outside of every module."""
    run = Run("loops.py", "multiplies")
    got = run.report["utilization"]["hardware_flops_per_step"]
    assert got == run.truth["flops"], (got, run.truth)


def test_gradients_that_the_program_asks_for():
    run = Run("loops.py", "penalizes")
    run.same("autograd.grad", "gradient")


def test_lines_of_the_loop_are_named():
    run = Run("loops.py", "written_in_the_loop")
    advice, line = finding(run.report, "PYTHON_HOST"), line_of("# of Python")
    # beside other programs most looks find the thread waiting for a core, and those left may be too few to say anything
    assert advice or finding(run.report, "OTHER_PROGRAMS"), run.report["findings"]
    # the line before belongs to the same work, and a look may find the thread there
    said = r"loops\.py:(%d|%d)(-%d)? \(in written_in_the_loop\)" % (line - 1, line, line + 1)
    named = re.search(said, advice["claim"]) if advice else None
    assert not advice or (named and "move loops.py:%s" % named.group(1) in advice["action"]), advice


def test_what_keeps_memory_is_named_wherever_it_is():
    for how, wanted in (
        ("container", 'list history["out"] of keeps'),
        ("class", "list values of Meter"),
        ("closure", "list seen of track"),
        ("argument", "list held of remember"),
        ("results", "dict lru_cache of features"),
        ("array", "array joined of keeps"),
    ):
        run = Run("loops.py", "keeps", how)
        names = run.names("growing %")
        line = line_of("# of results" if how == "results" else "# of a%s %s" % ("n" if how[0] == "a" else "", how))
        assert len(names) == 1 and names[0].startswith("growing %s (loops.py:%d)" % (wanted, line)), (how, names)


def test_a_list_of_numbers_is_not_what_keeps_memory():
    """Memory grows by a MiB a step outside of Python; the numbers that the program keeps beside are not named for it."""
    run = Run("loops.py", "keeps", "elsewhere")
    assert finding(run.report, "LEAK") and not run.names("growing %"), (run.names("growing %"), run.report["findings"])


def test_ranks_that_the_program_starts_itself():
    run = Run("loops.py", "spawns")
    frontier = run.report["ranks"]["frontier"]
    assert run.report["run"]["ranks"] == 2 and frontier["rank"] == 1, (run.report["run"], frontier)
    assert finding(run.report, "STRAGGLER") or finding(run.report, "SLOW_STAGE"), run.report["findings"]


def test_a_paused_step_is_without_the_hooks_at_modules():
    """What they cost is a part of what recording costs, which such steps are there to measure. Nothing else changes: only
    the teacher's first call, before anything was trained, may be an evaluation."""
    run = Run("loops.py", "pauses", options=("--overhead", "0.5"))
    paused = [row[0] for row in run.file.execute('SELECT paused FROM step ORDER BY "index"')]
    assert 50 < sum(paused) < 150 and run.truth["hooked"] == [1 - p for p in paused[:200]], (paused, run.truth)
    assert run.report["steps"]["samples_per_step"] == 16 and phase(run, "evaluation")[0] <= 1, run.report["phases"]
