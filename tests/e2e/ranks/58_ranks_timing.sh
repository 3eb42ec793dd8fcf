#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 1
# Runs of the engine of 58_ranks.sh: a slowed rank, a slowed stage and uneven data are named, and nothing where ranks are alike.
TIMING=1 exec bash "${0%_timing.sh}.sh" "$@"
