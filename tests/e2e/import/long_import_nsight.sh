#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Nsight exports cut off at 1,000 random places each.
# timeout: 1200
ROUNDS=1000 exec "$(dirname "$0")/75_import_nsight.sh" "$@"
