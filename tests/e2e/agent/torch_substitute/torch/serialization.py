# SPDX-License-Identifier: Apache-2.0
def save(obj, f):
    return None
