# SPDX-License-Identifier: Apache-2.0
"""Calls of collectives with PyTorch's arguments; nothing is sent."""
import functools

__all__ = ["Tensor", "all_reduce", "all_gather", "reduce_scatter_tensor", "barrier", "send", "recv", "is_initialized"]


class Tensor:
    def __init__(self, n, device="cpu"):
        self.n = n
        self.device = type("device", (), {"type": device})

    def numel(self):
        return self.n

    def element_size(self):
        return 4


class Group:
    group_name = "0"

    def size(self):
        return 4


def _get_default_group():
    return Group()


def get_rank():
    return 1


def is_initialized():
    return True


def _logged(function):
    @functools.wraps(function)
    def outer(*arguments, **keywords):
        return function(*arguments, **keywords)

    return outer


@_logged
def all_reduce(tensor, op=None, group=None, async_op=False):
    barrier()  # an inner call is part of the outer one
    if tensor.n == 13:
        raise ValueError(tensor.n)


@_logged
def all_gather(tensor_list, tensor, group=None, async_op=False):
    pass


@_logged
def reduce_scatter_tensor(output, input, op=None, group=None, async_op=False):
    pass


def barrier(group=None, async_op=False, device_ids=None):
    pass


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    pass


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    pass
