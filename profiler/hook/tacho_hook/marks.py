# SPDX-License-Identifier: Apache-2.0
"""What a program marks itself, with the module `tacho`."""

from .library import lib, name_of_program, sample
from .steps import steps


def push(name):
    lib.push(name_of_program(name))


def pop():
    lib.pop()


def step():
    steps.marked()


def counter(name, value):
    sample(name, value)
