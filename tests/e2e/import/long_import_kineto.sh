#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 70_import_kineto.sh with every shared trace.
EVERY_TRACE=1 exec "$(dirname "$0")/70_import_kineto.sh" "$@"
