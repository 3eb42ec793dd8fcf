#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 24_calibrate.sh with every operation of the engine measured.
EVERY_OPERATION=1 exec "$(dirname "$0")/24_calibrate.sh" "$@"
