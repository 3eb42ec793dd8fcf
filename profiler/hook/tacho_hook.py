# SPDX-License-Identifier: Apache-2.0
"""What is recorded of an unmodified PyTorch program: steps, modules, loader, garbage collection, phases.

Nothing of PyTorch is imported from here: a finder waits for the modules named in PATCHES and patches each one right after the
program itself has imported it. The ranges are NVTX, made by libtacho_hook.so in this folder; the domain is `torch`.

step        from one update of the optimizer that updated first to its next one (tacho.step); the first step begins with the
            first batch or forward pass. The last step of a run has no end, because no update follows it.
loader      input_wait around DataLoader.__next__; in worker processes, and in line with num_workers=0, read and collate.
modules     forward of every module, named by its place in the outermost one ("transformer.h.0.attn (Attention)"); the backward
            pass and the optimizer as wholes. On the CPU they are work; with an accelerator they are the host's part of it.
collectives with the CPU's back ends (gloo): the calls of torch.distributed that block (tacho.comm), and the end of a backward pass in
            which DistributedDataParallel waits until its gradients are reduced (comm_wait).
collection  every garbage collection. Phases: torch.save, compilation, forward passes in evaluation.

Cost: a module's range is two calls from Python, and PyTorch takes a slower way through the call of every module while there is a hook, recorded or
not. What both cost is measured in the third step and in some later ones. While modules would cost more than BUDGET of a step, the deepest level of them is no
longer recorded: inside a module of the last level that is left, the hooks are taken out of PyTorch, so that what lies below costs nothing.
The counter `hook.module_depth` says which level is left.
"""

import ctypes
import gc
import os
import sys
import threading
import time
import weakref
import zlib
from importlib.machinery import PathFinder

BUDGET = 0.004  # of a step, for the ranges of modules
ROOTS = 4  # so many outermost modules a step are recorded whatever they cost
LOOKS = 8  # steps from one look at the budget to the next
COLD = 1.5  # times as much as when nothing else runs in between: the caches hold the program then
MEASURED_AGAIN = (8, 32, 128)  # steps at which the cost of a range is measured once more; the largest one counts
ROLE_INPUT_WAIT, ROLE_READ, ROLE_COLLATE, ROLE_CHECKPOINT, ROLE_EVALUATION, ROLE_COMPILE, ROLE_HOST, ROLE_COMM_WAIT = 2, 3, 5, 7, 8, 9, 10, 11
PASS_FORWARD, PASS_BACKWARD, PASS_OPTIMIZER = 1, 2, 4

lib = None  # libtacho_hook.so, once the first patched module is imported
_names = {}


def _open(folder):
    """Loads the library. PyDLL: a call keeps the interpreter's lock, which is cheaper than giving it away for 30 ns."""
    global lib
    lib = ctypes.PyDLL(os.path.join(folder, "libtacho_hook.so"))
    handle, unsigned, u64 = ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint64
    for function, result, arguments in (
        ("open", ctypes.c_int, []),
        ("name", handle, [ctypes.c_char_p]),
        ("push", None, [handle]),
        ("push_role", None, [handle, unsigned]),
        ("push_work", None, [handle, unsigned]),
        ("push_step", None, [handle, u64]),
        ("push_comm", None, [handle, unsigned, u64, u64, u64, unsigned]),
        ("pop", None, []),
        ("counter", u64, [ctypes.c_char_p]),
        ("sample", None, [u64, ctypes.c_double]),
    ):
        f = getattr(lib, "tacho_hook_" + function)
        f.restype, f.argtypes = result, arguments
        setattr(lib, function, f)
    lib.open()
    lib.tacho_hook_function.restype = ctypes.py_object
    for i in range(lib.tacho_hook_functions()):  # without ctypes, as often as a step calls them
        f = lib.tacho_hook_function(i)
        setattr(lib, f.__name__, f)


