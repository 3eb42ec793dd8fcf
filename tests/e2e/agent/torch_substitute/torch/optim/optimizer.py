# SPDX-License-Identifier: Apache-2.0
_before, _after = [], []


class Optimizer:
    def step(self):
        for h in _before:
            h(self, (), {})
        for h in _after:
            h(self, (), {})


def register_optimizer_step_pre_hook(hook):
    _before.append(hook)


def register_optimizer_step_post_hook(hook):
    _after.append(hook)
