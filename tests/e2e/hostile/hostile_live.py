# SPDX-License-Identifier: Apache-2.0
"""Makes the state of a live run hostile: what a recorder keeps in it to be taken over.

usage: hostile_live.py DATABASE NUMBER [ROWS]     NUMBER chooses what is done, and is said
"""
import random
import sqlite3
import struct
import sys

LIMIT = 2**63 - 1
BYTES_MOST = 60_000_000


def insert(db, rows):
    db.executemany("INSERT OR REPLACE INTO live_state VALUES (?, ?)", rows)


def first(state, prefix):
    return next(key for key in sorted(state) if key.startswith(prefix))


def with_number(value, offset, form, number):
    return value[:offset] + struct.pack(form, number) + value[offset + struct.calcsize(form) :]


def many_processes(db, state, chance, rows):
    """Each with a pool that does not exist. A pool's state is as large as the recorder was slow: the time is for so many bytes."""
    process, pool = state[first(state, "x:")], state[first(state, "p:")]
    pools = min(rows // 5, BYTES_MOST // len(pool))
    insert(db, ((f"x:{1000 + i}", with_number(process, 0, "<q", 1000 + i)) for i in range(rows)))
    insert(db, ((f"p:pool.{1000 + i}.0", with_number(pool, 0, "<q", 1000 + i)) for i in range(pools)))


def many_threads(db, state, chance, rows):
    key = first(state, "t:")
    insert(db, ((f"{key.rsplit(':', 1)[0]}:{i + 10}", with_number(state[key], 16, "<I", i + 10)) for i in range(rows)))


def many_ranges(db, state, chance, rows):
    """Open ranges, with ids that are near each other or far apart."""
    pool = first(state, "p:")[2:]
    step = chance.choice([1, 2**32, 2**56 + 1])
    form = "<qqqqqqqqq"
    insert(db, ((f"r:{pool}:{i * step}", struct.pack(form, i, -LIMIT - 1, 0, 0, 0, 0, 0, 0, i * step % LIMIT)) for i in range(rows)))


def many_positions(db, state, chance, rows):
    pool = first(state, "p:")[2:]
    db.executemany("INSERT OR REPLACE INTO live_position VALUES (?, ?, ?, ?)", ((pool, i * 7, LIMIT - i, i) for i in range(rows)))


def random_bytes(db, state, chance, rows):
    for key, value in state.items():
        value = bytearray(value)
        for _ in range(chance.choice([1, 4, 64])):
            if value:
                value[chance.randrange(len(value))] = chance.randrange(256)
        insert(db, [(key, bytes(value))])


def wild_numbers(db, state, chance, rows):
    for key, value in state.items():
        for _ in range(3):
            if len(value) >= 8:
                value = with_number(value, chance.randrange(len(value) // 8) * 8, "<q", chance.choice([-1, LIMIT, -LIMIT - 1, 2**32, 2**31 - 1, 0]))
        insert(db, [(key, value)])


def other_sizes(db, state, chance, rows):
    key = chance.choice(sorted(state))
    insert(db, [(key, (state[key] or b"x") * chance.choice([2, 1000]) if chance.random() < 0.5 else state[key][: chance.randrange(len(state[key]) + 1)])])


def huge_value(db, state, chance, rows):
    insert(db, [(chance.choice(sorted(state)), bytes(60_000_000))])


def nothing(db, state, chance, rows):
    db.execute("DELETE FROM live_state WHERE key = ?", (chance.choice(sorted(state)),))


KINDS = [many_processes, many_threads, many_ranges, many_positions, random_bytes, wild_numbers, other_sizes, huge_value, nothing]


def main(arguments):
    db = sqlite3.connect(arguments[0])
    number = int(arguments[1])
    rows = int(arguments[2]) if len(arguments) > 2 else 100_000
    kind = KINDS[number % len(KINDS)]
    kind(db, dict(db.execute("SELECT key, value FROM live_state")), random.Random(number), rows)
    db.commit()
    print(f"{number}: {kind.__name__}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
