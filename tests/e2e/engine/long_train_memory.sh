#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 23_train_memory.sh with each optimizer and with recomputation so large that the kernel's figure must fit, too.
EVERY_SIZE=1 exec "$(dirname "$0")/23_train_memory.sh" "$@"
