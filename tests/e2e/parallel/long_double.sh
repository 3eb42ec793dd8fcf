#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the engine with a double for every float and draws layouts as long_layouts.sh does: after 20 steps each tensor is within 1e-10 of one
# rank's. What is then left of a difference is no rounding.
# timeout: 3000
set -u
[ -z "$SAN" ] || { echo "its build has no sanitizers"; exit 77; }
make O="$BUILD" CC="$CC" double > "$TMPDIR/log" 2>&1 || { tail -n 20 "$TMPDIR/log"; exit 1; }
TRAIN=$BUILD/double/train NEAR="1e-10 double" exec "$(dirname "$0")/long_layouts.sh"
