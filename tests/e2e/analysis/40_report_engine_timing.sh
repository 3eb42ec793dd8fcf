#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# 40_report_engine.sh, and each class of the budget is within 2 % of what the engine's own timers say.
TIMING=1 exec bash "${0%_timing.sh}.sh" "$@"
