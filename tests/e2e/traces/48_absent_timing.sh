#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timing: yes
# patience: 1
# Runs of the engine of 48_absent.sh: the injected cause carries the injected time within 5 %.
TIMING=1 exec bash "${0%_timing.sh}.sh" "$@"
