# SPDX-License-Identifier: Apache-2.0
"""Makes a run hostile: one of many kinds of damage and malice is put into a good .tacho file.

usage: hostile_files.py kinds                        the kinds, one in a line
       hostile_files.py spoil FILE KIND NUMBER       spoils FILE; NUMBER chooses the place and the values. Says what was done
"""
import os
import random
import sqlite3
import sys

PAGE = 4096
LIMIT = 2**63 - 1
INTEGERS = [-1, 0, 1, LIMIT, -LIMIT - 1, LIMIT - 1, -LIMIT, 2**62, -(2**62), 2**32 - 1, 2**32, 2**31, -(2**31), 10**9, 65536]
WRONG = ["text", "", b"", b"\x00" * 40, 1e300, -1e-300, float("inf"), "9" * 400, "\x00x", "nan", 0.5]


def connect(path):
    db = sqlite3.connect(path)
    db.execute("PRAGMA writable_schema = ON")
    return db


def tables(db):
    return [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")]


def columns(db, table):
    return [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]


def any_column(db, number):
    every = [(table, column) for table in tables(db) for column in columns(db, table)]
    return every[number % len(every)]


def copy_loosely(db, table, names=None):
    """The table anew without constraints and types, so that it takes every value in every column."""
    kept = [name for name in columns(db, table) if names is None or name in names]
    listed = ", ".join(f'"{name}"' for name in kept)
    db.execute(f'CREATE TABLE "{table}_new" ({listed})')
    db.execute(f'INSERT INTO "{table}_new" SELECT {listed} FROM "{table}"')
    db.execute(f'DROP TABLE "{table}"')
    db.execute(f'ALTER TABLE "{table}_new" RENAME TO "{table}"')


def bytes_of(path):
    with open(path, "rb") as file:
        return bytearray(file.read())


def bytes_to(path, content):
    with open(path, "wb") as file:
        file.write(content)


def spoil_bits(path, number, chance):
    content = bytes_of(path)
    count = 1 << (number % 8)
    for _ in range(count):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    bytes_to(path, content)
    return f"{count} bits turned"


def spoil_pages(path, number, chance):
    content = bytes_of(path)
    page, other = (chance.randrange(len(content) // PAGE) * PAGE for _ in range(2))
    change = number % 4
    if change == 0:
        content[page + PAGE // 2 :] = b""
    elif change == 1:
        content[page : page + PAGE] = bytes(PAGE)
    elif change == 2:
        content[page : page + PAGE] = content[other : other + PAGE]
    else:
        at = page + (100 if page == 0 else 0)
        content[at : at + 64] = chance.randbytes(64)
    bytes_to(path, content)
    return f"page {page // PAGE}: " + ("cut off", "zeros", f"page {other // PAGE} instead", "noise at its head")[change]


def spoil_integers(path, number, chance):
    db = connect(path)
    table, column = any_column(db, number)
    value = chance.choice(INTEGERS)
    copy_loosely(db, table)
    every = chance.choice([1, 2, 3, 7])
    db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid % {every} = 0', (value,))
    db.commit()
    return f"{table}.{column} = {value} in every {every}. row"


def spoil_integers_in_place(path, number, chance):
    """The table keeps its types and keys: the file differs from a good one in values only."""
    db = connect(path)
    every = [(t, c) for t in tables(db) for _, c, _, _, _, key in db.execute(f'PRAGMA table_info("{t}")') if not key]
    table, column = every[number % len(every)]
    values = INTEGERS if chance.random() < 0.8 else [None, *WRONG]
    done = 0
    for row in range(1, 4000, chance.choice([1, 2, 5])):
        try:
            done += db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (chance.choice(values), row)).rowcount
        except sqlite3.Error:
            continue
    db.commit()
    return f"{table}.{column}: {done} values at random"


def spoil_types(path, number, chance):
    db = connect(path)
    table, column = any_column(db, number)
    value = chance.choice(WRONG)
    copy_loosely(db, table)
    db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid % 3 = 0', (value,))
    db.commit()
    return f"{table}.{column} = {value!r:.40}"


def spoil_nulls(path, number, chance):
    db = connect(path)
    table, column = any_column(db, number)
    copy_loosely(db, table)
    db.execute(f'UPDATE "{table}" SET "{column}" = NULL WHERE rowid % {chance.choice([1, 2, 9])} = 0')
    db.commit()
    return f"{table}.{column} is NULL"


def spoil_tables(path, number, chance):
    db = connect(path)
    table = tables(db)[number % len(tables(db))]
    change = chance.randrange(4)
    if change == 0:
        db.execute(f'DROP TABLE "{table}"')
        what = "is missing"
    elif change == 1:
        db.execute(f'DELETE FROM "{table}"')
        what = "is empty"
    elif change == 2:
        gone = chance.choice(columns(db, table))
        copy_loosely(db, table, [c for c in columns(db, table) if c != gone] or columns(db, table))
        what = f"has no column {gone}"
    else:
        db.execute(f'ALTER TABLE "{table}" ADD COLUMN extra DEFAULT 7')
        what = "has one more column"
    db.commit()
    return f"{table} {what}"


def spoil_ids(path, number, chance):
    db = connect(path)
    table = [t for t in tables(db) if "id" in columns(db, t)][number % 8 % 7]
    copy_loosely(db, table)
    change = chance.randrange(5)
    db.execute(f'UPDATE "{table}" SET id = ' + ("1", "-id", f"{LIMIT} - id", "id * 1000003", "id / 2")[change])
    db.commit()
    return f"{table}.id = " + ("1", "-id", "near the limit", "far apart", "doubled")[change]


def spoil_parents(path, number, chance):
    db = connect(path)
    change = number % 4
    if change == 0:
        db.execute("UPDATE stack SET parent = id")
    elif change == 1:
        db.execute("UPDATE stack SET parent = (SELECT max(id) FROM stack) + 1 - id")
    elif change == 2:
        db.execute("WITH RECURSIVE n(i) AS (SELECT 100000 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) "
                   "INSERT INTO stack SELECT i, i - 1, 1 FROM n")
        db.execute("UPDATE sample SET value = 300000")
    else:
        db.execute("UPDATE process SET parent_pid = pid")
        db.execute("INSERT INTO process SELECT id + 1000, rank, host, parent_pid, pid, program, device, start, \"end\", exit_status, ended FROM process")
    db.commit()
    return ("a frame is its own parent", "parents in a circle", "200,000 frames deep", "processes are each other's parents")[change]


def spoil_texts(path, number, chance):
    db = connect(path)
    texts = [(t, row[1]) for t in tables(db) for row in db.execute(f'PRAGMA table_info("{t}")') if row[2] == "TEXT"]
    table, column = texts[number % len(texts)]
    size = chance.choice([70_000, 4_000_000, 30_000_000])
    key = "key" if table == "run" else "rowid"
    db.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE {key} = (SELECT max({key}) FROM "{table}")',
               (chance.choice(["a", "(", "[", "\x1b", "é", " "]) * size,))
    db.commit()
    return f"{table}.{column}: a text of {size} bytes"


def spoil_times(path, number, chance):
    db = connect(path)
    times = [("slice", "start"), ("slice", "dur"), ("step", "start"), ("step", "end"), ("counter", "time"), ("sample", "time"),
             ("process", "start"), ("process", "end"), ("clock_anchor", "monotonic"), ("loss", "t0"), ("step", "index")]
    table, column = times[number % len(times)]
    change = chance.randrange(7)
    value = (f'-"{column}"', f'{LIMIT} - abs("{column}" % 1000)', f'-{LIMIT} + abs("{column}" % 1000)', f'"{column}" * 1000',
             f'abs("{column}") % 7', "abs(random())", f'CASE rowid % 2 WHEN 0 THEN -{LIMIT} ELSE {LIMIT} END')[change]
    db.execute(f'UPDATE "{table}" SET "{column}" = CAST({value} AS INTEGER)')
    db.commit()
    return f"{table}.{column} = {value}"


def spoil_schema(path, number, chance):
    """What a schema can hold that runs when the file is read or written."""
    db = connect(path)
    table = tables(db)[number // 8 % len(tables(db))]
    listed = ", ".join(f'"{c}"' for c in columns(db, table))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    change = number % 8
    if change == 0:
        for t in tables(db):
            db.execute(f'CREATE TRIGGER "t_{t}" AFTER INSERT ON "{t}" BEGIN DELETE FROM slice; DELETE FROM string; END')
    elif change in (1, 2):
        db.execute(f'ALTER TABLE "{table}" RENAME TO old')
        every = ", ".join(f'i AS "{column}"' for column in columns(db, "old"))
        source = f"{endless} SELECT {every} FROM n" if change == 1 else "SELECT * FROM old, old AS b, old AS c, old AS d"
        db.execute(f'CREATE VIEW "{table}" AS {source}')
    elif change == 3:
        db.execute(f'CREATE INDEX by_expression ON "{table}" (length(hex(zeroblob(10))))')
    elif change == 4:
        db.execute(f'DROP TABLE "{table}"')
        try:
            db.execute(f'CREATE VIRTUAL TABLE "{table}" USING fts5({listed.replace("rank", "rank_") or "x"})')
        except sqlite3.Error:
            db.execute(f'CREATE VIRTUAL TABLE "{table}" USING rtree(id, a, b)')
    elif change == 5:
        db.execute("UPDATE sqlite_master SET sql = replace(sql, 'INTEGER', 'TEXT') WHERE name = ?", (table,))
    elif change == 6:
        db.execute("UPDATE sqlite_master SET rootpage = 1 + (rootpage * 7) % 20 WHERE name = ?", (table,))
    else:
        db.execute("UPDATE sqlite_master SET sql = sql || ' /*' || hex(zeroblob(3000000)) || '*/' WHERE name = ?", (table,))
    db.commit()
    return f"{table}: " + ("triggers that delete", "an endless view", "a view of four joins", "an index on an expression", "a virtual table",
                           "other types", "another root page", "a schema of 6 MB")[change]


def spoil_header(path, number, chance):
    content = bytes_of(path)
    at, width = chance.choice([(16, 2), (18, 1), (19, 1), (20, 1), (28, 4), (32, 4), (36, 4), (44, 4), (52, 4), (56, 4), (60, 4), (64, 4), (68, 4), (96, 4)])
    content[at : at + width] = chance.choice([bytes(width), b"\xff" * width, chance.randbytes(width), b"\x7f" + b"\xff" * (width - 1)])
    bytes_to(path, content)
    return f"the header from byte {at}"


def spoil_keys(path, number, chance):
    db = connect(path)
    keys = [key for (key,) in db.execute("SELECT key FROM run ORDER BY key")]
    key = keys[number % len(keys)]
    value = chance.choice(["", "-1", str(LIMIT), "1e999", "nan", "[" * 100000, '{"a":' * 5000, "[" + "1," * 200000 + "1]", '["' + "x" * 100000 + '"]', "%s%n", None])
    db.execute("UPDATE run SET value = ? WHERE key = ?", (value, key))
    db.commit()
    return f"run.{key} = {value!r:.30}"


def spoil_counts(path, number, chance):
    """Many rows where a recorder writes few."""
    db = connect(path)
    many = 100_000
    change = number % 8
    rows = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {many}) "
    t = 'SELECT min(start) FROM slice'
    statements = (
        "INSERT INTO process (id, rank, host, pid, program, start) SELECT i + 1000, i, 'h' || i, i, 'p' || i, 1 FROM n",
        "INSERT INTO track (id, process, kind, name, tid) SELECT i + 1000, 1, 'thread', 't' || i, i FROM n",
        f"INSERT INTO step SELECT 1, i, ({t}) + i * 100, ({t}) + i * 100 + 90, 1, 1, 0 FROM n",
        "INSERT INTO loss SELECT 's' || i, 'r' || i, i, NULL, NULL FROM n",
        "INSERT INTO run SELECT 'counter.' || i, i FROM n",
        f"INSERT INTO slice SELECT i + 100000, 1 + i % 30, ({t}) + i, NULL, 1 + i % 50, 1, NULL, NULL FROM n",
        "INSERT INTO ceiling SELECT 'd' || i, 'memory', 'fp32', i, 's' FROM n",
        "INSERT INTO metric SELECT 'lost.process.' || (i + 1000), i, 'count', NULL FROM n",
    )
    for number_of in {change, change % 7}:  # processes that lost something must be there, too
        into, select = statements[number_of].split("SELECT", 1)
        db.execute(f"{into} {rows} SELECT {select}")
    db.commit()
    return f"{many} " + ("processes", "tracks", "steps", "losses", "keys", "open ranges", "ceilings",
                          "processes that lost something")[change]


def spoil_ranges(path, number, chance):
    """Slices in shapes that cost: nested deeply, all at one time, on other tracks, with the details of others."""
    db = connect(path)
    many = 100_000
    rows = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {many}) "
    first, = db.execute("SELECT min(start) FROM slice").fetchone()
    change = number % 6
    values = (
        f"1, {first} + i, 1000000000 - 2 * i, 1 + i % 50",
        f"1, {first}, 1000000, 1 + i % 50",
        f"i, {first} + i, 10, i",
        f"1 + i % 36, {first} + i * 1000, 900, 1 + i % 50",
        f"1 + i % 36, {first} + abs(random() % 1000000000), abs(random() % 100000000), 1 + i % 50",
        f"1, {first} + i * 10, 9000000000000000000, 3",
    )[change]
    db.execute(f"INSERT INTO slice {rows} SELECT i + 100000, {values}, 1, 1 + i % 31, i FROM n")
    db.commit()
    return f"{many} ranges " + ("nested", "at one time", "on tracks that do not exist", "in a row", "at random", "without end")[change]


def spoil_ranks(path, number, chance):
    """Many ranks: with one range each, or with one step each, or with both."""
    db = connect(path)
    many = 100_000
    rows = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {many}) "
    first, = db.execute("SELECT min(start) FROM slice").fetchone()
    change = number % 4
    host = "'h'" if change == 2 else "'h' || i"
    db.execute(f"INSERT INTO process (id, rank, host, pid, program, start) {rows} SELECT i + 1000, i, {host}, i, 'p' || i, 1 FROM n")
    if change in (0, 3):
        db.execute(f"INSERT INTO track (id, process, kind, name, tid) {rows} SELECT i + 1000, i + 1000, 'thread', 'main', i FROM n")
        db.execute(f"INSERT INTO slice {rows} SELECT i + 100000, 1000 + i, {first} + i * 1000, 900, 1 + i % 50, 1, NULL, NULL FROM n")
    if change != 0:
        begin = f"{first} + i * 1000 - 10" if change == 3 else first
        db.execute(f"INSERT INTO step {rows} SELECT i + 1000, 0, {begin}, {begin} + {chance.choice([0, 1, 1000000])}, NULL, NULL, 0 FROM n")
    db.commit()
    return f"{many} ranks with " + ("a range each", "a step each", "a step each, on one host", "a step and a range each")[change]


KINDS = {name[6:]: function for name, function in list(globals().items()) if name.startswith("spoil_")}


def main(arguments):
    if arguments == ["kinds"]:
        print("\n".join(KINDS))
        return 0
    if len(arguments) != 4 or arguments[0] != "spoil" or arguments[2] not in KINDS:
        print(__doc__, file=sys.stderr)
        return 2
    path, kind, number = arguments[1], arguments[2], int(arguments[3])
    chance = random.Random(f"{kind} {number}")
    try:
        print(f"{kind} {number}: {KINDS[kind](path, number, chance)}")
    except sqlite3.Error as error:  # what SQLite itself refuses to write, no reader has to bear
        print(f"{kind} {number}: nothing ({error})")
        return 77
    return 0 if os.path.exists(path) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