def _name(text):
    handle = _names.get(text)
    if handle is None:
        handle = _names[text] = lib.name(text.encode("utf-8", "replace"))
    return handle


class Accelerator:
    """Is one in use? Once it is, it stays so; until then it is asked for at the first steps, and now and then."""

    def __init__(self):
        self.asks = None

    def used(self):
        if self.asks is None:  # PyTorch's modules are all there when the first step begins
            torch = sys.modules.get("torch")
            kinds = [getattr(torch, kind, None) for kind in ("cuda", "xpu", "mps")]
            self.asks = [getattr(m, "is_initialized", None) or m.is_available for m in kinds if m is not None]
        for ask in self.asks:
            try:
                if ask():
                    return True
            except Exception:
                pass
        return False


accelerator = Accelerator()


# ---- steps -------------------------------------------------------------------------------------------------------------------


class Steps:
    """The steps of this process. `open`: a step's range is open on the thread `thread`."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.open = False
        self.index = 0
        self.thread = None
        self.anchor = None  # the optimizer whose updates are the steps
        self.accelerator = False

    def begin(self):
        """Work has begun: the first step, if none is open yet."""
        if not self.open and self.anchor is None and not self.index:
            self._push()

    def _push(self):
        if not self.accelerator and (self.index <= LOOKS or not self.index % LOOKS):
            self.accelerator = accelerator.used()
        self.thread = threading.get_ident()
        self.open = True
        lib.push_step(_name("step"), self.index)

    def updated(self, optimizer):
        """An optimizer has made an update."""
        anchor = self.anchor
        if anchor is None or anchor() is not optimizer:
            if anchor is not None and anchor() is not None:
                return
            self.anchor = weakref.ref(optimizer)
        if self.open:
            if self.thread != threading.get_ident():
                return  # another thread's step: ranges of a thread nest
            lib.pop()
            if self.index <= LOOKS or not self.index % LOOKS:
                modules.step_ended(self.index)
        self.index += 1
        self._push()


steps = Steps()

# ---- modules -----------------------------------------------------------------------------------------------------------------


class Modules:
    """Ranges around forward passes. Depth 1 is the module that is called first, from outside of any other."""

    DEEPEST = 64

    def __init__(self):
        self.names = {}  # id -> (weak reference, handle)
        self.local = threading.local()
        self.inside = set()  # threads that are inside a module
        self.limit = self.DEEPEST
        self.cost = 0.0  # seconds a range costs here; 0: not measured yet
        self.calls = [0] * (self.DEEPEST + 1)  # by depth, since the last look
        self.looked = 0.0  # when that was
        self.counter = 0
        self.compiling = lambda: False
        self.compiled = False  # something is: code that was compiled with the hooks in place is not to find them gone
        self.hooks = ()  # (PyTorch's table, key, value): our places in its tables of global hooks
        self.key = None  # of the hook at a module below which nothing is recorded; None: not possible with this PyTorch
        self.closed = None  # that module, while it runs
        self.stale = []  # modules with such a hook that could not be taken away at once

    def handle(self, module, depth):
        """Of a module that has none yet, or whose id another one had."""
        if depth == 1:  # names every module below it by its place
            for path, m in module.named_modules():
                kind = type(m).__name__
                self.names[id(m)] = (weakref.ref(m), _name("%s (%s)" % (path, kind) if path else kind))
        entry = self.names.get(id(module))
        if entry is None or entry[0]() is not module:
            entry = self.names[id(module)] = (weakref.ref(module), _name(type(module).__name__))
        return entry[1]

    def install(self, patched, grad_enabled):
        """The two functions that run around every forward pass, into PyTorch. They are closures: this is the hot path."""
        local, names, inside, push, push_work, push_role, pop = self.local, self.names, self.inside, lib.push, lib.push_work, lib.push_role, lib.pop
        thread = threading.get_ident

        def before(module, arguments):
            if self.compiling():
                return
            try:
                stack = local.stack
            except AttributeError:
                stack = local.stack = []
            depth = len(stack) + 1
            limit = self.limit
            if depth > limit:
                stack.append(False)
                return
            entry = names.get(id(module))
            handle = entry[1] if entry is not None and entry[0]() is module else self.handle(module, depth)
            self.calls[depth] += 1
            role = False
            if depth == 1:
                inside.add(thread())
                if module.training:
                    steps.begin()
                else:
                    role = not grad_enabled()
            if role:
                push_role(handle, ROLE_EVALUATION)
            elif steps.accelerator:
                push(handle)
            else:
                push_work(handle, PASS_FORWARD)
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

        def reopen(module, arguments, result):
            if self.closed is not module:
                return
            self.open()
            stack = local.stack
            stack.pop()
            pop()
            if not stack:
                inside.discard(thread())

        self.reopen = reopen
        first = patched.register_module_forward_pre_hook(before)
        try:
            second = patched.register_module_forward_hook(after, always_call=True)
            patched._global_forward_hooks_always_called[second.id]
            self.hooks = ((patched._global_forward_pre_hooks, first.id, before), (patched._global_forward_hooks, second.id, after))
            self.key = second.id
        except TypeError:  # PyTorch before 2.1
            patched.register_module_forward_hook(after)
        except (AttributeError, KeyError):  # its tables are elsewhere
            pass

    def take_out(self):
        for table, key, _ in self.hooks:
            table.pop(key, None)

    def put_back(self):
        for table, key, value in self.hooks:
            table[key] = value

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
        for table, key, _ in self.hooks:
            del table[key]

    def open(self):
        module, self.closed = self.closed, None
        for table, key, value in self.hooks:
            table[key] = value
        if sys.exc_info()[0] is None:
            own = module.__dict__
            del own["_forward_hooks"][self.key], own["_forward_hooks_always_called"][self.key]
        else:  # PyTorch may be walking through the table
            self.stale.append(module)

    def unhook(self, module):
        module.__dict__["_forward_hooks"].pop(self.key, None)
        module.__dict__["_forward_hooks_always_called"].pop(self.key, None)

    def forked(self):
        self.local.__dict__.clear()
        self.inside.clear()
        if self.closed is not None:
            self.open()

    def measure(self):
        """Seconds that the range of one module costs here: the call of a module that does nothing, with and without the hooks."""
        torch = sys.modules["torch"]

        class Nothing(torch.nn.Module):
            def forward(self, x):
                pass

        nothing, calls = Nothing(), self.calls
        self.names[id(nothing)] = (weakref.ref(nothing), _name("hook.measure"))
        stack = getattr(self.local, "stack", [])
        self.calls, self.local.stack = [0] * len(calls), [True]  # as if inside a module
        took = ([], [])  # with and without the hooks, in turn: whatever else runs on the machine slows both
        for i in range(18):
            t = time.perf_counter()
            for _ in range(8):
                nothing(None)
            took[i % 2].append((time.perf_counter() - t) / 8)
            if i % 2:
                self.put_back()
            else:
                self.take_out()
        self.calls, self.local.stack = calls, stack
        hooked, bare = sorted(took[0])[4], sorted(took[1])[4] if self.hooks else 0.0
        self.cost = max(self.cost, COLD * (hooked - bare), 1e-7)

    def step_ended(self, index):
        """After each of the first LOOKS steps and each LOOKS-th of the others. Keeps as many levels as the budget allows. Levels are only taken away: a changing picture would be worse."""
        if self.stale:
            for module in self.stale:
                self.unhook(module)
            self.stale = []
        now = time.perf_counter()
        seconds, self.looked = now - self.looked, now
        calls, self.calls = self.calls, [0] * (self.DEEPEST + 1)
        if not self.counter:
            self.counter = lib.counter(b"hook.module_depth")
            lib.sample(self.counter, float(self.limit))
        deepest = max((d for d in range(1, self.DEEPEST + 1) if calls[d]), default=0)
        if index < 2 or not deepest:
            return  # the first ones are slower than all others
        if not self.cost or index in MEASURED_AGAIN:
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

# ---- patches: one function a module of PyTorch, called with the module right after its import ------------------------------------


def _around(owner, attribute, text, role, enter=None, leave=None):
    """Replaces owner.attribute by itself in a range of tacho.range."""
    import functools

    inner, handle, push_role, pop = getattr(owner, attribute), _name(text), lib.push_role, lib.pop

    @functools.wraps(inner)
    def outer(*arguments, **keywords):
        if enter is not None:
            enter()
        push_role(handle, role)
        try:
            return inner(*arguments, **keywords)
        finally:
            pop()
            if leave is not None:
                leave(arguments)

    setattr(owner, attribute, outer)


def _patch_optimizer(module):
    texts = {}

    def before(optimizer, arguments, keywords):
        steps.begin()
        text = texts.get(type(optimizer))
        if text is None:
            text = texts[type(optimizer)] = _name("%s.step" % type(optimizer).__name__)
        if steps.accelerator:
            lib.push(text)
        else:
            lib.push_work(text, PASS_OPTIMIZER)

    def after(optimizer, arguments, keywords):
        lib.pop()
        steps.updated(optimizer)

    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)


def _patch_module(module):
    modules.install(module, sys.modules["torch"].is_grad_enabled)


def _patch_compiler(module):
    modules.compiling = module.is_compiling


def _patch_autograd(module):
    import functools

    inner = module.backward

    @functools.wraps(inner)
    def backward(*arguments, **keywords):
        if steps.accelerator:
            lib.push(_name("backward"))
        else:
            lib.push_work(_name("backward"), PASS_BACKWARD)
        wait = None if steps.accelerator else _GradientWait.of(module, arguments)
        try:
            return inner(*arguments, **keywords)
        finally:
            if wait is not None:
                wait.end()
            lib.pop()

    module.backward = backward


class _GradientWait:
    """DistributedDataParallel ends a backward pass on the CPU with waiting for its buckets, in a callback of the engine that is
    queued with the last gradient. One that is queued with the first gradient runs before it: there the wait begins. No rank
    leaves it before all have come, so it is an all-reduce of all ranks, of which the size is not known. Of other wrappers that
    is not known: there it is a wait only."""

    passes = {}  # of each process group: how many backward passes have reduced gradients
    replica = None  # the DistributedDataParallel whose next backward pass will

    def __init__(self, engine):
        self.engine, self.thread, self.open = engine, threading.get_ident(), False
        self.handle = self.group = None
        replica, _GradientWait.replica = _GradientWait.replica, None
        if replica is not None and replica() is not None:
            self.group = replica().process_group

    @staticmethod
    def of(autograd, arguments):
        """None: gradients are not reduced in this pass."""
        distributed = sys.modules.get("torch.distributed")
        roots = arguments[0] if arguments else None
        root = roots[0] if isinstance(roots, (tuple, list)) and roots else roots
        try:
            if distributed is None or not distributed.is_initialized() or not root.requires_grad:
                return None
            wait = _GradientWait(autograd.Variable._execution_engine)
            wait.handle = root.register_hook(wait.begun)
            return wait
        except Exception:  # another version of PyTorch
            return None

    def begun(self, gradient):
        self.engine.queue_callback(self.computed)

    def computed(self):
        if threading.get_ident() != self.thread:
            return
        self.open = True
        if self.group is None:
            lib.push_role(_name("gradients reduced"), ROLE_COMM_WAIT)
            return
        key = "gradients of %s" % getattr(self.group, "group_name", "")
        sequence = self.passes[key] = self.passes.get(key, -1) + 1
        lib.push_comm(_name("gradients reduced"), 1, UNKNOWN, zlib.crc32(key.encode()), sequence, self.group.size())

    def end(self):
        self.handle.remove()
        if self.open:
            lib.pop()


UNKNOWN = 2**64 - 1  # bytes


def _patch_replica(module):
    """Which backward passes reduce gradients: those after a forward pass outside of no_sync()."""
    import functools

    torch, kind = sys.modules["torch"], module.DistributedDataParallel
    inner = kind.forward

    @functools.wraps(inner)
    def forward(self, *arguments, **keywords):
        if torch.is_grad_enabled() and getattr(self, "require_backward_grad_sync", False):
            _GradientWait.replica = weakref.ref(self)
        return inner(self, *arguments, **keywords)

    kind.forward = forward


# Blocking calls of torch.distributed: what they are (enum tacho_comm_op), which argument is the buffer that nccl-tests counts, and
# whether it is one rank's part of it.
COLLECTIVES = {
    "all_reduce": (1, "tensor", False),
    "all_gather": (2, "tensor", True),
    "all_gather_into_tensor": (2, "output_tensor", False),
    "reduce_scatter": (3, "output", True),
    "reduce_scatter_tensor": (3, "input", False),
    "broadcast": (4, "tensor", False),
    "reduce": (5, "tensor", False),
    "all_to_all_single": (6, "input", False),
    "all_to_all": (6, "input_tensor_list", False),
    "send": (7, "tensor", False),
    "recv": (8, "tensor", False),
    "barrier": (9, None, False),
    "gather": (10, "tensor", True),
    "scatter": (11, "tensor", True),
}


def _patch_distributed(module):
    import functools
    import inspect

    sequences, local = {}, threading.local()

    def describe(function, signature, arguments, keywords):
        """What push_comm takes; None: the call does not block, or an accelerator does it."""
        op, buffer, is_part = COLLECTIVES[function]
        a = signature.bind(*arguments, **keywords).arguments
        if a.get("async_op"):
            return None
        tensors = a.get(buffer) if buffer else ()
        tensors = tensors if isinstance(tensors, (tuple, list)) else (tensors,)
        group = a.get("group") or module._get_default_group()
        if steps.accelerator if not tensors else any(t.device.type != "cpu" for t in tensors):
            return None
        ranks = group.size()
        key = str(getattr(group, "group_name", ranks))
        if function in ("send", "recv"):  # the n-th one from this rank to that one
            peer = a.get("dst") if function == "send" else a.get("src")
            peer = a.get("group_" + ("dst" if function == "send" else "src")) if peer is None else peer
            if peer is None:
                return None
            ends = (module.get_rank(), peer) if function == "send" else (peer, module.get_rank())
            key, ranks = "%s %d>%d" % ((key,) + ends), 2
        bytes_ = sum(t.numel() * t.element_size() for t in tensors) * (ranks if is_part else 1)
        sequence = sequences[key] = sequences.get(key, -1) + 1
        return _name(function), op, bytes_, zlib.crc32(key.encode()), sequence, ranks

    def wrap(function, inner):
        signature = inspect.signature(inner)

        @functools.wraps(inner)
        def outer(*arguments, **keywords):
            if getattr(local, "inside", False):  # a part of the call around it
                return inner(*arguments, **keywords)
            try:
                what = describe(function, signature, arguments, keywords)
            except Exception:  # the call itself says what is wrong with its arguments
                what = None
            local.inside = True
            if what is not None:
                lib.push_comm(*what)
            try:
                return inner(*arguments, **keywords)
            finally:
                if what is not None:
                    lib.pop()
                local.inside = False

        return outer

    for function in COLLECTIVES:
        inner = getattr(module, function, None)
        if inner is not None:
            setattr(module, function, wrap(function, inner))


def _patch_loader(module):
    depth = [0]

    def leave(arguments):
        queue = arguments[0].__dict__.get("_data_queue")
        if queue is not None:
            if not depth[0]:
                depth[0] = lib.counter(b"queue_depth")
            try:
                lib.sample(depth[0], float(queue.qsize()))
            except (NotImplementedError, OSError):
                pass

    _around(module._BaseDataLoaderIter, "__next__", "DataLoader.__next__", ROLE_INPUT_WAIT, steps.begin, leave)


def _patch_fetch(module):
    def collating(fetcher):
        inner, handle, push_role, pop = fetcher.collate_fn, _name("collate"), lib.push_role, lib.pop

        def collate(batch):
            push_role(handle, ROLE_COLLATE)
            try:
                return inner(batch)
            finally:
                pop()

        return collate

    init = module._BaseDatasetFetcher.__init__

    def initialise(self, *arguments, **keywords):
        init(self, *arguments, **keywords)
        if self.auto_collation:
            self.collate_fn = collating(self)

    module._BaseDatasetFetcher.__init__ = initialise
    for fetcher in (module._MapDatasetFetcher, module._IterableDatasetFetcher):
        _around(fetcher, "fetch", "read", ROLE_READ)


def _patch_serialization(module):
    _around(module, "save", "torch.save", ROLE_CHECKPOINT)


def _patch_compilation(module):
    def begin(*arguments):
        modules.compiled = True
        lib.push_role(_name("torch.compile"), ROLE_COMPILE)

    handler = module.callback_handler
    handler.register_start_callback(begin)
    handler.register_end_callback(lambda *arguments: lib.pop())


def _patch_profiler(module):
    """PyTorch's own profiler takes the recording of device work away from tacho while it runs: this tells the agent when."""
    agent = ctypes.PyDLL(os.environ.get("NVTX_INJECTION64_PATH", ""))
    announce = agent.tacho_device_profiler
    announce.restype, announce.argtypes = None, [ctypes.c_int]

    def around(attribute, before, after):
        inner = getattr(module.profile, attribute)

        def outer(self, *arguments, **keywords):
            if before and getattr(self, "enabled", True):
                announce(1)
            try:
                return inner(self, *arguments, **keywords)
            finally:
                if after and getattr(self, "enabled", True):
                    announce(0)

        setattr(module.profile, attribute, outer)

    around("_prepare_trace", True, False)
    around("_start_trace", True, False)
    around("__exit__", False, True)


