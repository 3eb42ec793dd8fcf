#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# 41_report_silent.sh, and a loop that keeps one core busy is told to have used most of one.
TIMING=1 exec bash "${0%_timing.sh}.sh" "$@"
