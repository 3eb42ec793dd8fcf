# SPDX-License-Identifier: Apache-2.0
"""Tests of run.py with the programs of devices.py."""

from __main__ import Run, finding


def test_memory_of_a_device_that_a_step_keeps():
    run = Run("devices.py", "leaks")
    leak = run.report["leak"]
    assert leak["found"] and abs(leak["bytes_per_step"] - run.truth["kept"]) <= 0.05 * run.truth["kept"], (leak, run.truth)
    assert leak["steps_left"] is None, leak
    assert not (run.report["memory"] or {}).get("peak_bytes"), run.report["memory"]
    advice = finding(run.report, "LEAK")
    assert advice and "device" in advice["claim"], run.report["findings"]
