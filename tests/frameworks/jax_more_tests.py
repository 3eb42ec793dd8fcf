# SPDX-License-Identifier: Apache-2.0
"""Tests of run.py with the programs of jax_more.py."""

import json
import os
import subprocess

from __main__ import HERE, LIMIT, PYTHON, Run


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
