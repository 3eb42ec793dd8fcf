#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose allocator is known to the byte (allocator_model.py): what tacho reads of their snapshots, and what it says of other settings.
usage: allocator_cases.py TACHO [CASE...]"""
import json, random, subprocess, sys

from allocator_model import MB, UNLIMITED, Allocator

TACHO = sys.argv[1]


def report(path):
    done = subprocess.run([TACHO, "report", path, "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{path}: {done.stderr}")
    return json.loads(done.stdout)


def device_of(allocator, path, last=None):
    """The device of the report of a snapshot, whose totals must be those of the allocator."""
    truth = allocator.dump(path, last)
    device = report(path)["allocator"][0]
    same(path, {key: device[key] for key in truth}, truth)
    return device


def same(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: found {found}, wanted {wanted}")


def settings_of(device, key):
    return {row["setting"]: row[key] for row in device["settings"]}


def random_program(allocator, seed, steps=200, least=9, most=26, pools=((0, 0),), streams=1, empties=False):
    """Requests of 2**least to 2**most bytes that come and go."""
    draw, held = random.Random(seed), []
    for _ in range(steps):
        if held and draw.random() < 0.46:
            allocator.free(held.pop(draw.randrange(len(held))))
        elif empties and draw.random() < 0.03:
            allocator.empty_cache()
        else:
            block = allocator.malloc(int(2 ** draw.uniform(least, most)), 64 * draw.randrange(streams), draw.choice(pools))
            if block:
                held.append(block)
    return allocator


# ---- what is read


def pools_that_events_name():
    """A private pool that is given back before the snapshot: only events name it."""
    allocator = Allocator(names_pools=True)
    allocator.malloc(100)
    for _ in range(3):
        allocator.free(allocator.malloc(1000 * MB))
        for block in [allocator.malloc(100 * MB, pool=(0, 1)) for _ in range(10)]:
            allocator.free(block)
    allocator.empty_cache((0, 1))
    device = device_of(allocator, "named.pickle")
    same("a named pool", (device["exact"], device["replayed"]), (True, 34))


def blocks_that_await_their_free():
    """What the program gave back while the device used it is no longer allocated, and not free yet."""
    allocator = Allocator()
    kept, given_back = allocator.malloc(30 * MB), allocator.malloc(100 * MB)
    allocator.free(given_back, later=True)
    device_of(allocator, "awaits.pickle")
    tags = {tag["name"]: tag for tag in report("awaits.pickle")["memory"]["tags"]}
    same("allocated", (tags["allocated"]["current_bytes"], tags["allocated"]["peak_bytes"]), (kept.requested, 130 * MB))


def recorded_settings():
    """The replay of a recording rounds as its settings say, also blocks of before the history; sizes that only the text has."""
    by_size = [0, 2, 4, 8] + 12 * [4]
    for name, keep, settings in (
            ("every size", None, {"divisions": 4}), ("each size", None, {"divisions": by_size}), ("the end", 150, {"divisions": by_size}),
            ("segments", None, {"large_segment": 24 * MB, "text": "backend:native,large_segment_size_mb:24"}),
            ("large blocks", None, {"max_split": 32 * MB, "rounding": 64 * MB, "text": "max_split_size_mb:32,max_non_split_rounding_mb: 64"})):
        for seed in range(2):
            device = device_of(random_program(Allocator(**settings), seed, most=28), "settings.pickle", keep)
            same(f"{name} {seed}", (device["exact"], device["matched"]), (True, device["replayed"]))


def first_event():
    """A history that begins with the program: what its first event makes was not there before."""
    for first in (None, 100):
        device = everywhere(growing_requests, "first.pickle", first)
        same("exact", (device["exact"], device["settings"][0]["requests"]), (True, 5 if first else 4))


def growing_requests(allocator, first):
    if first:
        allocator.malloc(first)
    for size in (1000, 1010, 1020):
        allocator.free(allocator.malloc(size * MB))
    return allocator.malloc(1030 * MB)


# ---- what other settings give

TRIED = {"expandable_segments:True": {"expandable": True}, "roundup_power2_divisions:4": {"divisions": 4},
         "roundup_power2_divisions:16": {"divisions": 16}, **{f"max_split_size_mb:{n}": {"max_split": n * MB} for n in (64, 128, 256, 512)}}


def everywhere(program, path, *arguments, expandable=False, capacity=UNLIMITED, device_free=None):
    """Runs a program and its snapshot through tacho, then under each setting: the peaks and failures are those that tacho has foretold."""
    own = Allocator(expandable=expandable, capacity=capacity, device_free=device_free)
    program(own, *arguments)
    device = device_of(own, path)
    peaks, fits = settings_of(device, "reserved_peak_bytes"), settings_of(device, "fits")
    for setting, changes in TRIED.items():
        other = Allocator(capacity=capacity, **changes)
        program(other, *arguments)
        if own.failures:
            same(f"{path}: {setting} fits", fits[setting], "no" if other.failures else "yes")
        if not other.failures:
            same(f"{path}: peak with {setting}", peaks[setting], other.peak)
    return device


CASES = (pools_that_events_name, blocks_that_await_their_free, recorded_settings, first_event)
if __name__ == "__main__":
    for case in CASES:
        if not sys.argv[2:] or case.__name__ in sys.argv[2:]:
            case()
            print(case.__name__)
