# SPDX-License-Identifier: Apache-2.0
"""Tests of run.py with the programs of recipes.py: the planted cause comes first, and takes as long as the program measured."""

import json
import os
import re

from __main__ import HERE, Run


def line_of(text):
    with open(os.path.join(HERE, "recipes.py")) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def recorded(name, *needs, ranks=0):
    """The recording, and the share of the loop that was planted, %."""
    run = Run("recipes.py", name, "FOLDER", needs=needs, ranks=ranks)
    steps = run.report["steps"]["count"] // max(ranks, 1)  # of all ranks
    assert run.truth["steps"] - 2 <= steps <= run.truth["steps"], (steps, run.truth)
    return run, 100 * run.truth["planted"] / run.truth["loop"]


def first_of(run):
    """The first finding. Beside other programs that is about them, and the next one counts."""
    found = [f for f in run.report["findings"] if f["id"] != "OTHER_PROGRAMS"]
    assert found, run.report["verdict"]
    return found[0]


def near(said, share, allowed=6):
    assert abs(said - share) <= allowed, "%.1f %%, the program says %.1f %%" % (said, share)


def names_host(run, share, function):
    """Python of the program is the cause, by the name of its function, and of the step no more than its share."""
    advice = first_of(run)
    assert advice["id"] == "PYTHON_HOST", run.report["findings"]
    assert function in advice["claim"] and "recipes.py:" in advice["claim"], advice["claim"]
    said = float(re.search(r"([\d.]+) % of the step", advice["claim"]).group(1))
    assert said <= share + 6, (said, share, advice["claim"])
    return advice


def waits_for_input(run, share, text=None):
    advice = first_of(run)
    assert advice["id"] == "INPUT_STALL", run.report["findings"]
    near(run.report["budget"]["input_pct"], share)
    if text is not None:
        assert any(text in line for line in advice["evidence"]), advice["evidence"]


def spends_phases(run, share, name, action=""):
    """The phase of that name is the cause; it takes what was planted."""
    advice = first_of(run)
    assert advice["id"] == name.upper() and action in advice["action"], run.report["findings"]
    took = next(row["wall_ms"] for row in run.report["phases"] if row["name"] == name)
    near(100 * took / run.truth["loop"], share)


def test_recipe_weights_are_averaged_one_by_one():
    run, share = recorded("averages")
    names_host(run, share, "follow")


def test_recipe_tokens_are_made_in_the_loop():
    run, share = recorded("accumulates")
    names_host(run, share, "encode")
    assert run.report["steps"]["micro_steps"] == 4 and run.report["steps"]["samples_per_step"] == 32, run.report["steps"]


def test_recipe_an_evaluation_after_each_epoch():
    run, share = recorded("evaluates", "transformers", "accelerate")
    spends_phases(run, share, "evaluation", "eval_steps")


def test_recipe_lightning_steps_two_optimizers():
    run, share = recorded("manual", "pytorch_lightning")
    waits_for_input(run, share, "recipes.py:%d" % line_of("# of the decoder"))


def test_recipe_samples_are_drawn_now_and_then():
    run, share = recorded("diffuses")
    spends_phases(run, share, "evaluation")


def test_recipe_an_environment_of_python():
    run, share = recorded("reinforces")
    names_host(run, share, "step")


def test_recipe_padding_element_by_element():
    run, share = recorded("listens")
    waits_for_input(run, share, "padded (recipes.py:")


def test_recipe_one_of_two_loaders_is_slow():
    run, share = recorded("matches")
    waits_for_input(run, share, "spin (recipes.py:")


def test_recipe_every_number_is_logged():
    run, share = recorded("logs")
    names_host(run, share, "write")


def test_recipe_checkpoints_of_safetensors():
    run, share = recorded("saves", "safetensors")
    spends_phases(run, share, "checkpoint")


def test_recipe_checkpoints_that_a_thread_writes():
    """Only what the loop waits for counts."""
    run, share = recorded("saves_beside")
    took = sum(row["exposed_ms"] for row in run.report["phases"] if row["name"] == "checkpoint")
    assert 100 * took / run.truth["loop"] <= share + 3, (run.report["phases"], run.truth)


def test_recipe_gradients_are_reduced_one_by_one():
    """Where the ranks do not wait for each other most of the time, which other programs may bring about."""
    run, share = recorded("reduces_by_hand", ranks=2)
    said = json.dumps([f["action"] for f in run.report["findings"]])
    assert "bucket_cap_mb" not in said and "overlap" not in said, said
    advice, line = first_of(run), "all_reduce recipes.py:%d" % line_of("# of the gradients")
    communication = run.report["communication"]
    waits = 2 * (communication["exposed_waiting_ms"] or 0) > 0.9 * communication["exposed_ms"]
    assert waits or (advice["id"] == "SMALL_COLLECTIVE" and line in advice["claim"] and "join" in advice["action"]), run.report["findings"]
    assert len(run.ranges(line)) == 2 * 60 * 36, len(run.ranges(line))
