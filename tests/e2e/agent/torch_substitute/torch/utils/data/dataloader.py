# SPDX-License-Identifier: Apache-2.0
from torch.utils.data._utils.fetch import _MapDatasetFetcher


class _BaseDataLoaderIter:
    def __init__(self, loader):
        self.loader, self.at = loader, 0
        self.fetcher = _MapDatasetFetcher(loader.dataset, True, list)

    def __iter__(self):
        return self

    def __next__(self):
        size = self.loader.batch
        if self.at >= len(self.loader.dataset):
            raise StopIteration
        self.at += size
        return self.fetcher.fetch(range(self.at - size, self.at))


class DataLoader:
    def __init__(self, dataset, batch):
        self.dataset, self.batch = dataset, batch

    def __iter__(self):
        return _BaseDataLoaderIter(self)
