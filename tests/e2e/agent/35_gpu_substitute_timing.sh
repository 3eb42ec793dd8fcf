#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# 35_gpu_substitute.sh, and the gap that another profiler leaves, and what --duration records, are as long as they should be.
TIMING=1 exec bash "${0%_timing.sh}.sh" "$@"
