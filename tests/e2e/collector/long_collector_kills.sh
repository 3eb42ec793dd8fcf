#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 of the target at a random moment, 50 times; of the collector, 50 times; of both, 50 times.
# timeout: 1800
ROUNDS=${ROUNDS:-150} exec bash "$(dirname "$0")/../hostile/hostile_kills.sh" "$@"
