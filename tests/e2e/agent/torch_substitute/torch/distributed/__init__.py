# SPDX-License-Identifier: Apache-2.0
from .distributed_c10d import Tensor, all_gather, all_reduce, barrier, is_initialized, recv, reduce_scatter_tensor, send

__all__ = ["Tensor", "all_gather", "all_reduce", "barrier", "is_initialized", "recv", "reduce_scatter_tensor", "send"]
