# SPDX-License-Identifier: Apache-2.0
"""Forward passes of modules, as many levels of them as the budget allows."""

import sys
import threading
import time
import weakref

from .flops import counts, keywords_of_call
from .library import PASS_FORWARD, PASS_RECOMPUTE, ROLE_EVALUATION, lib, name_of, sample
from .steps import LOOKS, steps

BUDGET = 0.004  # of a step, for the ranges of modules
ROOTS = 4  # so many outermost modules a step are recorded whatever they cost
COLD = 1.5  # times as much as when nothing else runs in between: the caches hold the program then
TRIES, CALLS = 4, 64  # of an operator, to measure its cost
# around a module that programs call themselves: class -> attribute
WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "FullyShardedDataParallel": "module", "OptimizedModule": "_orig_mod"}
# steps at which costs are measured once more: the largest one of a range counts, and the least one of an operator
MEASURED_AGAIN = (8, 32, 128)


def batch_of(arguments):
    """Samples and tokens that the outermost module is given: rows of its first tensor, and its elements where it is a table of whole
    numbers. 0: not known."""
    try:
        for value in arguments or keywords_of_call(3).values():
            shape = getattr(value, "shape", None)
            if shape is None:
                if isinstance(value, dict):
                    value = next(iter(value.values()), None)
                if isinstance(value, (list, tuple)) and value and hasattr(value[0], "shape"):
                    return len(value), 0  # pictures of different sizes
                shape = getattr(value, "shape", None)
            if shape:
                is_table = len(shape) == 2 and not (value.is_floating_point() or value.is_complex())
                return shape[0], shape[0] * shape[1] if is_table else 0
    except Exception:  # arguments of another kind
        pass
    return 0, 0


