# SPDX-License-Identifier: Apache-2.0
"""FLOPs of forward and backward passes on the CPU, from the shapes of the operators that ran.

One pass for each set of input shapes runs under a dispatch mode that adds the operators up; later passes with the same shapes
carry the sums on their ranges and cost a look-up. Three conventions, as in struct tacho_work of tacho_nvtx.h:

flops        what torch.utils.flop_counter counts: GEMMs, convolutions, fused attention with its full mask, and its scores once
             more in backward. Recomputation (checkpointing) is executed and counted.
model_flops  attention exact for a causal mask (T (T + 1) / 2 pairs), nothing that is computed again.
palm_flops   the same with full attention.

What is left out is listed: element-wise work, norms, softmax, look-ups and the optimizer's own updates have no formula there either.
An operator outside of every module counts only in the backward pass. Nothing is counted on an accelerator or where something
was compiled, and after LIMIT sets of shapes no further one is. A pass that is counted takes about twice as long: beyond FREE sets only as
many are counted as take SHARE of the time. Batches of ever new lengths would be slowed down all along.
"""

import sys
import threading
import time
import weakref

from .growth import nodes
from .library import PASS_BACKWARD, PASS_FORWARD, lib, name_of, sample
from .steps import steps

LIMIT, FREE, SHARE = 32, 4, 0.01
_frame, _reference = sys._getframe, weakref.ref
# enum tacho_dtype
DTYPES = {"torch.float32": 1, "torch.bfloat16": 3, "torch.float16": 4, "torch.float64": 6, "torch.int8": 7}


def _product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result


def _gemm(first, second):
    """Of matrices, or batches of them: 2 * batch * m * k * n, once in each convention."""
    flops = 2 * _product(first.shape) * second.shape[-1]
    return flops, flops, flops


def _convolution(arguments, result):
    """Each element of the output, or of the input where it is transposed, meets each weight of its group."""
    image, weight, transposed = arguments[0], arguments[1], arguments[6]
    places = (image if transposed else result).shape
    flops = 2 * places[0] * _product(places[2:]) * _product(weight.shape)
    return flops, flops, flops


def _convolution_backward(arguments, result):
    gradient, image, weight, transposed, wanted = (arguments[i] for i in (0, 1, 2, 7, 10))
    places = (image if transposed else gradient).shape
    flops = 2 * places[0] * _product(places[2:]) * _product(weight.shape) * (bool(wanted[0]) + bool(wanted[1]))
    return flops, flops, flops


def _attention(query, key, value, causal):
    """FLOPs with the width of keys, and with the width of values, over all pairs; the share of them that a mask leaves."""
    batch, heads, rows, width = query.shape
    columns = key.shape[2]
    pairs = batch * heads * rows * columns
    left = (rows + 1) / (2 * rows) if causal and rows == columns else 1
    return 2 * pairs * width, 2 * pairs * value.shape[3], left


def _attention_forward(arguments, result):
    causal = arguments[4] if len(arguments) > 4 else False
    scores, values, left = _attention(arguments[0], arguments[1], arguments[2], causal)
    return scores + values, round((scores + values) * left), scores + values


def _attention_backward(arguments, result):
    scores, values, left = _attention(arguments[1], arguments[2], arguments[3], arguments[7])
    return 3 * scores + 2 * values, round(2 * (scores + values) * left), 2 * (scores + values)


FORMULAS = {
    "aten::mm": lambda a, r: _gemm(a[0], a[1]),
    "aten::addmm": lambda a, r: _gemm(a[1], a[2]),
    "aten::bmm": lambda a, r: _gemm(a[0], a[1]),
    "aten::baddbmm": lambda a, r: _gemm(a[1], a[2]),
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention_forward,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
}


