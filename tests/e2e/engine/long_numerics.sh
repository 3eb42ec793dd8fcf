#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 20 draws of each fault, and 20 healthy runs (29_numerics.sh).
DRAWS=20 exec bash "$SRC/tests/e2e/engine/29_numerics.sh"
