# SPDX-License-Identifier: Apache-2.0
from torch.autograd import profiler

__all__ = ["backward", "profiler"]


def backward(tensors):
    """A graph is a function here, or None: it is called, as autograd calls the functions of its nodes."""
    return None if tensors is None else tensors()