def _mode(count):
    """A dispatch mode that calls count(operator, arguments, result); None: this PyTorch has no such modes."""
    dispatch = sys.modules.get("torch.utils._python_dispatch")
    if dispatch is None:
        return None

    class Mode(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            result = function(*arguments, **(keywords or {}))
            try:
                count(function, arguments, result)
            except Exception:  # another version's arguments: the sum is not known
                counts.failed = True
            return result

    return Mode()


def _shapes(value):
    """Of the tensors of an argument: what the FLOPs of a pass depend on."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return shape, value.dtype
    if isinstance(value, dict):
        return tuple((key, _shapes(item)) for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return tuple(_shapes(item) for item in value)
    return value if isinstance(value, (int, float, str, bool, type(None))) else None


def keywords_of_call(depth):
    """Those of the call of the module, `depth` frames up, whose hook calls this: PyTorch hands them to no global hook."""
    values = _frame(depth).f_locals
    return values["kwargs"] if "kwargs" in values else values.get("keywords", {})


def nodes_behind(arguments):
    """Nodes of autograd's graph behind the tensors that a backward pass is given; 0: not known."""
    roots = arguments[0] if arguments else ()
    functions = [getattr(root, "grad_fn", None) for root in (roots if isinstance(roots, (tuple, list)) else (roots,))]
    try:
        return nodes([function for function in functions if function is not None])
    except Exception:  # another version of PyTorch
        return 0


class Pass:
    """A forward pass of a module with input of some shapes. It stands for both in keys, because its hash is that of an object: cheap."""

    __slots__ = ("cost", "batch", "operators")  # of lib.cost, None: it has none; samples and tokens, None: not looked at yet; calls

    def __init__(self):
        self.cost, self.batch, self.operators = None, None, 0


class Counts:
    def __init__(self):
        self.off = self.failed = False
        self.known = {}  # (weak reference to the module, shapes) -> Pass
        self.of_backward = {}  # passes since the last backward -> cost
        self.pending = ()
        self.open = None  # the mode, while it counts
        self.thread = None  # the one that it counts on
        self.sums = None
        self.operators = 0  # of the pass that is counted
        self.counted = None  # that pass, of a forward one
        self.nodes = 0  # of autograd's graph, which a backward pass calls one by one
        self.others = set()  # operators without a formula that ran in a pass that was counted
        self.listed = set()  # their names that are recorded
        self.since, self.spent = None, 0.0  # when the first pass was counted; seconds of passes that were counted

    def _begin(self, key, is_backward):
        """Counts the pass that begins. False: it cannot be, or no more are."""
        if self.off or self.open is not None or len(self.known) + len(self.of_backward) >= 2 * LIMIT:
            return False
        now = time.perf_counter()
        if self.since is None:
            self.since = now
        if not is_backward and len(self.known) >= FREE and self.spent > SHARE * (now - self.since):
            return False
        mode = _mode(self._add)
        if mode is None:
            self.off = True
            return False
        self.failed, self.sums, self.key, self.operators = False, [0, 0, 0, {}], key, 0
        self.is_backward = is_backward
        self.begun = now
        mode.__enter__()
        self.open, self.thread = mode, threading.get_ident()
        return True

    def _add(self, function, arguments, result):
        self.operators += 1
        formula = FORMULAS.get(function._schema.name)
        if formula is None:
            self.others.add(function)
            return
        flops, model, palm = formula(arguments, result)
        again = self.is_backward and sys.modules["torch"].is_grad_enabled()  # computed once more: no part of the model's
        sums = self.sums
        sums[0] += flops
        sums[1] += 0 if again else model
        sums[2] += 0 if again else palm
        dtype = str(arguments[0].dtype)
        sums[3][dtype] = sums[3].get(dtype, 0) + flops

    def _end(self, which):
        """Of the pass that was counted: its cost, None where it has none."""
        mode, self.open = self.open, None
        mode.__exit__(None, None, None)
        self.spent += time.perf_counter() - self.begun
        flops, model, palm, dtypes = self.sums
        dtype = DTYPES.get(max(dtypes, key=dtypes.get), 0) if dtypes else 0
        cost = None if self.failed or not flops or not dtype else lib.cost(flops, model, palm, dtype, which)
        self._list_others()
        if which == PASS_BACKWARD:
            sample("host.operators_backward", self.operators)
        if cost:  # the range of the pass that was counted began without its cost: another one without length carries it
            lib.push_cost(name_of("FLOPs counted"), cost)
            lib.pop()
        return cost

    def _list_others(self):
        """Names operators that no convention counts, each once, as ranges without length. What only looks at a tensor in another way,
        or makes one out of nothing, computes nothing."""
        for function in self.others:
            schema = function._schema
            views = any(a.alias_info is not None and not a.alias_info.is_write for a in schema.arguments)
            if schema.name not in self.listed and not views and any("Tensor" in str(a.type) for a in schema.arguments):
                self.listed.add(schema.name)
                lib.push(name_of("uncounted %s" % schema.name))
                lib.pop()
        self.others.clear()

    def forward(self, module, arguments):
        """What is known of this pass, or None. If it is the first one of its kind, it may be counted."""
        if self.off or not steps.index or self.open is not None:
            return None
        try:
            values = _frame(2).f_locals  # of the call of the module: as in keywords_of_call, which would be one more call
            keywords = values["kwargs"] if "kwargs" in values else values.get("keywords")
            shape = getattr(arguments[0], "shape", None) if len(arguments) == 1 else None
            shapes = tuple(map(_shapes, arguments)) if shape is None else (shape, arguments[0].dtype)
            key = (_reference(module), shapes, _shapes(keywords) if keywords else ())
            known = self.known.get(key)
        except Exception:  # arguments that have no hash
            return None
        if known is None and self._begin(key, False):
            known = self.counted = Pass()
        if len(self.pending) >= 64:  # passes without a backward
            self.pending = ()
        self.pending += (known or key,)
        return known

    def forward_done(self):
        if not self.is_backward and self.thread == threading.get_ident():
            self.counted.cost, self.counted.operators = self._end(PASS_FORWARD), self.operators
            self.known[self.key] = self.counted

    def backward(self, arguments):
        """A pass that is given these arguments has no cost in of_backward: it may be counted."""
        passes, self.pending = self.pending, ()
        if self.off or not passes or passes in self.of_backward:
            return
        all_counted = all(isinstance(known, Pass) for known in passes)
        if not all_counted and len(self.of_backward) >= FREE:
            return
        if self._begin(passes, True):
            if all_counted:  # the operators of each are known
                sample("host.operators_forward", sum(known.operators for known in passes))
            self.nodes = nodes_behind(arguments)

    def backward_done(self):
        if self.is_backward and self.thread == threading.get_ident():
            self.of_backward[self.key] = self._end(PASS_BACKWARD)
            if self.nodes:
                sample("host.nodes_backward", self.nodes)


counts = Counts()
