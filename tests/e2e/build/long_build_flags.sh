#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 10_build_flags.sh with the library that is loaded into targets, which has more files.
PRODUCT=libtacho.so exec "$(dirname "$0")/10_build_flags.sh" "$@"