PATCHES = {
    "torch.optim.optimizer": _patch_optimizer,
    "torch.nn.modules.module": _patch_module,
    "torch.compiler": _patch_compiler,
    "torch.autograd": _patch_autograd,
    "torch.autograd.profiler": _patch_profiler,
    "torch.distributed.distributed_c10d": _patch_distributed,
    "torch.nn.parallel.distributed": _patch_replica,
    "torch.utils.data.dataloader": _patch_loader,
    "torch.utils.data._utils.fetch": _patch_fetch,
    "torch.serialization": _patch_serialization,
    "torch._dynamo.callback": _patch_compilation,
}

# ---- garbage collection ---------------------------------------------------------------------------------------------------------


def _collection(phase, info):
    if phase == "start":
        lib.push_role(_name("gc.collect %d" % info.get("generation", 0)), ROLE_HOST)
    else:
        lib.pop()


# ---- waiting for PyTorch ---------------------------------------------------------------------------------------------------------


class Finder:
    """Finds the modules of PATCHES as Python would, and patches them when they have run."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, name, path=None, target=None):
        if name not in PATCHES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            try:
                if lib is None:
                    _open(self.folder)
                    gc.callbacks.append(_collection)
                    os.register_at_fork(after_in_child=_forked)
                PATCHES[name](module)
            except Exception as e:  # another version of PyTorch: that layer stays silent
                if os.environ.get("TACHO_HOOK") == "debug":
                    raise
                del e

        spec.loader.exec_module = exec_module
        return spec


def _forked():
    """A forked child (a loader worker) runs no steps of its parent; a step of its own begins anew."""
    steps.reset()
    modules.forked()


def prepare(folder):
    sys.meta_path.insert(0, Finder(folder))
