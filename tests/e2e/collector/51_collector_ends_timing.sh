#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# 51_collector_ends.sh, and waiting for a child that records nothing takes next to no processor time.
TIMING=1 exec bash "${0%_timing.sh}.sh" "$@"
