#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# Runs of the engine of 84_diff.sh: twenty times the layers are slower by more than a limit, and the same run is not.
TIMING=1 exec bash "${0%_timing.sh}.sh" "$@"
