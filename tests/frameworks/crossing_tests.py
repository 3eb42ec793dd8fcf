# SPDX-License-Identifier: Apache-2.0
"""Tests of run.py with the programs of crossing.py."""

import os
import shutil
import statistics
import tempfile
from unittest import mock

from __main__ import HERE, Run, Skipped, finding


def recorded(name, how=None, fewer=0):
    """All its steps but the last one, each as long as the program measured it: the time between two of them is short."""
    run = Run("crossing.py", name, *([how] if how else []))
    count, steps = len(run.truth["step"]), run.ranges("step")
    assert count - 2 - fewer <= run.report["steps"]["count"] <= count, (count, run.report["steps"])
    middle, true = statistics.median(steps), statistics.median(run.truth["step"])
    assert 0.9 * true <= middle <= 1.25 * true + 0.3, (middle, true)
    return run


def test_a_range_around_a_step():
    run = recorded("marks", "one")
    run.same("train step", "step")
    work = sum(sum(run.ranges(name)[1:]) for name in ("backward", "Adam.step", "Sequential", "cross_entropy"))
    share = 100 * work / sum(run.ranges("step")[1:])
    assert abs(run.report["budget"]["compute_pct"] - share) < 5, (run.report["budget"], share)


def test_a_range_with_a_new_name_for_each_step():
    run = recorded("marks", "many")
    assert len(run.names("train step %")) == 60, run.names("train step %")[:4]


def test_a_range_around_an_epoch():
    recorded("epochs").same("epoch", "epoch")


def test_the_profiler_of_pytorch_with_a_schedule():
    assert not recorded("profiles").names("ProfilerStep%")


def test_batches_that_a_thread_of_the_program_reads():
    recorded("prefetches")


def test_training_on_another_thread():
    recorded("in_a_thread", fewer=1)


def test_updates_in_a_backward_pass():
    run = recorded("in_backward")
    assert len(run.ranges("backward")) == 60, len(run.ranges("backward"))


def test_an_update_within_one_of_the_same_optimizer():
    assert len(recorded("derives").ranges("Counts.step")) == 60


def test_updates_that_a_scaler_leaves_out_in_other_ways():
    for how in ("fused", "marked"):
        run = recorded("scales", how, fewer=1)
        query = "SELECT max(c.value) FROM counter c JOIN track t ON t.id = c.track WHERE t.name = 'overflows'"
        assert run.file.execute(query).fetchone() == (15.0,), (how, run.file.execute(query).fetchone())
        assert len(run.ranges("get_total_norm")) == len(run.ranges("clip_grads_with_norm_")) == 60, how
        assert len(run.ranges("GradScaler.unscale_")) >= 60, how


def test_batches_of_ever_new_lengths_are_not_slowed_down():
    """The FLOPs of the first four are counted, forward and backward, and of later ones at most in a hundredth of the time."""
    run = recorded("lengths")
    counted = len(run.ranges("FLOPs counted"))
    assert 8 <= counted <= 8 + 4, counted
    assert run.report["utilization"]["mfu"] is None, run.report["utilization"]


def test_checkpoints_of_other_functions():
    run = Run("crossing.py", "writes", "FOLDER", needs=("safetensors",))
    for name in ("safetensors.save_model", "checkpoint.save"):
        run.same(name, name, 0.15, 0.5)
    assert len(run.ranges("safetensors.save_file")) == 12, "of the model and of NumPy"
    phase = next(phase for phase in run.report["phases"] if phase["name"] == "checkpoint")
    want = sum(sum(times) for name, times in run.truth.items() if name != "step")
    assert phase["count"] == 6 and abs(phase["wall_ms"] - want) <= 0.15 * want + 1, (phase, want)


def test_waits_for_calls_that_did_not_block():
    run = Run("crossing.py", "reduces_beside", ranks=2)
    with open(os.path.join(HERE, "crossing.py")) as file:
        line = next(number for number, text in enumerate(file, 1) if "# beside each other" in text)
    waits = run.ranges("Work.wait all_reduce crossing.py:%d" % line)
    assert len(waits) == 2 * 60 * 6, (len(waits), run.names("Work.wait%"))


def test_more_shapes_than_one_function_is_compiled_for():
    run = Run("crossing.py", "meets_many_shapes")
    broken, again = finding(run.report, "GRAPH_BREAK"), finding(run.report, "RECOMPILE")
    assert broken and any("recompile_limit of 8 reached: new shapes run without a graph" in text for text in broken["evidence"]), broken
    assert again and "dynamic=True" in again["action"], run.report["findings"]


def compiled(how, folder):
    """A run with this folder as the cache, and what it says of the cache."""
    if not shutil.which("g++"):
        raise Skipped("torch.compile needs g++")
    with mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder):
        run = Run("crossing.py", "compiles_for_the_next_run", how)
    return run, finding(run.report, "COMPILE_CACHE")


def test_a_cache_that_keeps_compiled_code():
    """Neither the run that fills it nor the next one has a finding, though AOTAutograd refuses the graph each time."""
    with tempfile.TemporaryDirectory() as folder:
        for way in ("miss", "hit"):
            run, row = compiled("kept", folder)
            counters = run.truth["counters"]
            assert counters["aot_autograd"]["autograd_cache_bypass"] and counters["inductor"]["fxgraph_cache_" + way], counters
            assert row is None, row


def uncached(how, claim, why, action):
    with tempfile.TemporaryDirectory() as folder:
        run, row = compiled(how, folder)
    assert row and claim in row["claim"] and why in row["evidence"][0] and action in row["action"], (how, row)
    phase = next(phase for phase in run.report["phases"] if phase["name"] == "compile")
    total = run.truth["first"] + run.truth["step"][0]
    assert phase["count"] == 3 and 0.5 * total <= phase["wall_ms"] <= total, (phase, total)
    high = row["gain_pct"]["high"]
    share, most = high / (100 + high), run.truth["step"][0] / (total + sum(run.truth["step"][1:]))
    assert row["gain_pct"]["ceiling"] and 0.8 * most <= share <= most, (row["gain_pct"], share, most)


def test_graphs_that_the_cache_of_compiled_code_refuses():
    uncached("refused", "refuses the graphs of 2 compilations", "refuses: Unsupported post grad custom pass", "CustomGraphPass")


def test_a_cache_of_compiled_code_that_is_off():
    uncached("off", "is off for 2 compilations", "is off: force_disable_caches", "TORCHINDUCTOR_FORCE_DISABLE_CACHES")


def test_updates_that_raise():
    """A failed update ends no step, its range ends with it, and nothing that the program held then is kept."""
    run = recorded("tries_again", fewer=1)
    assert run.truth["kept"] == 0, run.truth["kept"]
    updates = run.ranges("Fails.step")
    assert len(updates) == 60 and statistics.median(updates) < statistics.median(run.truth["step"]), updates[:10]
    open_ones = run.file.execute("SELECT count(*) FROM slice WHERE dur IS NULL").fetchone()[0]
    assert open_ones == 1, "only the last step has no end: %d" % open_ones
