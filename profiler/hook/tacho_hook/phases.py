# SPDX-License-Identifier: Apache-2.0
"""What is cut out of steps or stops them: checkpoints, compilation, collections, PyTorch's own profiler."""

import functools
import os
import sys

from .flops import counts
from .library import ROLE_CHECKPOINT, ROLE_COMPILE, ROLE_HOST, around, device_profiler, lib, name_of
from .modules import may_compile, modules
from .steps import steps
from .values import put_back, take_out


class Saved:
    """The step in which the last checkpoint was written: an fsync in it belongs to the checkpoint."""

    step = None


def checkpoint_around(owner, attribute, text):
    def leave(arguments):
        Saved.step = steps.index

    if hasattr(owner, attribute):
        around(owner, attribute, text, ROLE_CHECKPOINT, None, leave)


def patch_serialization(module):
    checkpoint_around(module, "save", "torch.save")
    patch_fsync(os)


def patch_safetensors(module):
    for function in ("save_file", "save_model"):
        checkpoint_around(module, function, "safetensors.%s" % function)


def patch_sharded_checkpoint(module):
    for function in ("save", "async_save"):
        checkpoint_around(module, function, "checkpoint.%s" % function)


def patch_fsync(module):
    """os.fsync waits for the disk. In a step that has written a checkpoint it is a part of it; elsewhere it is the host's."""
    inner, handle = module.fsync, name_of("fsync")
    if hasattr(inner, "has_tacho"):  # by the other framework
        return

    @functools.wraps(inner)
    def fsync(descriptor):
        lib.push_role(handle, ROLE_CHECKPOINT if Saved.step == steps.index else ROLE_HOST)
        try:
            return inner(descriptor)
        finally:
            lib.pop()

    fsync.has_tacho = True
    module.fsync = fsync


def patch_compilation(module):
    def begin(*arguments):
        may_compile()
        modules.compiled = counts.off = True
        take_out()
        lib.push_role(name_of("torch.compile"), ROLE_COMPILE)
        try:
            Cache.begin()
        except Exception:  # another version of PyTorch
            pass

    def end(*arguments):
        try:
            for reason in new_graph_breaks():
                mark(reason)
            said = Cache.end()
            if said:
                mark("compile cache " + said)
        except Exception:  # another version of PyTorch
            pass
        lib.pop()
        put_back()

    def register():
        handler.register_start_callback(begin)
        handler.register_end_callback(end)

    def clear():
        """torch._dynamo.reset() forgets all callbacks, also where it raises after that because something is being compiled."""
        try:
            inner()
        finally:
            register()

    handler = module.callback_handler
    inner = getattr(handler, "clear", None)
    if inner is not None:
        handler.clear = clear
    register()
    modules.is_told = True


def patch_export(module):
    """torch.export traces without Dynamo too: it runs the program in this context."""
    inner = getattr(module, "_compiling_state_context", None)
    if inner is None:  # another version
        may_compile()
        return

    @functools.wraps(inner)
    def outer(*arguments, **keywords):
        may_compile()
        return inner(*arguments, **keywords)

    module._compiling_state_context = outer


def place(file, line):
    return "%s:%d" % (os.path.basename(file), line)


def mark(text):
    """A range without length: something that happened, by its name."""
    lib.push_role(name_of(text[:200]), ROLE_COMPILE)
    lib.pop()


