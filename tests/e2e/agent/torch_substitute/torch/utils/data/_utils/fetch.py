# SPDX-License-Identifier: Apache-2.0
class _BaseDatasetFetcher:
    def __init__(self, dataset, auto_collation, collate_fn):
        self.dataset, self.auto_collation, self.collate_fn = dataset, auto_collation, collate_fn


class _MapDatasetFetcher(_BaseDatasetFetcher):
    def fetch(self, indexes):
        return self.collate_fn([self.dataset[i] for i in indexes])


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    def fetch(self, indexes):
        return self.collate_fn(indexes)
