# SPDX-License-Identifier: Apache-2.0
_initialized = [False]


def is_initialized():
    return _initialized[0]


def init():
    _initialized[0] = True
