# SPDX-License-Identifier: Apache-2.0
"""Makes the state of a live run hostile: what a recorder keeps in it to be taken over.

usage: hostile_live.py DATABASE NUMBER [ROWS]     NUMBER chooses what is done, and is said
"""
import random
import sqlite3
import struct
import sys

LIMIT = 2**63 - 1
TOTAL = 56  # bytes of a total in the state of a pool (struct col_total)
PROCESS_AT = 64  # where its process is (struct saved_pool)


def insert(db, rows):
    db.executemany("INSERT OR REPLACE INTO live_state VALUES (?, ?)", rows)


def first(state, prefix):
    return next(key for key in sorted(state) if key.startswith(prefix))


def with_number(value, offset, form, number):
    return value[:offset] + struct.pack(form, number) + value[offset + struct.calcsize(form) :]


def many_processes(db, state, chance, rows):
    """All with pools of one process, none of which exists; where the recorder was held up for long, of 1.1 GB."""
    process, pool = state[first(state, "x:")], state[first(state, "p:")]
    insert(db, ((f"x:{1000 + i}", with_number(process, 0, "<q", 1000 + i)) for i in range(rows)))
    insert(db, ((f"p:pool.{1000 + i}.0", with_number(pool, 0, "<q", 1000 + i)) for i in range(rows // 5)))


def slow_recorder(db, state, chance, rows):
    """Each process with a pool that does not exist, and in its state the totals of a recorder that was held up for long: 110 MB, all of which
    become rows."""
    process, pool = state[first(state, "x:")], state[first(state, "p:")]
    totals = next(count for count in range((len(pool) - 4) // TOTAL, -1, -1) if struct.unpack_from("<I", pool, len(pool) - TOTAL * count - 4)[0] == count)
    pool = pool[: len(pool) - TOTAL * totals - 4] + struct.pack("<I", 1000) + b"".join(struct.pack("<7q", 1, 1, 0, i, 1, 1, 1) for i in range(1000))
    insert(db, ((f"x:{1000 + i}", with_number(process, 0, "<q", 1000 + i)) for i in range(rows // 50)))
    insert(db, ((f"p:pool.{1000 + i}.0", with_number(pool, PROCESS_AT, "<q", 1000 + i)) for i in range(rows // 50)))


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
    insert(db, [(chance.choice(sorted(state)), bytes(chance.choice([60_000_000, 300_000_000])))])


def nothing(db, state, chance, rows):
    db.execute("DELETE FROM live_state WHERE key = ?", (chance.choice(sorted(state)),))


KINDS = [many_processes, slow_recorder, many_threads, many_ranges, many_positions, random_bytes, wild_numbers, other_sizes, huge_value, nothing]


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
