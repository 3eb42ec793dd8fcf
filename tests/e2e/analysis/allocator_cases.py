#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose allocator is known to the byte (allocator_model.py): what tacho reads of their snapshots, and what it says of other settings.
usage: allocator_cases.py TACHO [CASE...]"""
import json, os, pickle, random, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "import"))
from allocator_model import GB, MB, UNLIMITED, Allocator

TACHO = sys.argv[1]


def report(path):
    done = subprocess.run([TACHO, "report", path, "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{path}: {done.stderr}")
    return json.loads(done.stdout)


def device_of(allocator, path, last=0):
    """The device of the report of a snapshot, with the last events only where a number is given. What is free must be what is free."""
    data = allocator.snapshot(-last)
    with open(path, "wb") as file:
        pickle.dump(data, file, 4)
    blocks = [block for segment in data["segments"] for block in segment["blocks"]]
    free = [b["size"] for b in blocks if b["state"] == "inactive"]
    truth = {"reserved_bytes": allocator.reserved, "free_bytes": sum(free), "largest_free_bytes": max(free, default=0),
             "rounding_bytes": sum(b["size"] - b["requested_size"] for b in blocks if b["state"] != "inactive")}
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


def fill_private_pool(allocator):
    """Uses a private pool, and gives it back."""
    allocator.malloc(100)
    for _ in range(3):
        allocator.free(allocator.malloc(1000 * MB))
        for block in [allocator.malloc(100 * MB, pool=(0, 1)) for _ in range(10)]:
            allocator.free(block)
    allocator.empty_cache((0, 1))


def pools_that_events_name():
    """A private pool that is given back before the snapshot: only events name it."""
    allocator = Allocator(names_pools=True)
    fill_private_pool(allocator)
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
            ("every size", 0, {"divisions": 4}), ("each size", 0, {"divisions": by_size}), ("the end", 150, {"divisions": by_size}),
            ("segments", 0, {"large_segment": 24 * MB, "text": "backend:native,large_segment_size_mb:24"}),
            ("pages", 0, {"expandable": True, "large_segment": 12 * MB, "text": "expandable_segments:True,large_segment_size_mb:12"}),
            ("large blocks", 0, {"max_split": 32 * MB, "rounding": 64 * MB, "text": "max_split_size_mb:32,max_non_split_rounding_mb: 64"})):
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


# ---- the replay


def best_fit_in_expandable_segments():
    """A hole is taken before the end of the segment, which can grow, also where the end is smaller."""
    allocator = Allocator(expandable=True)
    hole = allocator.malloc(60 * MB)
    allocator.malloc(2 * MB)
    allocator.malloc(30 * MB)
    allocator.free(hole)
    allocator.malloc(7 * MB)
    device = device_of(allocator, "hole.pickle")
    same("in the hole", (device["exact"], device["matched"]), (True, 4))


def any_program():
    """Every allocator replays to the byte: holes that are unmapped and filled again, streams, pools, a history that begins in the middle."""
    for name, settings in (("plain", {}), ("expandable", {"expandable": True}), ("unsplit", {"max_split": 32 * MB})):
        for seed in range(6):
            allocator = Allocator(names_pools=True, **settings)
            random_program(allocator, seed, pools=((0, 0), (0, 0), (0, 1)) if seed % 2 else ((0, 0),), streams=1 + seed % 3, empties=True)
            device = device_of(allocator, "any.pickle", 120 if seed > 3 else 0)
            same(f"{name} {seed}", (device["exact"], device["matched"]), (True, device["replayed"]))


def history_from_the_middle():
    """Blocks of before the history that keep up to 1 MiB beyond their request: requests after them tell where they end."""
    for seed in (3, 6, 10, 12, 13):
        allocator = random_program(Allocator(), seed, 400, 19, 26)
        device = device_of(allocator, "middle.pickle", 150)
        same(f"program {seed}", (device["exact"], device["matched"]), (True, device["replayed"]))


def unmapped_holes():
    """empty_cache() takes the pages between blocks in use; a larger request comes after them, smaller ones into them."""
    for expandable in (False, True):
        device = everywhere(emptied_often, "emptied.pickle", expandable=expandable)
        same("exact", device["exact"], True)


def holes_from_before():
    """A history that begins when an expandable segment is full: pages between its blocks go and come back, then it grows."""
    holes, size, start = 3, 20 * MB, 0x7F0000000000

    def event(action, place, time):
        return {"action": action, "addr": start + place * size, "size": size, "stream": 0, "time_us": time, "frames": []}

    places = [1 + 2 * k for k in range(holes)]
    events = [event("segment_unmap", place, 1) for place in places]
    for k, place in enumerate(places + list(range(2 * holes + 1, 2 * holes + 9))):
        events += [event("segment_map", place, 2 + 2 * k), event("alloc", place, 3 + 2 * k)]
    count = 2 * holes + 9
    blocks = [{"address": start + k * size, "size": size, "requested_size": size, "state": "active_allocated", "frames": []} for k in range(count)]
    segment = {"device": 0, "address": start, "total_size": count * size, "allocated_size": 0, "active_size": 0, "requested_size": 0, "stream": 0,
               "segment_type": "large", "is_expandable": True, "segment_pool_id": (0, 0), "frames": [], "blocks": blocks}
    with open("before.pickle", "wb") as file:
        pickle.dump({"segments": [segment], "device_traces": [events], "allocator_settings": {"expandable_segments": True}}, file, 4)
    device = report("before.pickle")["allocator"][0]
    same("a segment with holes", (device["exact"], device["segments"], device["matched"]), (True, 1, holes + 8))


def emptied_often(allocator):
    allocator.malloc(100)
    for _ in range(3):
        held = [allocator.malloc(100 * MB) for _ in range(20)]
        for block in held[::2]:
            allocator.free(block)
        allocator.empty_cache()
        allocator.free(allocator.malloc(900 * MB))
        for block in held[1::2]:
            allocator.free(block)
        allocator.empty_cache()
    return held


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


def other_settings():
    for seed in range(6):
        device = everywhere(random_program, "other.pickle", seed, 200, 9, 28)
        same(f"program {seed}", device["exact"], True)


def replay_that_misses():
    """A private pool that no event names, and that is gone: the replay takes it for the common one, and nothing is advised."""
    allocator = Allocator()
    fill_private_pool(allocator)
    device = device_of(allocator, "missed.pickle")
    same("missed", (device["exact"], device["best_setting"]), (False, None))
    if device["settings"][0]["reserved_peak_bytes"] >= 0.9 * device["reserved_peak_bytes"]:
        sys.exit("the replay should have missed the peak")


def holes(allocator):
    allocator.malloc(100)
    allocator.free(allocator.malloc(4000 * MB))
    held = [allocator.malloc(100 * MB) for _ in range(40)]
    for block in held[::2]:
        allocator.free(block)
    allocator.malloc(1500 * MB)


def other_stream(allocator):
    allocator.malloc(100)
    allocator.free(allocator.malloc(4000 * MB))
    allocator.malloc(100 * MB)
    allocator.malloc(3000 * MB, stream=112233)


def too_much(allocator):
    allocator.malloc(100)
    for _ in range(5):
        allocator.malloc(1000 * MB)


def requests_that_failed():
    """Fragments of a segment; a segment of another stream; a limit of the program, at which the driver has much that is free."""
    same("holes", everywhere(holes, "holes.pickle", capacity=5000 * MB)["best_setting"], "expandable_segments:True")
    everywhere(other_stream, "stream.pickle", capacity=5000 * MB)
    device = everywhere(too_much, "fraction.pickle", capacity=4002 * MB, device_free=75 * GB)
    same("nothing fits", (device["best_setting"], device["failed_requests"]), (None, 1))


CASES = (pools_that_events_name, blocks_that_await_their_free, recorded_settings, first_event, best_fit_in_expandable_segments, any_program,
         history_from_the_middle, unmapped_holes, holes_from_before, other_settings, replay_that_misses, requests_that_failed)
if __name__ == "__main__":
    for case in CASES:
        if not sys.argv[2:] or case.__name__ in sys.argv[2:]:
            case()
            print(case.__name__)
