# SPDX-License-Identifier: Apache-2.0
"""A substitute for an accelerator, and programs that use it. The last line of stdout is JSON.

usage: devices.py NAME
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)
truth = {}


def substitute_device():
    """Registers a device of PyTorch whose tensors hold numbers of the CPU, and tell them after 3 ms. Returns its module."""
    from torch.utils import backend_registration

    backend_registration._setup_privateuseone_for_python_backend("late")
    library = torch.library.Library("aten", "IMPL")

    def copied(tensor, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
        if device is not None and torch.device(device).type == "cpu":
            time.sleep(0.003)
            return tensor.held.clone()
        made = torch._C._acc.create_empty_tensor(tensor.shape, tensor.dtype)
        made.held = tensor.clone()
        return made

    def asked(tensor):
        time.sleep(0.003)
        return tensor.held.item()

    library.impl("_to_copy", copied, "PrivateUse1")
    library.impl("_local_scalar_dense", asked, "PrivateUse1")
    kept.append(library)
    return torch.late


kept = []


def leaks(_):
    """Every step keeps 3 MiB on the device, and nothing in the memory of the process."""
    device = substitute_device()
    device.memory_allocated = lambda: truth["held"]
    truth.update(held=64 << 20, kept=3 << 20)
    net = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    torch.ones(1).to("late")
    for _ in range(400):
        functional.cross_entropy(net(torch.randn(128, 64)), torch.randint(0, 10, (128,))).backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.01)
        truth["held"] += truth["kept"]


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else None)
    print(json.dumps(truth))
