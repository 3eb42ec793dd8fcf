#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# 56_merge.sh, and the stated error of the clocks of three nodes is small beside a step.
TIMING=1 exec bash "${0%_timing.sh}.sh" "$@"
