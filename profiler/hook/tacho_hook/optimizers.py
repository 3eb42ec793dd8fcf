# SPDX-License-Identifier: Apache-2.0
"""Updates of optimizers, and what programs do around them: clipping, schedulers, scaling of gradients."""

import functools
import threading

from .library import PASS_OPTIMIZER, ROLE_HOST, around, lib, name_of, sample
from .modules import modules
from .steps import steps


class Closed:
    """The range of a call of Optimizer.step with a closure: the update begins where the closure returns, because what it runs is
    forward and backward, not optimizer. LBFGS calls its closure several times."""

    def __init__(self, handle):
        self.handle, self.open = handle, False

    def begin(self):
        lib.push_work(self.handle, PASS_OPTIMIZER)
        self.open = True

    def end(self):
        if self.open:
            self.open = False
            lib.pop()

    def around(self, closure):
        @functools.wraps(closure)
        def outer(*arguments, **keywords):
            self.end()
            result = closure(*arguments, **keywords)
            self.begin()
            return result

        return outer


made = [0]  # updates of this process


class Running(threading.local):
    """The calls that run on a thread, the innermost last: optimizer, and what ends its range."""

    def __init__(self):
        self.updates = []


def patch_optimizer(module):
    handles, running = {}, Running()  # handles: of classes
    push_work, pop = lib.push_work, lib.pop

    def handle_of(kind):
        handles[kind] = name_of("%s.step" % kind.__name__)
        return handles[kind]

    def before(optimizer, arguments, keywords):
        if not steps.open:
            steps.begin()
        updates = running.updates
        if updates and updates[-1][0] is optimizer:  # a class calls the step of the class that it is derived from
            updates.append((optimizer, int))
            return None
        handle = handles.get(type(optimizer)) or handle_of(type(optimizer))
        closure = (keywords and keywords.get("closure")) or (arguments[1] if len(arguments) > 1 else None)
        if closure is None or not callable(closure):
            updates.append((optimizer, pop))
            push_work(handle, PASS_OPTIMIZER)
            return None
        closed = Closed(handle)
        updates.append((optimizer, closed.end))
        if keywords.get("closure"):
            return arguments, dict(keywords, closure=closed.around(closure))
        return (arguments[0], closed.around(closure)) + tuple(arguments[2:]), keywords

    def after(optimizer, arguments, keywords):
        updates = running.updates
        if updates:
            updates.pop()[1]()
            if updates and updates[-1][0] is optimizer:
                return
        made[0] += 1
        steps.updated(optimizer)

    def ended_by_exceptions(step):
        """PyTorch calls no hook after an update that raises: its range ends here."""

        @functools.wraps(step)
        def outer(*arguments, **keywords):
            updates = running.updates
            depth = len(updates)
            try:
                return step(*arguments, **keywords)
            except BaseException:
                while len(updates) > depth:
                    updates.pop()[1]()
                raise

        return outer

    if hasattr(module, "register_optimizer_step_post_hook"):
        module.register_optimizer_step_pre_hook(before)
        module.register_optimizer_step_post_hook(after)
        hooked = getattr(module.Optimizer, "profile_hook_step", None)
        if hooked is not None:
            module.Optimizer.profile_hook_step = staticmethod(lambda step: ended_by_exceptions(hooked(step)))
    else:
        patch_classes(module.Optimizer, before, after, ended_by_exceptions)
    if hasattr(module.Optimizer, "zero_grad"):
        work_around(module.Optimizer, "zero_grad", "zero_grad")


