# SPDX-License-Identifier: Apache-2.0
"""The loader: what a step waits for, and what workers do."""

from .frameworks import STARTED, STOPPED
from .library import ROLE_COLLATE, ROLE_HOST, ROLE_INPUT_WAIT, ROLE_READ, around, lib, name_of
from .steps import steps


def patch_loader(module):
    depth = [0]

    def leave(arguments):
        queue = arguments[0].__dict__.get("_data_queue")
        if queue is not None:
            if not depth[0]:
                depth[0] = lib.counter(b"queue_depth")
            try:
                lib.sample(depth[0], float(queue.qsize()))
            except (NotImplementedError, OSError):
                pass

    around(module._BaseDataLoaderIter, "__next__", "DataLoader.__next__", ROLE_INPUT_WAIT, steps.begin, leave)
    workers = getattr(module, "_MultiProcessingDataLoaderIter", None)
    for method, (_, text) in (("__init__", STARTED), ("_shutdown_workers", STOPPED)):
        if hasattr(workers, method):
            around(workers, method, text, ROLE_HOST)


def patch_fetch(module):
    def collating(fetcher):
        inner, handle, push_role, pop = fetcher.collate_fn, name_of("collate"), lib.push_role, lib.pop

        def collate(batch):
            push_role(handle, ROLE_COLLATE)
            try:
                return inner(batch)
            finally:
                pop()

        return collate

    init = module._BaseDatasetFetcher.__init__

    def initialise(self, *arguments, **keywords):
        init(self, *arguments, **keywords)
        if self.auto_collation:
            self.collate_fn = collating(self)

    module._BaseDatasetFetcher.__init__ = initialise
    for fetcher in (module._MapDatasetFetcher, module._IterableDatasetFetcher):
        around(fetcher, "fetch", "read", ROLE_READ)
