#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# Runs of the engine of 47_critical_path.sh: what takes their time, by what was made slow in them.
TIMING=1 exec bash "${0%_timing.sh}.sh" "$@"
