#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# 37_gpu_nvml.sh, and a sampler that reads every 50 ms makes at least half of its readings.
TIMING=1 exec bash "${0%_timing.sh}.sh" "$@"
