# SPDX-License-Identifier: Apache-2.0
"""A substitute with the hook points of PyTorch that tacho's hook uses, and no arithmetic."""
_grad = [True]


def is_grad_enabled():
    return _grad[0]


class no_grad:
    def __enter__(self):
        _grad[0] = False

    def __exit__(self, *a):
        _grad[0] = True


from torch import autograd, compiler, cuda, nn, optim
from torch._tensor import Tensor
from torch.serialization import save

__all__ = ["Tensor", "autograd", "compiler", "cuda", "is_grad_enabled", "nn", "no_grad", "optim", "save"]
