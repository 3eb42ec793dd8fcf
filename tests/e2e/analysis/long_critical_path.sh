#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 47_critical_path.sh with every shared trace.
EVERY_TRACE=1 exec "$(dirname "$0")/47_critical_path.sh" "$@"
