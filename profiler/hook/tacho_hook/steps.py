# SPDX-License-Identifier: Apache-2.0
"""Steps: from one update of the optimizer that updated first to its next one."""

import gc
import sys
import weakref
from threading import get_ident, main_thread

from .library import lib, sample

LOOKS = 8  # steps from one look at what the ranges cost to the next
PASSES = 48  # backward passes of a program without an optimizer, after which each one is a step: it updates by hand
ELSEWHERE = 8  # updates in a row on a thread that has not begun the open step, after which the steps are those of that thread
OTHERS = 24  # updates of another optimizer in a row, after which its updates are the steps: the training has come to its next stage


KINDS = ("cuda", "xpu", "mps")  # modules of torch


def own_kind(torch):
    """The module of an accelerator that PyTorch itself does not know (NPU, HPU): its extension has given it a name."""
    named = getattr(getattr(torch, "_C", None), "_get_privateuse1_backend_name", None)
    return (named(),) if named is not None else ()


def has_optimizer():
    """Is there one that has yet to make its first update? Gradients are accumulated over hundreds of batches at times."""
    kind = getattr(sys.modules.get("torch.optim"), "Optimizer", None)
    return kind is not None and any(issubclass(type(held), kind) for held in gc.get_objects())


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

    @staticmethod
    def allocated():
        """Bytes that tensors hold on the device; None: PyTorch does not know."""
        torch = sys.modules.get("torch")
        for kind in KINDS + own_kind(torch):
            module = getattr(torch, kind, None)
            count = getattr(module, "memory_allocated", None) or getattr(module, "current_allocated_memory", None)
            try:
                if count is not None and getattr(module, "is_initialized", module.is_available)():
                    return count()
            except Exception:
                pass
        return None


accelerator = Accelerator()


class Steps:
    """The steps of this process. `open`: a step's range is open on the thread `thread`. What runs in every step is written for few
    calls and few look-ups: between two steps the caches forget it, and each of them is slow then."""

    COUNTERS = ("micro_steps", "step.samples", "step.tokens")

    def __init__(self):
        self._by_hand = lambda: self  # in place of a reference to an optimizer
        self._by_passes = lambda: None  # while nothing but backward passes is known
        self.pauses = []  # called with True when a step has begun for which recording is paused, and with False when it has ended
        self.accelerated = []  # called once, when an accelerator is found in use
        self.looks = []  # called after each of the first LOOKS steps and each LOOKS-th of the others
        self.in_backward = set()  # threads that run a backward pass; others keep it: it is never replaced
        self.reset()

    def reset(self):
        self.open = self.paused = False
        self.index = 0
        self.thread = None
        self.anchor = None  # the optimizer whose updates are the steps
        self.other, self.others, self.most = 0, 0, OTHERS  # id of another one that has made so many updates in a row; the most of them
        self.accelerator = False
        self.forward = False  # a forward pass since the last backward pass
        self.root = None  # the module that was the first one of such a pass in this step
        self.counted = False  # the pass since the last backward pass began with it
        self.passes = 0  # backward passes
        self.in_backward.clear()
        # in the order of COUNTERS, since the last update of any optimizer: backward passes after a forward pass, and what these were given
        self.sums = [0, 0, 0]
        self.said = [1, 0, 0]  # what the counters have last
        self.guessed = False  # the open step began before any update, on a thread that may be another one than that of the updates
        self.elsewhere = 0  # updates in a row on another thread than that of the open step

    def accelerates(self):
        """An accelerator is in use: from now on ranges of work are the host's part of it."""
        self.accelerator = True
        lib.on_device(1)

    def begin(self):
        """Work has begun: the first step, if none is open yet. Other threads than the main one may prepare batches."""
        if not self.open and self.anchor is None and not self.index and get_ident() == main_thread().ident:
            self.index = -1
            self._next()
            self.guessed = True

    def anchored(self, optimizer):
        """Are the updates of this optimizer the steps, or will they be?"""
        return self.anchor is None or self.anchor() is None or self.anchor() is optimizer

    def by_hand(self):
        """Does the program itself, or the framework around it, say when an update is complete?"""
        return self.anchor is self._by_hand

    def fed(self, root, samples, tokens):
        """A forward pass of training has begun, with that batch, the first one since the last backward pass: others do not count. Nor
        does one that begins with another module than the first one of the step: the discriminator of a GAN is given the generator's
        rows beside those of the batch."""
        self.forward = True
        if self.root is None:
            self.root = root
        self.counted = self.root == root
        if self.counted:
            self.sums[1] += samples
            self.sums[2] += tokens

    def backward(self):
        """A backward pass has ended. Several ones after one forward pass, one for each loss, are one micro-step."""
        self.passes += 1
        self.sums[0] += self.forward and self.counted
        self.forward = False
        if self.passes == PASSES and self.anchor is None and not has_optimizer():
            self.anchor = self._by_passes
        if self.anchor is self._by_passes:
            self.root = None
            self.say()
            self._next()

    def say(self):
        """Ends the sums of a step. Counters are written where they change: what they have counts for all following steps."""
        for i, value in enumerate(self.sums):
            if value and value != self.said[i]:
                self.said[i] = value
                sample(self.COUNTERS[i], value)
        self.sums = [0, 0, 0]

    def updated(self, optimizer):
        """An optimizer has made an update."""
        anchor = self.anchor
        known = None if anchor is None else anchor()
        if known is None:
            self.anchor = weakref.ref(optimizer)
        elif known is not optimizer:
            if self.by_hand():  # the mark of the program ends the step
                return
            self.sums, self.root = [0, 0, 0], None
            if not self.is_next_stage(optimizer):
                return
            self.anchor = weakref.ref(optimizer)
        self.others, self.root = 0, None
        if self.sums == self.said:  # as in most steps
            self.sums = [0, 0, 0]
        else:
            self.say()
        self._next()

    def is_next_stage(self, optimizer):
        """Has this optimizer made so many updates in a row that the one of the steps is no longer used? Where both take turns, each
        change asks for more of them."""
        self.others = self.others + 1 if self.other == id(optimizer) else 1
        self.other = id(optimizer)
        if self.others < self.most:
            return False
        self.most *= 4
        return True

    def marked(self):
        """The program says that an update is complete: updates of optimizers are steps no longer. A step that such an update
        has just begun goes on."""
        by_optimizer = self.anchor is not None and not self.by_hand()
        self.root = None
        self.say()
        self.anchor = self._by_hand
        if not (by_optimizer and self.open):
            self._next()

    def _next(self):
        """Ends the step that is open, and begins the next one. A thread cannot end the step of another one: that step stays without an
        end if the updates have moved to this thread for good."""
        index = self.index
        if self.open and self.thread != get_ident():
            self.elsewhere += 1
            if not self.guessed and self.elsewhere < ELSEWHERE:
                return
        elif self.open:
            lib.pop_step()
            if index <= LOOKS or not index % LOOKS:
                for look in self.looks:
                    look(index)
        index += 1
        if not self.accelerator and (index <= LOOKS or not index % LOOKS):
            if accelerator.used():
                self.accelerates()
            while self.accelerator and self.accelerated:
                self.accelerated.pop()()
        self.elsewhere = 0
        self.index, self.thread, self.open, self.guessed = index, get_ident(), True, False
        paused = bool(lib.push_step(index))
        if paused or self.paused:
            self.paused = paused
            for pause in self.pauses:
                pause(paused)


steps = Steps()
