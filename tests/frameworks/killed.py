# SPDX-License-Identifier: Apache-2.0
"""Trains until its steps are done or something ends it; each update is a line of a journal, written with one call.

usage: killed.py JOURNAL inline|fork|spawn|forkserver      (kills.py; RANK: two ranks, each with a journal of its own)
"""

import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional

STEPS, ROWS = 120, 32


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS * ROWS

    def __getitem__(self, index):
        return torch.full((64,), float(index % 7)), index % 10


def main():
    torch.set_num_threads(1)
    rank, how = os.environ.get("RANK", "0"), sys.argv[2]
    journal = os.open("%s.%s" % (sys.argv[1], rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    if os.environ.get("WORLD_SIZE", "1") != "1":
        torch.distributed.init_process_group("gloo")
        net = nn.parallel.DistributedDataParallel(net)
    workers = {} if how == "inline" else {"num_workers": 2, "multiprocessing_context": how}
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for x, y in torch.utils.data.DataLoader(Rows(), batch_size=ROWS, **workers):
        time.sleep(0.01)
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        os.write(journal, b"%d\n" % os.getpid())
        optimizer.zero_grad()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    print("done")


if __name__ == "__main__":
    main()
