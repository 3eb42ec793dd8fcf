#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command of the bench under limits of control groups, or with its output on disk.

    limited.py limits JSON COMMAND...   cpu (cores), memory (bytes), write_iops, read_iops; folder: on the disk that is meant
    limited.py log FILE COMMAND...      each line that it writes is on disk before it goes on (O_DSYNC)

Groups are named tacho-bench and stay; version 1 and 2 of control groups; needs the right to make them.
"""
import json
import os
import sys

ROOT = "/sys/fs/cgroup"


def put(place, name, text):
    with open(os.path.join(place, name), "w", encoding="utf-8") as file:
        file.write(text)


def group_of(controller):
    """The folder of the bench's group, which is made, and whether it is of version 2."""
    unified = os.path.exists(os.path.join(ROOT, "cgroup.controllers"))
    place = os.path.join(ROOT, "" if unified else controller, "tacho-bench")
    os.makedirs(place, exist_ok=True)
    return place, unified


def limit_disk(limits):
    device = os.stat(limits["folder"]).st_dev
    disk = f"{os.major(device)}:{os.minor(device)}"
    place, unified = group_of("blkio")
    if unified:
        put(place, "io.max", f"{disk} riops={limits.get('read_iops', 'max')} wiops={limits.get('write_iops', 'max')}")
    else:
        put(place, "blkio.throttle.read_iops_device", f"{disk} {limits.get('read_iops', 0)}")
        put(place, "blkio.throttle.write_iops_device", f"{disk} {limits.get('write_iops', 0)}")
    put(place, "cgroup.procs", "0")


def limit(limits):
    """Puts this process into groups with these limits."""
    if "cpu" in limits:
        place, unified = group_of("cpu")
        quota = str(int(limits["cpu"] * 100000))
        put(place, "cpu.max" if unified else "cpu.cfs_quota_us", quota + " 100000" if unified else quota)
        put(place, "cgroup.procs", "0")
    if "memory" in limits:
        place, unified = group_of("memory")
        put(place, "memory.max" if unified else "memory.limit_in_bytes", str(int(limits["memory"])))
        put(place, "cgroup.procs", "0")
        if not unified and os.path.isdir(os.path.join(ROOT, "unified")):  # for the group's pressure
            place = os.path.join(ROOT, "unified", "tacho-bench")
            os.makedirs(place, exist_ok=True)
            put(place, "cgroup.procs", "0")
    if "write_iops" in limits or "read_iops" in limits:
        limit_disk(limits)


def main(words):
    if words[0] == "limits":
        limit(json.loads(words[1]))
    else:
        file = os.open(words[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DSYNC, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        words = words[:2] + ["stdbuf", "-oL"] + words[2:]
    os.execvp(words[2], words[2:])


if __name__ == "__main__":
    main(sys.argv[1:])
