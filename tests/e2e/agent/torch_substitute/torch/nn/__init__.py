# SPDX-License-Identifier: Apache-2.0
from torch.nn.modules.module import Module

__all__ = ["Module"]
