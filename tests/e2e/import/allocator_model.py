#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's caching allocator in small, after c10/cuda/CUDACachingAllocator.cpp: it serves a program's requests and writes the memory snapshot
that PyTorch would write. What tacho says of the snapshot is compared with what this allocator did, and with what it does when the same program
runs under another setting."""
import itertools

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
UNLIMITED = 1 << 62


class Block:
    def __init__(self, place, size, address, expandable=False):
        self.place, self.size, self.address, self.expandable = place, size, address, expandable  # place: stream, pool, large
        self.requested, self.used, self.pending, self.mapped = 0, False, False, True
        self.previous = self.next = None

    def free(self):
        return not (self.used or self.pending)


class Allocator:
    """`capacity`: bytes of the device, or what a memory fraction allows; `device_free`: what the driver says is free when a request fails, where
    that is not the rest of the capacity; `names_pools`: events name their private pool, as in newer versions."""

    def __init__(self, expandable=False, max_split=UNLIMITED, divisions=None, capacity=UNLIMITED, device_free=None, names_pools=False,
                 large_segment=20 * MB, rounding=20 * MB, text=""):
        self.expandable, self.max_split, self.capacity, self.device_free = expandable, max_split, capacity, device_free
        self.divisions = divisions if isinstance(divisions, list) else [divisions or 0] * 16  # for sizes from 1 MiB, 2 MiB, 4 MiB ... on
        self.names_pools, self.large_segment, self.rounding, self.text = names_pools, large_segment, rounding, text
        self.blocks, self.trace, self.time = set(), [], 1_700_000_000_000_000
        self.reserved = self.peak = self.failures = 0
        self.next_segment, self.next_range = 0x7f0000000000, 0x300000000000

    # ---- the history

    def put(self, action, address, size, place):
        self.time += 10
        event = {"action": action, "size": size, "stream": place[0], "time_us": self.time,
                 "frames": [{"filename": "/srv/me/train.py", "line": 7, "name": "main"}]}
        event["device_free" if action == "oom" else "addr"] = address
        if self.names_pools:
            event["pool_id"] = place[1]
        self.trace.append(event)

    def reserve(self, size):
        self.reserved += size
        self.peak = max(self.peak, self.reserved)

    # ---- sizes

    def rounded(self, size):
        divisions = self.divisions[min(max(size.bit_length() - 21, 0), 15)]
        if divisions > 1 and size > 512 * divisions:
            part = (1 << size.bit_length() - 1) // divisions
            return -(-size // part) * part
        return max(-(-size // 512) * 512, 512)

    def segment_size(self, size):
        if size <= MB:
            return 2 * MB
        return self.large_segment if size < 10 * MB else -(-size // (2 * MB)) * 2 * MB

    def page(self, block):
        return self.large_segment if block.place[2] else 2 * MB

    # ---- blocks

    def free_blocks(self, place):
        """By size and address, as PyTorch keeps them."""
        return sorted((b for b in self.blocks if b.mapped and b.free() and b.place == place), key=lambda b: (b.size, b.address))

    def find_free(self, size, place):
        fitting = [b for b in self.free_blocks(place) if b.size >= size]
        if not fitting:
            return None

        def grown(b):
            return b.size + (b.next.size if b.next and not b.next.mapped else 0)

        at = 0
        while fitting[at].expandable and at + 1 < len(fitting) and grown(fitting[at + 1]) < grown(fitting[at]):
            at += 1
        found = fitting[at]
        if size < self.max_split <= found.size or (size >= self.max_split and found.size >= size + self.rounding):
            return None
        return found

    def cut(self, block, size):
        """The first bytes of a block stay; the rest is a block of its own."""
        rest = Block(block.place, block.size - size, block.address + size, block.expandable)
        rest.mapped, rest.previous, rest.next = block.mapped, block, block.next
        if rest.next:
            rest.next.previous = rest
        block.next, block.size = rest, size
        self.blocks.add(rest)
        return rest

    def merge(self, block):
        """With its free neighbours."""
        for other in (block.previous, block.next):
            if not other or not other.free() or other.mapped != block.mapped:
                continue
            block.address = min(block.address, other.address)
            if other is block.previous:
                block.previous = other.previous
                if block.previous:
                    block.previous.next = block
            else:
                block.next = other.next
                if block.next:
                    block.next.previous = block
            block.size += other.size
            self.blocks.remove(other)

    # ---- the driver

    def map(self, block, size):
        size = -(-size // self.page(block)) * self.page(block)
        if self.reserved + size > self.capacity:
            return False
        address = block.address
        if size < block.size:
            self.cut(block, size)
        block.mapped = True
        self.merge(block)
        self.reserve(size)
        self.put("segment_map", address, size, block.place)
        return True

    def expand(self, size, place):
        def room(block):
            sizes = itertools.takewhile(lambda b: b.free(), chain(block))
            return any(total >= size for total in itertools.accumulate(b.size for b in sizes))

        def chain(block):
            while block:
                yield block
                block = block.next

        unmapped = sorted((b for b in self.blocks if not b.mapped and b.place == place), key=lambda b: b.address)
        begins = [b.previous if b.previous and b.previous.free() else b for b in unmapped]
        block = next((b for b in begins if room(b)), None)
        if not block:
            block = Block(place, 90 * GB // self.large_segment * self.large_segment, self.next_range, True)
            block.mapped = False
            self.next_range += 1 << 40
            self.blocks.add(block)
        if not block.mapped and not self.map(block, min(block.size, size)):
            return None
        while block.size < size:
            after = block.next
            if not self.map(after, min(size - block.size, after.size)):
                return None
            block = after
        return block

    def ask_driver(self, size, place):
        room = self.segment_size(size)
        if self.expandable:
            return self.expand(size, place)
        if self.reserved + room > self.capacity:
            return None
        self.reserve(room)
        block = Block(place, room, self.next_segment)
        self.next_segment += room + 2 * MB
        self.blocks.add(block)
        self.put("segment_alloc", block.address, room, place)
        return block

    def release(self, block):
        self.blocks.remove(block)
        self.reserved -= block.size
        self.put("segment_free", block.address, block.size, block.place)

    def unmap(self, block):
        page, base = self.page(block), block.address >> 40 << 40
        first, end = -(-(block.address - base) // page) * page + base, (block.address + block.size - base) // page * page + base
        if first >= end:
            return
        if first > block.address:
            block = self.cut(block, first - block.address)
        if end < block.address + block.size:
            self.cut(block, end - block.address)
        block.mapped, size = False, block.size
        self.merge(block)
        self.reserved -= size
        self.put("segment_unmap", first, size, block.place)
        if not block.previous and not block.next:
            self.blocks.remove(block)

    def empty_cache(self, pool=(0, 0)):
        for block in sorted((b for b in self.blocks if b.mapped and b.free() and b.place[1] == pool), key=lambda b: (b.size, b.address)):
            if block.expandable:
                self.unmap(block)
            elif not block.previous and not block.next:
                self.release(block)

    def release_oversize(self, size, place):
        """Blocks that may not be split: the smallest one that is large enough, else the largest ones until they are enough together."""
        least, blocks = max(size, self.max_split), self.free_blocks(place)
        if self.max_split == UNLIMITED:
            return False
        fitting = [b for b in blocks if b.size >= least]
        if fitting:
            self.release(fitting[0])
            return True
        total = 0
        for block in reversed(blocks):
            if total >= least or block.size < self.max_split:
                break
            total += block.size
            self.release(block)
        return total >= least

    # ---- requests

    def malloc(self, requested, stream=0, pool=(0, 0)):
        size = self.rounded(requested)
        place = (stream, pool, size > MB)
        block = self.find_free(size, place) or self.ask_driver(size, place)
        if not block and self.release_oversize(size, place):
            block = self.ask_driver(size, place)
        if not block:
            self.empty_cache()
            block = self.ask_driver(size, place)
        if not block:
            self.failures += 1
            self.put("oom", self.capacity - self.reserved if self.device_free is None else self.device_free, size, place)
            return None
        rest = block.size - size
        if rest >= 512 if self.expandable or not place[2] else size < self.max_split and rest > MB:
            self.cut(block, size)
        block.used, block.requested = True, requested
        self.put("alloc", block.address, requested, place)
        return block

    def free(self, block, later=False):
        """`later`: the device still uses it."""
        self.put("free_requested", block.address, block.requested, block.place)
        block.used, block.pending = False, True
        if not later:
            self.complete(block)

    def complete(self, block):
        self.put("free_completed", block.address, block.requested, block.place)
        block.pending = False
        self.merge(block)

    # ---- the snapshot

    def segments(self):
        found = []
        for head in self.blocks:
            if not head.mapped or (head.previous and head.previous.mapped):
                continue
            blocks, block = [], head
            while block and block.mapped:
                state = "active_allocated" if block.used else "active_pending_free" if block.pending else "inactive"
                blocks.append({"address": block.address, "size": block.size, "requested_size": block.requested, "state": state, "frames": []})
                block = block.next
            found.append({"device": 0, "address": head.address, "total_size": sum(b["size"] for b in blocks), "stream": head.place[0],
                          "allocated_size": sum(b["size"] for b in blocks if b["state"] == "active_allocated"),
                          "segment_type": "large" if head.place[2] else "small", "segment_pool_id": head.place[1],
                          "is_expandable": head.expandable, "frames": [], "blocks": blocks})
        return sorted(found, key=lambda s: s["address"])

    def snapshot(self, first=0):
        """The snapshot, with the history from an event on."""
        settings = {"PYTORCH_CUDA_ALLOC_CONF": self.text, "max_split_size": -1 if self.max_split == UNLIMITED else self.max_split,
                    "garbage_collection_threshold": 0.0, "expandable_segments": self.expandable,
                    "roundup_power2_divisions": {str(1 << i): self.divisions[i] for i in range(16)}}
        return {"segments": self.segments(), "device_traces": [self.trace[first:]], "external_annotations": [],
                "allocator_settings": settings}
