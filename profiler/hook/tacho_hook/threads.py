# SPDX-License-Identifier: Apache-2.0
"""Threads with which PyTorch computes on the CPU: a program may set them itself, and no variable says so."""

import os
import sys

from .library import sample
from .steps import steps

SET_BY = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
said = []  # the number that was sampled last


def look(index):
    """Between steps: their number, and whether a variable of the environment explains it, where it is another one than before."""
    threads = getattr(sys.modules.get("torch"), "get_num_threads", int)()
    if not threads or steps.accelerator or said == [threads]:
        return
    said[:] = [threads]
    sample("host.threads", threads)
    sample("host.threads_by_variable", any(os.environ.get(name, "").split(",")[0] == str(threads) for name in SET_BY))


def patch_threads(module):
    steps.looks.append(look)
