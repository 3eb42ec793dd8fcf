# SPDX-License-Identifier: Apache-2.0
"""A number on a device that takes a while to tell it."""
import time


class Tensor:
    def __init__(self, value, device):
        self.value, self.is_cpu = value, device == "cpu"

    def item(self):
        if not self.is_cpu:
            time.sleep(0.003)
        return self.value

    def tolist(self):
        return [self.item()]

    def cpu(self):
        return Tensor(self.item(), "cpu")

    def to(self, device, dtype=None, non_blocking=False):
        return Tensor(self.value, device) if non_blocking or device != "cpu" else self.cpu()

    def __float__(self):
        return float(self.item())

    def __bool__(self):
        return bool(self.item())

    def __repr__(self):
        return "tensor(%s)" % self.item()

    def __format__(self, how):
        return format(self.item(), how)
