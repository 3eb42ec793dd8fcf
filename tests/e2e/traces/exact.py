# SPDX-License-Identifier: Apache-2.0
"""Shared by the brute-force scripts: reads traces with Python's own parsers, and holds reports against what a script finds there.

   SCRIPT TRACE REPORT... [TRACE REPORT...]...                   exit 1 and a line for each difference
   SCRIPT --spoil TRACE REPORT... [WHAT STATEMENT]...            each statement changes r, the report, and the script must notice;
                                                                 r is the list of reports where a script reads several of a trace
"""
import contextlib
import decimal
import gc
import gzip
import io
import json
import os
import sqlite3
import sys
import tempfile


def ns(us):
    """Whole ns of a number of us with decimal digits, the nearest, never by way of a float."""
    return round(us * 1000) if isinstance(us, (int, decimal.Decimal)) else ns(decimal.Decimal(str(us)))


def text_of(path):
    with (gzip.open(path) if path.endswith(".gz") else open(path, "rb")) as file:
        return file.read()


def kineto(path):
    """The document of a Kineto trace, numbers with a point as Decimal."""
    return json.loads(text_of(path).decode("utf-8", "replace"), strict=False, parse_float=decimal.Decimal)


@contextlib.contextmanager
def nsight(path):
    """The database of an Nsight export."""
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as plain:
        plain.write(text_of(path))
        plain.flush()
        with contextlib.closing(sqlite3.connect(f"file:{plain.name}?mode=ro", uri=True)) as db:
            yield db


def exact(text):
    return json.loads(text, parse_float=decimal.Decimal)


def compare_all(read, compare, arguments, reports):
    wrong = False
    for i in range(0, len(arguments), 1 + reports):
        path, *made = arguments[i:i + 1 + reports]
        done, differ, words = compare(read(path), [exact(text_of(report)) for report in made])
        print(f"{os.path.basename(path)}: {done} numbers compared, {differ} differ{words}")
        wrong |= differ > 0 or done == 0
    return wrong


def spoil_all(read, compare, arguments, reports):
    trace, texts = read(arguments[0]), [text_of(report) for report in arguments[1:1 + reports]]
    statements = arguments[1 + reports:]
    assert statements and len(statements) % 2 == 0, "nothing to spoil"
    for what, statement in zip(statements[::2], statements[1::2]):
        made = [json.loads(text) for text in texts]
        exec(statement, {"r": made if reports > 1 else made[0]})
        with contextlib.redirect_stdout(io.StringIO()) as said:
            _, differ, _ = compare(trace, [exact(json.dumps(report)) for report in made])
        if not differ or not said.getvalue():
            print(f"not noticed: {what}")
            return True
    return False


def run(read, compare, reports=1):
    """read(PATH): what compare needs of a trace. compare(TRACE, REPORTS): how many numbers were compared, how many of them differ,
    of which it prints a line for each, and words to add. reports: how many of a trace."""
    gc.disable()  # a trace is a hundred thousand objects that all live until its end: looking for others takes a third of the time
    arguments = sys.argv[1:]
    spoil = arguments[:1] == ["--spoil"]
    sys.exit((spoil_all if spoil else compare_all)(read, compare, arguments[spoil:], reports))
