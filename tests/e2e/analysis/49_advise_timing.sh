#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 3
# Runs of the engine of 49_advise.sh: what the replay predicts for even steps, and for two workers, is what is measured.
TIMING=1 exec bash "${0%_timing.sh}.sh" "$@"
