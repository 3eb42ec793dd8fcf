# SPDX-License-Identifier: Apache-2.0
"""Backward passes, and the collectives of torch.distributed on the CPU."""

import functools
import inspect
import sys
import threading
import weakref
import zlib

from .flops import counts
from .library import PASS_BACKWARD, ROLE_COMM_WAIT, ROLE_HOST, lib, name_of, sample
from .modules import modules
from .purposes import title
from .steps import steps

UNKNOWN = 2**64 - 1  # bytes
TIMED, TIMED_AGAIN = 12, 100  # passes that DistributedDataParallel measures, roughly


def gradients_around(inner, handle):
    """torch.autograd.grad: the backward pass of a penalty, of an equation, or of an update that the program makes itself. Dynamo finds
    PyTorch's own function in the wrapper."""
    push_work, pop = lib.push_work, lib.pop

    @functools.wraps(inner)
    def grad(*arguments, **keywords):
        if modules.compiling():
            return inner(*arguments, **keywords)
        push_work(handle, PASS_BACKWARD)
        try:
            return inner(*arguments, **keywords)
        finally:
            pop()

    return grad


def patch_autograd(module):
    if hasattr(module, "grad"):
        module.grad = gradients_around(module.grad, name_of("autograd.grad"))
    inner, handle = module.backward, name_of("backward")
    push_work, push_cost, pop, thread = lib.push_work, lib.push_cost, lib.pop, threading.get_ident
    known_costs, in_backward = counts.of_backward, steps.in_backward

    @functools.wraps(inner)
    def backward(*arguments, **keywords):
        wait, own = None, thread()
        is_part = own in in_backward  # of the pass around it, which has its cost: reentrant checkpointing
        if is_part or steps.accelerator:
            push_work(handle, PASS_BACKWARD)
        else:
            cost = known_costs.get(counts.pending)
            if cost:  # as in most steps
                counts.pending = ()
                push_cost(handle, cost)
            else:
                counts.backward(arguments)
                push_work(handle, PASS_BACKWARD)
            groups = _GradientWait.groups
            if groups or groups is None:
                wait = _GradientWait.of(module, arguments)
        try:
            in_backward.add(own)
            return inner(*arguments, **keywords)
        finally:
            if not is_part:
                in_backward.discard(own)
            if wait is not None:
                wait.end()
            pop()
            if not is_part:
                steps.backward()
                if counts.open:
                    counts.backward_done()

    module.backward = backward


class _GradientWait:
    """DistributedDataParallel ends a backward pass on the CPU with waiting for its buckets, in a callback of the engine that is
    queued with the last gradient. One that is queued with the first gradient runs before it: there the wait begins. No rank
    leaves it before all have come, so it is an all-reduce of all ranks, of which the size is not known. Of other wrappers that
    is not known: there it is a wait only."""

    passes = {}  # of each process group: how many backward passes have reduced gradients
    reduced = weakref.WeakKeyDictionary()  # of each DistributedDataParallel: the step in which it reduced its gradients last
    replica = None  # the DistributedDataParallel whose next backward pass will
    groups = None  # PyTorch's own table of process groups: while it is empty nothing is reduced; None: this version shows none

    def __init__(self, engine):
        self.engine, self.thread, self.open = engine, threading.get_ident(), False
        self.handle = self.group = None
        self.name = "gradients reduced"
        replica, _GradientWait.replica = _GradientWait.replica, None
        if replica is not None and replica() is not None:
            self.group = replica().process_group
            if self.reduced.get(replica()) == steps.index:
                self.name = "gradients reduced again"
            self.reduced[replica()] = steps.index

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
            lib.push_role(name_of(self.name), ROLE_COMM_WAIT)
            return
        key = "gradients of %s" % getattr(self.group, "group_name", "")
        sequence = self.passes[key] = self.passes.get(key, -1) + 1
        lib.push_comm(name_of(self.name), 1, UNKNOWN, zlib.crc32(key.encode()), sequence, self.group.size())

    def end(self):
        self.handle.remove()
        if self.open:
            lib.pop()