class Modules:
    """Ranges around forward passes. Depth 1 is the module that is called first, from outside of any other."""

    DEEPEST = 64

    def __init__(self):
        self.names = {}  # id -> (weak reference, handle, has it parameters, is it a loss of PyTorch)
        self.local = threading.local()
        self.inside = set()  # threads that are inside a module
        self.limit = self.DEEPEST
        self.cost = 0.0  # seconds a range costs here; 0: not measured yet
        self.operators = [float("inf")] * 3  # the least that time_operators measured so far
        self.calls = [0] * (self.DEEPEST + 1)  # by depth, since the last look
        self.looked = 0.0  # when that was
        self.counter = 0
        self.compiling = bool  # what says whether PyTorch traces what it calls: nothing does before may_compile
        self.is_told = False  # of each compilation by Dynamo, before it begins
        self.compiled = False  # something is: code that was compiled with the hooks in place is not to find them gone
        self.hooks = ()  # (PyTorch's table, key, value): our places in its tables of global hooks
        self.key = None  # of the hook at a module below which nothing is recorded; None: not possible with this PyTorch
        self.closed = None  # that module, while it runs
        self.root = lambda: None  # reference to the outermost module that was trained last
        self.evaluates = self.is_other = False  # the last outermost module that was called evaluates; it is not the one that is trained
        self.undecided = None  # steps.passes at a call of that module in evaluation mode with gradients: will a backward pass follow?
        self.helpers = {}  # id of another module that is called without gradients -> (the last step with such a call, was it evaluation)
        self.out, self.skipped = False, 0  # recording is paused and the hooks are out; how many steps were without them so far
        self.since = self.without = 0.0  # when the last pause began; seconds of pauses since the last look
        self.threads = 0  # that ever ran a module
        self.stale = []  # modules with such a hook that could not be taken away at once

    def entry(self, module, depth):
        """Of a module that has none yet, or whose id another one had."""
        if depth == 1:  # names every module below it by its place
            for path, m in module.named_modules():
                kind = type(m).__name__
                self.name(m, "%s (%s)" % (path, kind) if path else kind)
        entry = self.names.get(id(module))
        if entry is None or entry[0]() is not module:
            entry = self.name(module, type(module).__name__)
        return entry

    def name(self, module, text):
        is_loss = type(module).__module__ == "torch.nn.modules.loss"
        entry = self.names[id(module)] = (weakref.ref(module), name_of(text), next(module.parameters(), None) is not None, is_loss)
        return entry

    def install(self, patched, grad_enabled):
        """The two functions that run around every forward pass, into PyTorch. They are closures: this is the hot path."""
        local, names, inside, push_work, push_role, pop = self.local, self.names, self.inside, lib.push_work, lib.push_role, lib.pop
        thread, push_cost, known_pass, exc_info = threading.get_ident, lib.push_cost, counts.forward, sys.exc_info
        in_backward = steps.in_backward

        def before(module, arguments):
            if self.compiling():
                return
            try:
                stack = local.stack
            except AttributeError:
                stack = local.stack = []
                self.threads += 1
            depth = len(stack) + 1
            limit = self.limit
            if depth > limit:
                stack.append(False)
                return
            entry = names.get(id(module))
            if entry is None or entry[0]() is not module:
                entry = self.entry(module, depth)
            handle = entry[1]
            self.calls[depth] += 1
            role, cost = False, None
            if depth == 1:
                own = thread()
                inside.add(own)
                again = own in in_backward  # checkpointing computes it once more, and the backward pass has its cost
                trains = module.training and entry[2] and not again  # a loss without parameters is always in training mode
                if trains:
                    if self.root() is not module and grad_enabled():
                        self.root = entry[0]
                    self.evaluates, self.undecided = False, None
                    if not steps.open:
                        steps.begin()
                elif not again:  # a module without parameters is a part of what goes on
                    role = self.is_evaluation(module, grad_enabled) if entry[2] else self.evaluates
                known = None
                if not (role or again or steps.accelerator or (entry[3] and counts.pending)):
                    known = known_pass(module, arguments)
                if known is not None:
                    cost = known.cost
                if trains and not steps.forward and grad_enabled():
                    if known is None:
                        steps.fed(id(module), *batch_of(arguments))
                    else:
                        known.batch = known.batch or batch_of(arguments)
                        steps.fed(id(module), *known.batch)
            if role:
                push_role(handle, ROLE_EVALUATION)
            elif cost:
                push_cost(handle, cost)
            elif not in_backward or thread() not in in_backward:
                push_work(handle, PASS_FORWARD)
            else:
                push_work(handle, PASS_RECOMPUTE)
            stack.append(True)
            if depth == limit:
                self.close(module)

        def after(module, arguments, result):
            if self.compiling():
                return
            stack = getattr(local, "stack", None)
            if stack:
                if stack.pop():
                    pop()
                if not stack:
                    inside.discard(thread())
                    if counts.open:
                        counts.forward_done()

        def reopen(module, arguments, result):
            if self.closed is not module:
                return
            self.closed = None
            for table, key, value in self.hooks:
                table[key] = value
            if exc_info()[0] is None:
                own = module.__dict__
                del own["_forward_hooks"][self.key], own["_forward_hooks_always_called"][self.key]
            else:  # PyTorch may be walking through the table
                self.stale.append(module)
            stack = local.stack
            stack.pop()
            pop()
            if not stack:
                inside.discard(thread())
                if counts.open:
                    counts.forward_done()

        self.reopen = reopen
        first = patched.register_module_forward_pre_hook(before)
        try:
            second = patched.register_module_forward_hook(after, always_call=True)
            patched._global_forward_hooks_always_called[second.id]
            self.hooks = ((patched._global_forward_pre_hooks, first.id, before), (patched._global_forward_hooks, second.id, after))
            self.key = second.id
        except TypeError:  # PyTorch before 2.1
            patched.register_module_forward_hook(after)
            self.leave_by_exceptions(patched.Module)
        except (AttributeError, KeyError):  # its tables are elsewhere
            pass

    def leave_by_exceptions(self, kind):
        """PyTorch before 2.1 calls no hook of a module that an exception leaves: its ranges end here."""
        inner, local = kind._call_impl, self.local

        def call(module, *arguments, **keywords):
            depth = len(getattr(local, "stack", ()))
            try:
                return inner(module, *arguments, **keywords)
            except BaseException:
                stack = getattr(local, "stack", ())
                while len(stack) > depth:
                    if stack.pop():
                        lib.pop()
                if not stack:
                    self.inside.discard(threading.get_ident())
                    if counts.open:
                        counts.forward_done()
                raise

        kind._call_impl = kind.__call__ = call

    def is_evaluation(self, module, grad_enabled):
        """Is the call of an outermost module that is not in training mode a part of an evaluation?

        With gradients that is known once a second call follows without a backward pass in between. Without them a call of the module that
        is trained is one. Another module may be a helper of the training (a teacher, a frozen encoder), which is called in each step."""
        is_root = self.in_evaluation(module)
        if grad_enabled():
            self.evaluates = is_root and self.undecided == steps.passes
            if is_root:
                self.undecided = steps.passes
        else:
            self.evaluates = self.is_no_helper(id(module)) or is_root or self.root() is None
        self.is_other = not is_root
        return self.evaluates

    def is_no_helper(self, key):
        """A helper is called in two steps in a row, or more often."""
        last, is_evaluation = self.helpers.get(key, (None, True))
        step = steps.index - self.skipped  # while the hooks are taken out, no call is seen
        if last != step:
            is_evaluation = last is None or last + 1 < step
            self.helpers[key] = step, is_evaluation
        return is_evaluation

    def in_evaluation(self, module=None):
        """Is the module that was trained last in evaluation mode, or the one that it is a replica of? module: and is it that one?"""
        root = self.root()
        inner = getattr(root, WRAPPERS.get(type(root).__name__, ""), None)
        if root is None or (module is not None and module is not root and module is not inner):
            return False
        return not root.training or not getattr(inner, "training", True)

    def evaluating(self):
        """Does an evaluation wait for its next batch? In evaluation mode it does, unless the module is trained in that mode."""
        if self.evaluates and self.is_other:
            return True
        root = self.root()
        if root is None or (root.training and type(root).__name__ not in WRAPPERS):  # as in most steps
            return False
        return self.in_evaluation() and self.undecided in (None, steps.passes)

    def take_out(self):
        for table, key, _ in self.hooks:
            table.pop(key, None)

    def put_back(self):
        for table, key, value in self.hooks:
            table[key] = value

    def pause(self, paused):
        """True: recording is paused for the step that has just begun, so it runs without the hooks at modules, which are most of the
        cost that paused steps measure. False: they are put back. They stay in place while a module runs, where several threads run
        modules, and where something was compiled."""
        now = time.perf_counter()
        if self.out:
            self.without += now - self.since
        self.since = now
        if not paused:
            if self.out and self.limit:
                self.put_back()
            self.out = False
        elif self.may_go():
            self.out, self.skipped = True, self.skipped + 1
            self.take_out()

    def may_go(self):
        """Can the hooks be taken out now?"""
        is_in_use = self.inside or self.closed is not None or self.threads > 1
        return self.hooks and self.limit and not is_in_use and not self.compiled and (self.is_told or self.compiling is bool)

    def close(self, module):
        """Until this module, which is running, has ended, no other one is recorded. Not while two threads are inside of modules:
        the other one's ranges must be ended."""
        own = module.__dict__
        if not own.get("_modules") or self.key is None or self.compiled or self.closed is not None or len(self.inside) != 1:
            return
        always = own.get("_forward_hooks_always_called")
        if always is None or "_forward_hooks" not in own:
            return
        self.closed = module
        own["_forward_hooks"][self.key] = self.reopen
        always[self.key] = True
        self.take_out()

    def unhook(self, module):
        module.__dict__["_forward_hooks"].pop(self.key, None)
        module.__dict__["_forward_hooks_always_called"].pop(self.key, None)

    def forked(self):
        self.local.__dict__.clear()
        self.inside.clear()
        self.threads = 0
        self.pause(False)
        if self.closed is not None:
            self.put_back()
            self.stale.append(self.closed)
            self.closed = None

    def measure(self):
        """The cost of a range here: the less of two measurements, because on a shared machine a core is slower for a while at times."""
        self.cost = max(self.cost, min(self.measured(), self.measured()), 1e-7)

    def measured(self):
        """Seconds that the range of one module costs: the call of a module that does nothing, with and without the hooks."""
        torch = sys.modules["torch"]

        class Nothing(torch.nn.Module):
            def forward(self, x):
                pass

        nothing, calls = Nothing(), self.calls
        self.name(nothing, "hook.measure")
        stack = getattr(self.local, "stack", [])
        self.calls, self.local.stack = [0] * len(calls), [True]  # as if inside a module
        self.put_back()
        took = ([], [])  # with and without the hooks, in turn; processor time: other programs take the core for longer than a range takes
        for i in range(18):
            t = time.thread_time()
            for _ in range(8):
                nothing(None)
            took[i % 2].append((time.thread_time() - t) / 8)
            if i % 2:
                self.put_back()
            else:
                self.take_out()
        self.calls, self.local.stack = calls, stack
        if self.out:
            self.take_out()
        hooked, bare = sorted(took[0])[4], sorted(took[1])[4] if self.hooks else 0.0
        return COLD * (hooked - bare)

    def measure_operators(self):
        """What PyTorch takes to call an operator on one number in a forward pass and in a backward one, and beside that for a node of
        autograd's graph, which may call many operators. So much of each call does not depend on the size of the batch. The least of all
        measurements counts: beside other programs a core is slower for a while at times. Where autograd looks for anomalies, also what
        that adds to an operator in forward and to a node."""
        torch = sys.modules["torch"]
        took, looks_for_anomalies = self.time_operators(torch), getattr(torch, "is_anomaly_enabled", bool)()
        if looks_for_anomalies:
            with torch.autograd.set_detect_anomaly(False):
                bare = self.time_operators(torch)
            for name, i in (("host.anomaly_forward_us", 0), ("host.anomaly_backward_us", 2)):
                sample(name, 1e6 * max(took[i] - bare[i], 0) / CALLS)
            took = bare
        self.operators = list(map(min, self.operators, took))
        for name, seconds in zip(("host.operator_forward_us", "host.operator_backward_us", "host.node_us"), self.operators):
            sample(name, 1e6 * seconds / CALLS)

    @staticmethod
    def time_operators(torch):
        """CPU time of this thread for CALLS operators in a forward pass, as many in a backward one, which records no graph, and as many
        nodes without the operator that each calls: the least of some tries."""
        best, grad = [float("inf")] * 3, getattr(torch.autograd.grad, "__wrapped__", torch.autograd.grad)  # without a range
        with torch.enable_grad():
            for _ in range(TRIES):
                first = x = torch.ones(1, requires_grad=True)
                times = [time.thread_time()]
                for _ in range(CALLS):
                    x = x.neg()
                times.append(time.thread_time())
                grad(x, first)
                times.append(time.thread_time())
                y = first.detach()  # x keeps the graph: its end would be part of these calls
                with torch.no_grad():
                    for _ in range(CALLS):
                        y = y.neg()
                times.append(time.thread_time())
                best = [min(least, after - before) for least, before, after in zip(best, times, times[1:])]
        forward, nodes, backward = best
        return forward, backward, max(nodes - backward, 0.0)

    def step_ended(self, index):
        """After each of the first LOOKS steps and each LOOKS-th of the others. Keeps as many levels as the budget allows. Levels are only taken away: a changing picture would be worse."""
        if self.stale:
            for module in self.stale:
                self.unhook(module)
            self.stale = []
        now = time.perf_counter()
        if self.out:  # the step that has ended was paused
            self.without, self.since = self.without + now - self.since, now
        seconds, self.looked, self.without = now - self.looked - self.without, now, 0.0
        calls, self.calls = self.calls, [0] * (self.DEEPEST + 1)
        if not self.counter:
            self.counter = lib.counter(b"hook.module_depth")
            lib.sample(self.counter, float(self.limit))
        deepest = max((d for d in range(1, self.DEEPEST + 1) if calls[d]), default=0)
        if index < 2 or not deepest:
            return  # the first ones are slower than all others
        if not self.cost or index in MEASURED_AGAIN:
            if not steps.accelerator and hasattr(sys.modules["torch"], "enable_grad"):
                self.measure_operators()
            self.measure()
            self.looked = time.perf_counter()
        level, spent = 0, 0.0
        while level < deepest:
            spent += calls[level + 1] * self.cost
            if spent > BUDGET * seconds and (level or calls[1] > ROOTS * (LOOKS if index > LOOKS else 1)):
                break
            level += 1
        if level < min(deepest, self.limit):
            self.limit = level
            lib.sample(self.counter, float(level))
            if not level and not self.inside:
                self.take_out()


modules = Modules()
steps.looks.append(modules.step_ended)
steps.pauses.append(modules.pause)


def patch_module(module):
    modules.install(module, sys.modules["torch"].is_grad_enabled)


def may_compile():
    """From here on PyTorch is asked whether it traces what it calls. Before, that would be two calls for each answer. What is compiled now
    has the hooks in it."""
    modules.pause(False)
    modules.compiling = getattr(sys.modules.get("torch.compiler"), "is_compiling", bool)


def patch_compiler(module):
    """Optimizers import Dynamo in every program: that it is there says nothing, unless this version does not tell when it compiles."""
    if not modules.is_told:
        may_compile()
