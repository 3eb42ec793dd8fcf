# SPDX-License-Identifier: Apache-2.0
"""The loader: what a step waits for, and what workers do."""

import functools

from .frameworks import STARTED, STOPPED
from .growth import growth
from .library import ROLE_COLLATE, ROLE_EVALUATION, ROLE_HOST, ROLE_INPUT_WAIT, ROLE_READ, around, lib, name_of
from .modules import modules
from .steps import steps


def patch_loader(module):
    """The wait for a batch, the start and the end of workers. While the model that is trained is in evaluation, they are the
    evaluation's."""
    kind, depth, handle = module._BaseDataLoaderIter, [0], name_of("DataLoader.__next__")
    inner, push_role, pop = kind.__next__, lib.push_role, lib.pop

    @functools.wraps(inner)
    def outer(iterator):
        if not steps.open:
            steps.begin()
        push_role(handle, ROLE_EVALUATION if modules.evaluating() else ROLE_INPUT_WAIT)
        try:
            return inner(iterator)
        finally:
            pop()
            queue = iterator.__dict__.get("_data_queue")
            if queue is not None:
                if not depth[0]:
                    depth[0] = lib.counter(b"queue_depth")
                try:
                    lib.sample(depth[0], float(queue.qsize()))
                except (NotImplementedError, OSError):
                    pass

    kind.__next__ = outer
    workers = getattr(module, "_MultiProcessingDataLoaderIter", None)
    for method, (_, text) in (("__init__", STARTED), ("_shutdown_workers", STOPPED)):
        if workers is not None and hasattr(workers, method):
            _workers_around(workers, method, name_of(text))


def _workers_around(kind, method, handle):
    inner, push_role, pop = getattr(kind, method), lib.push_role, lib.pop

    @functools.wraps(inner)
    def outer(*arguments, **keywords):
        push_role(handle, ROLE_EVALUATION if modules.evaluating() else ROLE_HOST)
        try:
            return inner(*arguments, **keywords)
        finally:
            pop()

    setattr(kind, method, outer)


def patch_fetch(module):
    def collating(fetcher):
        inner, handle, push_role, pop = fetcher.collate_fn, name_of("collate"), lib.push_role, lib.pop

        def collate(batch):
            push_role(handle, ROLE_COLLATE)
            try:
                return inner(batch)
            finally:
                pop()
                if not steps.open:  # in a worker
                    growth.made_batch()

        return collate

    init = module._BaseDatasetFetcher.__init__

    def initialise(self, *arguments, **keywords):
        init(self, *arguments, **keywords)
        if self.auto_collation:
            self.collate_fn = collating(self)

    module._BaseDatasetFetcher.__init__ = initialise
    for fetcher in (module._MapDatasetFetcher, module._IterableDatasetFetcher):
        around(fetcher, "fetch", "read", ROLE_READ)