def patch_classes(base, before, after, ended_by_exceptions):
    """PyTorch before 2.0 has no hooks for the updates of all optimizers: a class gets another `step` when its first object is made."""
    inner, inside = base.__init__, []

    def between(step):
        @functools.wraps(step)
        def outer(*arguments, **keywords):
            if inside:  # a class calls the step of the class that it is derived from
                return step(*arguments, **keywords)
            optimizer = arguments[0]
            arguments, keywords = before(optimizer, arguments, keywords) or (arguments, keywords)
            inside.append(optimizer)
            try:
                result = step(*arguments, **keywords)
            finally:
                inside.pop()
            after(optimizer, arguments, keywords)
            return result

        outer = ended_by_exceptions(outer)
        outer.has_tacho = True
        return outer

    @functools.wraps(inner)
    def begun(self, *arguments, **keywords):
        inner(self, *arguments, **keywords)
        if not hasattr(type(self).step, "has_tacho"):
            type(self).step = between(type(self).step)

    base.__init__ = begun


def work_around(owner, attribute, text):
    """Replaces owner.attribute by itself in a range of the optimizer's work."""
    inner, handle, push_work, pop = getattr(owner, attribute), name_of(text), lib.push_work, lib.pop

    @functools.wraps(inner)
    def outer(*arguments, **keywords):
        if modules.compiling():
            return inner(*arguments, **keywords)
        push_work(handle, PASS_OPTIMIZER)
        try:
            return inner(*arguments, **keywords)
        finally:
            pop()

    setattr(owner, attribute, outer)


def patch_clipping(module):
    for function in ("clip_grad_norm_", "clip_grad_value_"):
        if hasattr(module, function):
            work_around(module, function, function)


def patch_schedulers(module):
    """The step of the base class, and of those that have one of their own."""
    base = getattr(module, "LRScheduler", None) or module._LRScheduler
    for kind in [base] + [k for k in vars(module).values() if isinstance(k, type) and issubclass(k, base) and k is not base]:
        if "step" in kind.__dict__:
            around(kind, "step", "%s.step" % kind.__name__, ROLE_HOST)


def patch_norms(module):
    """The two halves of clip_grad_norm_, for programs that call them themselves. clip_grad_norm_ calls those of its own module, so its
    range has none inside."""
    for function in ("get_total_norm", "clip_grads_with_norm_"):
        if hasattr(module, function):
            work_around(module, function, function)


def is_infinite(scaler, optimizer):
    """Has the scaler found an infinite gradient of this optimizer? None: a device knows, and asking would wait for it."""
    found = getattr(scaler, "_per_optimizer_states", {}).get(id(optimizer), {}).get("found_inf_per_device")
    if not found or any(value.device.type != "cpu" for value in found.values()):
        return None
    return any(value.item() for value in found.values())


def patch_scaler(module):
    """A scaler that finds a gradient infinite leaves the update out: the step ends there. The counter `overflows` has the number of
    such updates so far at each update. The scale itself is read on the CPU only: elsewhere that would wait for the device."""
    scaler, skipped = module.GradScaler, [0]
    if "step" not in vars(scaler):  # the class of torch.amp under its old name
        return
    inner, update = scaler.step, scaler.update

    @functools.wraps(inner)
    def step(self, optimizer, *arguments, **keywords):
        before = made[0]
        result = inner(self, optimizer, *arguments, **keywords)
        if not self.is_enabled() or not (steps.by_hand() or steps.anchored(optimizer)):
            return result
        skips = is_infinite(self, optimizer)
        if skips is None:  # a fused optimizer leaves the update out on the device
            if steps.by_hand() or getattr(optimizer, "_step_supports_amp_scaling", False):
                return result
            skips = made[0] == before
        skipped[0] += skips
        sample("overflows", skipped[0])
        if skips and made[0] == before and not steps.by_hand():
            steps.updated(optimizer)
        return result

    @functools.wraps(update)
    def updated(self, *arguments, **keywords):
        update(self, *arguments, **keywords)
        if self.is_enabled() and not steps.accelerator:
            sample("loss_scale", self.get_scale())

    scaler.step, scaler.update = step, updated
    for method in ("unscale_", "update"):
        if hasattr(scaler, method):
            work_around(scaler, method, "GradScaler.%s" % method)