class _Timers:
    """What DistributedDataParallel knows of its buckets and measures itself in its first ten passes and in each hundredth: the time
    from its first reduction to its last one, and how much of it is beside the backward pass. Only of the first one that is met."""

    TIMES = {"communication_ms": "backward_comm_time", "overlapped_ms": "backward_compute_comm_overlap_time"}  # ns

    def __init__(self):
        self.replica = self.iteration = None

    def look(self, replica):
        """After a forward pass, which has read the timers of the backward pass before it."""
        if self.replica is None:
            self.replica = weakref.ref(replica)
        try:
            data = replica._get_ddp_logging_data() if self.replica() is replica else {}
            sizes = [int(size) for size in str(data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes") or "").split(",") if size.strip()]
            if not sizes or data.get("iteration") == self.iteration or not data.get("backward_comm_time"):
                return
            self.iteration = data.get("iteration")
            for name, time in self.TIMES.items():
                sample("ddp." + name, data.get(time, 0) / 1e6)
            for name, value in (("buckets", len(sizes)), ("largest_bytes", max(sizes)), ("gradient_bytes", sum(sizes))):
                sample("ddp." + name, value)
        except Exception:  # another version of PyTorch
            self.replica = lambda: None


timers = _Timers()


def patch_replica(module):
    """Which backward passes reduce gradients: those after a forward pass outside of no_sync()."""
    torch, kind = sys.modules["torch"], module.DistributedDataParallel
    inner = kind.forward

    @functools.wraps(inner)
    def forward(self, *arguments, **keywords):
        if torch.is_grad_enabled() and getattr(self, "require_backward_grad_sync", False):
            _GradientWait.replica = weakref.ref(self)
        result = inner(self, *arguments, **keywords)
        if not steps.accelerator and (steps.index <= TIMED or steps.index % TIMED_AGAIN < 2):
            timers.look(self)
        return result

    kind.forward = forward
    for method, text, matters in (
        ("_sync_buffers", "buffers broadcast", lambda self: True),
        ("_post_forward", "unused parameters looked for", lambda self: self.find_unused_parameters and not self.static_graph),
    ):
        if hasattr(kind, method):
            _range_around(kind, method, text, matters)


def _range_around(owner, method, text, matters):
    """A range around a method on the calls for which it costs something: on the CPU the thread waits for it."""
    inner, handle = getattr(owner, method), name_of(text)

    @functools.wraps(inner)
    def outer(self, *arguments, **keywords):
        if steps.accelerator or not matters(self):
            return inner(self, *arguments, **keywords)
        lib.push_role(handle, ROLE_COMM_WAIT if method == "_sync_buffers" else ROLE_HOST)
        try:
            return inner(self, *arguments, **keywords)
        finally:
            lib.pop()

    setattr(owner, method, outer)


# Blocking calls of torch.distributed: what they are (enum tacho_comm_op), which argument is the buffer that nccl-tests counts, and
# whether it is one rank's part of it.
COLLECTIVES = {
    "all_reduce": (1, "tensor", False),
    "all_gather": (2, "tensor", True),
    "all_gather_into_tensor": (2, "output_tensor", False),
    "all_gather_single": (2, "output_tensor", False),  # since PyTorch 2.15 the three calls that end so do the work
    "reduce_scatter": (3, "output", True),
    "reduce_scatter_tensor": (3, "input", False),
    "reduce_scatter_single": (3, "input", False),
    "broadcast": (4, "tensor", False),
    "reduce": (5, "tensor", False),
    "all_to_all_single": (6, "input", False),
    "all_to_all": (6, "input_tensor_list", False),
    "send": (7, "tensor", False),
    "recv": (8, "tensor", False),
    "barrier": (9, None, False),
    "gather": (10, "tensor", True),
    "gather_single": (10, "tensor", True),
    "scatter": (11, "tensor", True),
}


def say_rank(module, inner):
    """The rank of a process that the program has started itself (multiprocessing.spawn) is in no variable: it is a counter."""

    @functools.wraps(inner)
    def init_process_group(*arguments, **keywords):
        inner(*arguments, **keywords)
        try:
            sample("distributed.rank", module.get_rank())
        except Exception:  # another version of PyTorch
            pass

    module.init_process_group = init_process_group


PENDING = 256  # calls that did not block and were not waited for yet, whose names are kept


def patch_distributed(module):
    sequences, local = {}, threading.local()
    pending = {}  # id of what a call has returned -> (weak reference to it, handle of the name of the wait for it)
    groups = getattr(module, "_pg_map", None)
    _GradientWait.groups = groups if isinstance(groups, dict) else None

    def describe(function, signature, arguments, keywords):
        """What push_comm takes, or the name of the call if it does not block; None: an accelerator does it."""
        op, buffer, is_part = COLLECTIVES[function]
        a = signature.bind(*arguments, **keywords).arguments
        tensors = a.get(buffer) if buffer else ()
        tensors = tensors if isinstance(tensors, (tuple, list)) else (tensors,)
        group = a.get("group") or module._get_default_group()
        if steps.accelerator if not tensors else any(t.device.type != "cpu" for t in tensors):
            return None
        if a.get("async_op"):
            return title(function, group)
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
        return name_of(title(function, group)), op, bytes_, zlib.crc32(key.encode()), sequence, ranks

    def keep(work, name):
        if len(pending) >= PENDING:
            pending.clear()
        try:
            pending[id(work)] = weakref.ref(work), name_of(name)
        except TypeError:  # another version of PyTorch
            pass

    def name_of_wait(work):
        reference, handle = pending.pop(id(work), (None, waits))
        return handle if reference is None or reference() is work else waits

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
            local.inside, blocks = True, isinstance(what, tuple)
            if blocks:
                lib.push_comm(*what)
            try:
                result = inner(*arguments, **keywords)
                if not blocks and what and result is not None:
                    keep(result, "Work.wait %s" % what)
                return result
            finally:
                if blocks:
                    lib.pop()
                local.inside = False

        return outer

    def wait_for(inner):
        """Waiting for a call that did not block: for gloo the thread waits here; a device would only be told to."""

        @functools.wraps(inner, assigned=("__name__", "__doc__"))
        def wait(self, *arguments, **keywords):
            if steps.accelerator or getattr(local, "inside", False):
                return inner(self, *arguments, **keywords)
            lib.push_role(name_of_wait(self), ROLE_COMM_WAIT)
            try:
                return inner(self, *arguments, **keywords)
            finally:
                lib.pop()

        return wait

    if hasattr(module, "init_process_group"):
        say_rank(module, module.init_process_group)
    waits, kind = name_of("Work.wait"), getattr(module, "Work", None)
    if kind is not None:
        kind.wait = wait_for(kind.wait)
    for function in COLLECTIVES:
        inner = getattr(module, function, None)
        if inner is not None:
            setattr(module, function, wrap(function, inner))
