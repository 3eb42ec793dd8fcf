#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# 57_stacks.sh, and the shares of processor time are those that the functions were made to take.
TIMING=1 exec bash "${0%_timing.sh}.sh" "$@"
