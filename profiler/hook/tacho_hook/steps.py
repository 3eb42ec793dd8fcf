# SPDX-License-Identifier: Apache-2.0
"""Steps: from one update of the optimizer that updated first to its next one."""

import sys
import threading
import weakref

from .library import lib, name_of, sample

LOOKS = 8  # steps from one look at what the ranges cost to the next


KINDS = ("cuda", "xpu", "mps")  # modules of torch


def own_kind(torch):
    """The module of an accelerator that PyTorch itself does not know (NPU, HPU): its extension has given it a name."""
    named = getattr(getattr(torch, "_C", None), "_get_privateuse1_backend_name", None)
    return (named(),) if named is not None else ()


class Accelerator:
    """Is one in use? Once it is, it stays so; until then it is asked for at the first steps, and now and then."""

    def __init__(self):
        self.asks = None

    def used(self):
        if self.asks is None:  # PyTorch's modules are all there when the first step begins
            torch = sys.modules.get("torch")
            if torch is None:
                return False
            kinds = [getattr(torch, kind, None) for kind in KINDS + own_kind(torch)]
            asks = [getattr(m, "is_initialized", None) or getattr(m, "is_available", None) for m in kinds]
            self.asks = [ask for ask in asks if ask is not None]
        for ask in self.asks:
            try:
                if ask():
                    return True
            except Exception:
                pass
        return False


accelerator = Accelerator()


class Steps:
    """The steps of this process. `open`: a step's range is open on the thread `thread`."""

    NOTHING = {"micro_steps": 0, "step.samples": 0, "step.tokens": 0}

    def __init__(self):
        self._by_hand = lambda: self  # in place of a reference to an optimizer
        self.accelerated = []  # called once, when an accelerator is found in use
        self.looks = []  # called after each of the first LOOKS steps and each LOOKS-th of the others
        self.reset()

    def reset(self):
        self.open = False
        self.index = 0
        self.thread = None
        self.anchor = None  # the optimizer whose updates are the steps
        self.accelerator = False
        self.forward = False  # a forward pass since the last backward pass
        # since the last update of any optimizer: backward passes after a forward pass, and what these were given
        self.sums = self.NOTHING.copy()
        self.said = {"micro_steps": 1}  # what the counters of these names have last

    def begin(self):
        """Work has begun: the first step, if none is open yet."""
        if not self.open and self.anchor is None and not self.index:
            self._push()

    def _push(self):
        if not self.accelerator and (self.index <= LOOKS or not self.index % LOOKS):
            self.accelerator = accelerator.used()
            while self.accelerator and self.accelerated:
                self.accelerated.pop()()
        self.thread = threading.get_ident()
        self.open = True
        lib.push_step(name_of("step"), self.index)

    def anchored(self, optimizer):
        """Are the updates of this optimizer the steps, or will they be?"""
        return self.anchor is None or self.anchor() is None or self.anchor() is optimizer

    def fed(self, samples, tokens):
        """A forward pass of training has begun, with that batch. Of several ones before a backward pass the first counts."""
        if not self.forward:
            self.forward = True
            self.sums["step.samples"] += samples
            self.sums["step.tokens"] += tokens

    def backward(self):
        """A backward pass has ended. Several ones after one forward pass, one for each loss, are one micro-step."""
        self.sums["micro_steps"] += self.forward
        self.forward = False

    def say(self):
        """Ends the sums of a step. Counters are written where they change: what they have counts for all following steps."""
        for name, value in self.sums.items():
            if value and value != self.said.get(name):
                self.said[name] = value
                sample(name, value)
        self.sums = self.NOTHING.copy()

    def updated(self, optimizer):
        """An optimizer has made an update."""
        anchor = self.anchor
        if anchor is not self._by_hand:  # else the mark of the program ends the step
            if self.anchored(optimizer):
                self.say()
            else:
                self.sums = self.NOTHING.copy()
        if anchor is None or anchor() is not optimizer:
            if anchor is not None and anchor() is not None:
                return
            self.anchor = weakref.ref(optimizer)
        self._next()

    def marked(self):
        """The program says that an update is complete: updates of optimizers are steps no longer. A step that such an update
        has just begun goes on."""
        by_optimizer = self.anchor is not None and self.anchor is not self._by_hand
        self.say()
        self.anchor = self._by_hand
        if not (by_optimizer and self.open):
            self._next()

    def _next(self):
        if self.open:
            if self.thread != threading.get_ident():
                return  # another thread's step: ranges of a thread nest
            lib.pop()
            if self.index <= LOOKS or not self.index % LOOKS:
                for look in self.looks:
                    look(self.index)
        self.index += 1
        self._push()


steps = Steps()
