# SPDX-License-Identifier: Apache-2.0
"""What a collective of torch.distributed is for, by the code that calls it: a table of modules, else the line of the program."""

import sys

# The beginning of the name of a module -> purpose; or one for each function that contains the word. The first row that fits.
PURPOSES = (
    ("torch.distributed.fsdp", {"all_gather": "parameters", "reduce_scatter": "gradients", "all_reduce": "gradients"}),
    ("torch.nn.parallel", {"broadcast": "buffers", "all_reduce": "gradients", "all_gather": "shapes"}),
    ("torch.nn.utils.clip_grad", {"": "norm of the gradient"}),
    ("torch.nn.modules._functions", {"": "statistics of BatchNorm"}),
    ("torch.distributed.algorithms", {"": "gradients"}),
    ("torch.distributed.optim", {"": "state of the optimizer"}),
    ("torch.distributed.checkpoint", {"": "checkpoint"}),
    ("torch.distributed.pipelining", {"": "pipeline"}),
    ("torch.distributed.tensor", {"": "tensor parallelism"}),
    ("torch.amp", {"": "scale of the gradient"}),
    ("deepspeed.runtime.zero", {"all_gather": "parameters", "reduce_scatter": "gradients", "all_reduce": "gradients"}),
    ("deepspeed.moe", {"all_to_all": "tokens of experts"}),
    ("torchmetrics", {"": "metrics"}),
)
# What lies between a line of the program and the call.
BETWEEN = ("torch", "tacho_hook", "contextlib", "functools", "deepspeed", "accelerate", "transformers", "pytorch_lightning")
BETWEEN += ("lightning", "lightning_fabric", "torchmetrics", "torchtitan")
DEPTH = 40


def purpose_of(function, frame):
    """ "(parameters)", or "train.py:42"; "": not known."""
    for _ in range(DEPTH):
        if frame is None:
            return ""
        module = str(frame.f_globals.get("__name__"))
        for prefix, words in PURPOSES:
            if module.startswith(prefix):
                purpose = next((text for word, text in words.items() if word in function), None)
                if purpose is not None:
                    return "(%s)" % purpose
        if module.split(".")[0] not in BETWEEN:
            return "%s:%d" % (frame.f_code.co_filename.rpartition("/")[2], frame.f_lineno)
        frame = frame.f_back
    return ""


def title(function, group):
    """ "all_reduce train.py:42", "all_gather (parameters) in mesh_dp": what, what for, and in which group, if it is not all ranks."""
    words = [function, purpose_of(function, sys._getframe(1))]
    described = getattr(group, "group_desc", None)
    if isinstance(described, str) and described not in ("", "default_pg", "undefined"):
        words.append("in %s" % described[:40])
    return " ".join(word for word in words if word)
