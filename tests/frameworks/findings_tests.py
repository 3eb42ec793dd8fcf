# SPDX-License-Identifier: Apache-2.0
"""Tests of run.py with the programs of findings_programs.py: findings that are right, and not named where another one would be."""

import json
import statistics

from __main__ import Run, finding


def promises(advice, truth):
    """A program whose blocks of five steps reduce gradients in `each` pass and in the `last` one only in turn: what it gains where all
    steps do the latter is what was promised. The gain's error is two standard errors of its pairs of blocks; the first pair begins the
    job. The high end, of a ceiling too, is at most 2.5 times the gain and its error. Where the ranks mostly wait for each other nothing but a ceiling is promised."""
    blocks = [[sum(truth[how][i : i + 5]) for i in range(5, 30, 5)] for how in ("each", "last")]
    gains = [100 * ((before + after) / (2 * after) - 1) for before, after in zip(*blocks)]
    gain = 100 * (sum(map(sum, blocks)) / (2 * sum(blocks[1])) - 1)
    error, promised = 2 * statistics.stdev(gains) / len(gains) ** 0.5, advice["gain_pct"]
    assert gain - error <= promised["high"] <= 2.5 * (gain + error), (promised, gain, error, gains)
    assert promised["ceiling"] or promised["low"] <= gain + error, (promised, gain, error, gains)


def test_gradients_reduced_in_each_microstep():
    """Three of four reductions of a model can go, in every second block of steps; that of another model is no fourth one."""
    run = Run("programs.py", "accumulates", "both", ranks=2)
    advice = finding(run.report, "DDP_SYNC_EACH_MICROSTEP")
    assert advice and "no_sync" in advice["action"] and "; 1.5 of these repeat" in advice["claim"], run.report["findings"]
    promises(advice, run.truth)
    last = Run("programs.py", "accumulates", "last", ranks=2)
    assert finding(last.report, "DDP_SYNC_EACH_MICROSTEP") is None, last.report["findings"]
    assert not last.ranges("gradients reduced again") and last.ranges("gradients reduced"), "a second model is no micro-step"


def test_one_reduction_of_a_gan_can_go():
    """The discriminator's first one, in every second block of steps; those of the generator are needed."""
    run = Run("findings_programs.py", "adversaries", "both", ranks=2)
    advice, share = finding(run.report, "DDP_SYNC_EACH_MICROSTEP"), 100 * sum(run.ranges("gradients reduced again")) / sum(run.ranges("step"))
    assert advice or share < 4, (share, run.report["findings"])
    if advice:
        assert "reduced 2.5 times a step; 0.5 of these repeat" in advice["claim"], advice
        promises(advice, run.truth)
    last = Run("findings_programs.py", "adversaries", "last", ranks=2)
    assert finding(last.report, "DDP_SYNC_EACH_MICROSTEP") is None, last.report["findings"]


def test_calls_that_do_not_block_leave_the_overlap_unknown():
    """Beside one call that blocks, and says its bytes, there are waits for others: what they have hidden is not visible."""
    run = Run("findings_programs.py", "reduces_by_hand", ranks=2)
    assert run.names("Work.wait%") and run.report["communication"]["bytes_per_step"], run.report["communication"]
    assert run.report["communication"]["overlap_pct"] is None, run.report["communication"]
    assert "overlap the gradients" not in json.dumps(run.report["findings"]), run.report["findings"]


def test_a_range_called_as_an_update_is_named():
    """By its range: Python's frames are not looked at."""
    run = Run("findings_programs.py", "acts", options=("--python-hz", "0"))
    run.same("env.step", "env.step")
    advice, share = finding(run.report, "PYTHON_HOST"), 100 * sum(run.ranges("env.step")) / sum(run.ranges("step"))
    assert advice and "the range env.step takes" in advice["claim"] and share > 4, (share, run.report["findings"])
