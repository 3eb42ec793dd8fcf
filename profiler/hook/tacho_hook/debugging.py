# SPDX-License-Identifier: Apache-2.0
"""Switches for debugging that a program has left on. They are looked at between steps, at each of the first ones and at every eighth of
the others; a counter "debugging NAME" says at which looks a switch was on, from the first one on that found it so."""

import os
import sys

from .library import sample
from .steps import steps


def distributed(torch):
    module = sys.modules.get("torch.distributed")
    return os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL" and module is not None and module.is_initialized()


# name -> is it on, with the module torch
SWITCHES = {
    "anomaly detection": lambda torch: torch.is_anomaly_enabled(),
    "torch.profiler": lambda torch: torch.autograd._profiler_enabled(),
    "CUDA_LAUNCH_BLOCKING": lambda torch: steps.accelerator and os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"),
    "TORCH_DISTRIBUTED_DEBUG": distributed,
}

seen = set()
absent = set()  # with this PyTorch


def look(index):
    torch = sys.modules.get("torch")
    for name, is_on in SWITCHES.items() if torch is not None else ():
        try:
            on = name not in absent and bool(is_on(torch))
        except Exception:  # another version of PyTorch
            on = False
            absent.add(name)
        if on or name in seen:
            seen.add(name)
            sample("debugging " + name, on)


def patch_switches(module):
    steps.looks.append(look)
