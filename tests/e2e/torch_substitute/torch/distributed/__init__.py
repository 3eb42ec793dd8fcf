# SPDX-License-Identifier: Apache-2.0
from .distributed_c10d import *
