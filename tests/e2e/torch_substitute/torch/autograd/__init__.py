# SPDX-License-Identifier: Apache-2.0
from torch.autograd import profiler


def backward(tensors):
    return None
