#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 11_build_missing.sh with the optimising build, whose compiler sees more to warn of.
OPTIMISED=DEBUG=0 exec "$(dirname "$0")/11_build_missing.sh" "$@"