class Cache:
    """What the cache on disk of torch.compile keeps of a compilation, by PyTorch's own counters. Inductor's part decides: AOTAutograd may
    refuse a graph whose code Inductor keeps."""

    why = None  # reason of the last refusal
    before = None  # Inductor's counters when the compilation began; None: not known

    @staticmethod
    def counters():
        all_counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None) or {}
        return dict(all_counters.get("inductor", {}))

    @classmethod
    def begin(cls):
        cls.why = cls.before = None
        cls.before = cls.counters()

    @classmethod
    def end(cls):
        """Why the next run will compile again what has just been compiled; None if it will not, or if none of Inductor's counters moved."""
        if cls.before is None:
            return None
        grown = {name: count - cls.before.get(name, 0) for name, count in cls.counters().items()}
        config = sys.modules.get("torch._inductor.config")
        if grown.get("fxgraph_cache_bypass", 0) > 0:
            return "refuses: %s" % next(iter((cls.why or "").strip().splitlines()), "unknown reason")
        if grown.get("fxgraph_cache_pickle_error", 0) > 0:
            return "refuses: the compiled graph cannot be pickled"
        was_asked = grown.get("fxgraph_cache_hit", 0) > 0 or grown.get("fxgraph_cache_miss", 0) > 0  # if only a remote one
        if was_asked or not any(count > 0 for count in grown.values()):
            return None
        for switch, off in (("force_disable_caches", True), ("fx_graph_cache", False)):
            if getattr(config, switch, not off) == off:
                return "is off: %s" % switch
        return None


def patch_cache(module):
    """The reason why Inductor's cache refuses a graph is in the exception that says so."""
    refusal = vars(module).get("BypassFxGraphCache")
    if refusal is None:
        return
    inner = refusal.__init__

    def init(self, *arguments, **keywords):
        inner(self, *arguments, **keywords)
        try:
            Cache.why = str(self)
        except Exception:  # a text that cannot be made
            pass

    refusal.__init__ = init


def new_graph_breaks(seen=[0]):
    """ "graph break train.py:31: why", of those since the last call. PyTorch clears its list when it is reset."""
    reasons = getattr(sys.modules.get("torch._dynamo.utils"), "graph_break_reasons", ())
    new, seen[0] = reasons[seen[0] if seen[0] <= len(reasons) else 0 :], len(reasons)
    for reason in new:
        stack = getattr(reason, "user_stack", None)
        where = place(stack[-1].filename, stack[-1].lineno) if stack else "?"
        yield "graph break %s: %s" % (where, str(reason.reason).strip().splitlines()[0])


def patch_recompilation(module):
    """Why a function that was compiled before is compiled again: the first guard that failed."""
    inner = module.get_and_maybe_log_recompilation_reasons

    @functools.wraps(inner)
    def outer(entries, frame, *arguments, **keywords):
        reasons = inner(entries, frame, *arguments, **keywords)
        try:
            why = str(reasons[0]).strip().splitlines()[0] if reasons else "unknown reason"
            code = frame.f_code
            mark("recompile %s (%s): %s" % (code.co_name, place(code.co_filename, code.co_firstlineno), why))
        except Exception:  # another version of PyTorch
            pass
        return reasons

    module.get_and_maybe_log_recompilation_reasons = outer
    if hasattr(module, "exceeds_recompile_limit"):
        name_the_limit(module)


def name_the_limit(module):
    """A function that was compiled too often runs as if it had not been compiled, for all new shapes from then on."""
    inner = module.exceeds_recompile_limit

    @functools.wraps(inner)
    def outer(*arguments, **keywords):
        result = inner(*arguments, **keywords)
        try:
            exceeded, limit = result
            code = sys._getframe(1).f_locals.get("code")
            if exceeded and code is not None:
                where, most = place(code.co_filename, code.co_firstlineno), getattr(module.config, limit, "?")
                mark("graph break %s: %s of %s reached: new shapes run without a graph" % (where, limit, most))
        except Exception:  # another version of PyTorch
            pass
        return result

    module.exceeds_recompile_limit = outer


def patch_profiler(module):
    """PyTorch's own profiler takes the recording of device work away from tacho while it runs: this tells the agent when."""
    announce = device_profiler()

    def announced(attribute, before, after):
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

    announced("_prepare_trace", True, False)
    announced("_start_trace", True, False)
    announced("__exit__", False, True)


collections = {}  # generation -> handle of its name


def collection(phase, info):
    if phase != "start":
        lib.pop()
        return
    generation = info["generation"]
    handle = collections.get(generation)
    if handle is None:
        handle = collections[generation] = name_of("gc.collect %d" % generation)
    lib.push_role(handle, ROLE_HOST)
