#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 49_advise.sh with every shared trace.
EVERY_TRACE=1 exec "$(dirname "$0")/49_advise.sh" "$@"
