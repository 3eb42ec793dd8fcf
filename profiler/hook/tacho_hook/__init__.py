# SPDX-License-Identifier: Apache-2.0
"""What is recorded of an unmodified program of PyTorch or JAX: steps, modules, loader, garbage collection, phases.

Nothing of a framework is imported from here: a finder waits for the modules named in PATCHES and patches each one right after the
program itself has imported it. The ranges are NVTX, made by libtacho_hook.so in the folder above; the domain is `torch` or `jax`. The
files of this package are imported with the first patched module: a program without these frameworks reads only this one. What follows is
about PyTorch; jitted.py says what is recorded of JAX.

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

import gc
import importlib
import os
import sys
from importlib.machinery import PathFinder

from .frameworks import FRAMEWORKS, PACKAGES

# module -> (file of this package, its function that is called with the module right after the import), once or more
PATCHES = {
    "torch.optim.optimizer": ("optimizers", "patch_optimizer", "rules", "patch_scripts", "debugging", "patch_switches", "threads", "patch_threads"),
    "torch.optim.lr_scheduler": ("optimizers", "patch_schedulers"),
    "torch.nn.utils.clip_grad": ("optimizers", "patch_clipping"),
    "torch.nn.utils": ("optimizers", "patch_norms"),
    "torch.amp.grad_scaler": ("optimizers", "patch_scaler"),
    "torch.cuda.amp.grad_scaler": ("optimizers", "patch_scaler"),  # its place before PyTorch 2.3
    "torch._tensor": ("values", "patch_tensor"),
    "torch.nn.functional": ("functions", "patch_losses"),
    "torch.nn.modules.module": ("modules", "patch_module"),
    "torch.autograd": ("distributed", "patch_autograd"),
    "torch.autograd.profiler": ("phases", "patch_profiler", "functions", "patch_record_function"),
    "torch.distributed.distributed_c10d": ("distributed", "patch_distributed"),
    "torch.nn.parallel.distributed": ("distributed", "patch_replica"),
    "torch.utils.data.dataloader": ("loading", "patch_loader"),
    "torch.utils.data._utils.fetch": ("loading", "patch_fetch"),
    "torch.serialization": ("phases", "patch_serialization"),
    "torch.distributed.checkpoint.state_dict_saver": ("phases", "patch_sharded_checkpoint"),
    "safetensors.torch": ("phases", "patch_safetensors"),
    "safetensors.numpy": ("phases", "patch_safetensors"),
    "torch._dynamo": ("values", "put_back", "modules", "patch_compiler"),
    "torch._export.utils": ("phases", "patch_export"),
    "torch._dynamo.callback": ("phases", "patch_compilation"),
    "torch._dynamo.convert_frame": ("phases", "patch_recompilation"),
    "torch._inductor.codecache": ("phases", "patch_cache"),
    "jax": ("jitted", "patch_jax"),
    "jax._src.profiler": ("jitted", "patch_jax_profiler"),
    "jax._src.array": ("jitted", "patch_array"),
    "jax._src.dispatch": ("jitted", "patch_dispatch"),
    **{module: ("rules", "patch_framework") for module in FRAMEWORKS},
    **{module: ("rules", "patch_package") for module in PACKAGES},
}

# module -> what is called before it runs, in the same way
BEFORE = {"torch._dynamo": ("values", "take_out")}

_folder = []  # of the library
_marks = []  # what records the marks of the program, once it has made one
_waiting = []  # packages beside a framework that were imported before it: (rows of PATCHES, module)


def _begin(folder, domain="torch"):
    """Opens the library with the first patched module. The NVTX domain is that of the framework that comes first."""
    from . import flops, growth, library, modules, phases, steps, threads

    if library.lib.is_open:
        return
    library.open_library(folder, domain)
    while _waiting:
        _call(*_waiting.pop())
    gc.callbacks.append(phases.collection)
    steps.steps.looks += growth.count_device_memory, growth.growth.look

    def forked():
        """A forked child (a loader worker) runs no steps of its parent; a step of its own begins anew."""
        steps.steps.reset()
        library.lib.on_device(0)
        modules.modules.forked()
        growth.growth.reset()
        threads.said.clear()
        flops.counts.off, flops.counts.pending = True, ()

    os.register_at_fork(after_in_child=forked)


def _is_open():
    return getattr(getattr(sys.modules.get(__name__ + ".library"), "lib", None), "is_open", False)


def _call(rows, module):
    """Calls the functions of a row; of another version of a framework that layer stays silent."""
    for file, function in zip(*[iter(rows)] * 2):
        try:
            getattr(importlib.import_module("." + file, __name__), function)(module)
        except Exception as e:
            if os.environ.get("TACHO_HOOK") == "debug":
                raise
            del e


class Finder:
    """Finds the modules of PATCHES as Python would, and patches them when they have run."""

    def __init__(self, folder):
        self.folder = folder
        self.asked = set()  # names for which the other finders are asked

    def find_spec(self, name, path=None, target=None):
        if name not in PATCHES:
            return None
        spec = PathFinder.find_spec(name, path, target) or self.found_by_others(name, path, target)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        run = spec.loader.exec_module

        def call(rows, module):
            if name in PACKAGES and not _is_open():  # a program without a framework is left alone
                _waiting.append((rows, module))
                return
            try:
                _begin(self.folder, name.split(".")[0] if name.startswith("jax") else "torch")
            except Exception as e:  # the library cannot be opened
                if os.environ.get("TACHO_HOOK") == "debug":
                    raise
                del e
                return
            _call(rows, module)

        def exec_module(module):
            if name in BEFORE:
                call(BEFORE[name], module)
            run(module)
            call(PATCHES[name], module)

        spec.loader.exec_module = exec_module
        return spec

    def found_by_others(self, name, path, target):
        """A package that is in no folder of the path, for instance one installed as editable. A finder may ask all finders itself."""
        if name in self.asked:
            return None
        self.asked.add(name)
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None) if finder not in (self, PathFinder) else None
                spec = find(name, path, target) if find is not None else None
                if spec is not None:
                    return spec
        finally:
            self.asked.discard(name)
        return None


def prepare(folder):
    if sys.version_info < (3, 7):  # no clock of a thread, no word of a fork: such a program is left alone
        return
    _folder.append(folder)
    sys.meta_path.insert(0, Finder(folder))


def recorder():
    """For the module `tacho` of the program: what records its marks; None: the library cannot be opened."""
    if _marks:
        return _marks[0]
    if not _folder:
        return None
    try:
        _begin(_folder[0])
        _marks.append(importlib.import_module(".marks", __name__))
        return _marks[0]
    except Exception:
        if os.environ.get("TACHO_HOOK") == "debug":
            raise
        return None
