# SPDX-License-Identifier: Apache-2.0
"""Functions that a program calls outside of modules: losses, and the ranges it marks itself with torch.profiler."""

import functools
import threading
import types

from .library import PASS_FORWARD, ROLE_EVALUATION, lib, name_of, name_of_program
from .modules import modules

LOSSES = (
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "ctc_loss",
    "cosine_embedding_loss",
    "margin_ranking_loss",
    "triplet_margin_loss",
    "hinge_embedding_loss",
    "gaussian_nll_loss",
    "poisson_nll_loss",
)
OF_PYTORCH = ("Optimizer.", "ProfilerStep#", "enumerate(DataLoader)", "DistributedDataParallel.", "## ", "torch::")  # ranges of its own


def _loss(inner, handle):
    thread, inside, push_work, push_role, pop = threading.get_ident, modules.inside, lib.push_work, lib.push_role, lib.pop
    parts = modules  # the function below may use no global name: its globals are those of torch.nn.functional

    def outer(*arguments, **keywords):
        if parts.compiling() or thread() in inside:
            return inner(*arguments, **keywords)
        if parts.evaluates:
            push_role(handle, 8)
        else:
            push_work(handle, 1)
        try:
            return inner(*arguments, **keywords)
        finally:
            pop()

    return outer


def patch_losses(module):
    """torch.jit.script reads the source of the wrapped function and looks its names up in the globals of the wrapper: they are
    those of the module."""
    assert (PASS_FORWARD, ROLE_EVALUATION) == (1, 8)
    for function in LOSSES:
        inner = getattr(module, function, None)
        if not isinstance(inner, types.FunctionType):
            continue
        outer = _loss(inner, name_of(function))
        outer = types.FunctionType(outer.__code__, inner.__globals__, function, None, outer.__closure__)
        setattr(module, function, functools.wraps(inner)(outer))


def patch_record_function(module):
    kind = getattr(module, "record_function", None)
    if kind is None:
        return
    enter, leave = kind.__enter__, kind.__exit__

    @functools.wraps(enter)
    def begin(self):
        result = enter(self)
        if not str(self.name).startswith(OF_PYTORCH) and not modules.compiling():
            lib.push(name_of_program(str(self.name)))
            self._tacho_thread = threading.get_ident()
        return result

    @functools.wraps(leave)
    def end(self, exc_type, exc_value, traceback):
        thread = self.__dict__.pop("_tacho_thread", None)
        if thread is not None and thread == threading.get_ident():
            lib.pop()
        return leave(self, exc_type, exc_value, traceback)

    kind.__enter__, kind.__exit__ = begin, end
