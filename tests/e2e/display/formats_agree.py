#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the formats of a report against each other: formats_agree.py TACHO RUN...

Every number of the text stands in the Markdown, every number of the Markdown in the HTML, as often; and what the JSON says of the
budget, the steps and the findings is what people read, rounded as they read it.
"""
import collections
import html.parser
import json
import re
import subprocess
import sys

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d+)?(?![\d\u2026])")  # not those of a name that is cut


class Text(html.parser.HTMLParser):
    """What a reader sees of a page, without pictures: the tables beside them have the same numbers."""

    def __init__(self):
        super().__init__()
        self.hidden, self.words = 0, []

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in ("svg", "script", "style", "nav", "figure", "summary", "footer", "title")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("svg", "script", "style", "nav", "figure", "summary", "footer", "title")

    def handle_data(self, data):
        if not self.hidden:
            self.words.append(data)


def report(tacho, run, *how):
    return subprocess.run([tacho, "report", run, "--top", "100000", *how], check=True, stdout=subprocess.PIPE).stdout.decode()


def numbers(text):
    return collections.Counter(NUMBER.findall(text))


def spoken(j):
    """(what, how people read it) of a report for programs."""
    yield "verdict", j["verdict"]
    for key, value in (j["budget"] or {}).items():
        if key.endswith("_pct") and isinstance(value, (int, float)) and value:
            yield key, "%.1f" % value
    for f in j["findings"]:
        yield f["id"], f["claim"]
        yield f["id"] + " do", f["action"]
        yield f["id"] + " verify", f["verify"].replace("`", "")


def squeeze(text):
    return re.sub(r"[\s`]+", "", text)


def look(tacho, run):
    lines = report(tacho, run, "--width", "100").rstrip("\n")
    lines = lines[:lines.rindex("\n\n")]  # the verdict once more, which only a terminal needs
    page = Text()
    page.feed(report(tacho, run, "--html"))
    markdown = report(tacho, run, "--markdown")
    markdown = re.sub(r"&#(\d+);", lambda m: chr(int(m.group(1))), re.sub(r"^\d+\. |\\|</?code>", "", markdown, flags=re.M))
    seen = {"text": lines, "Markdown": markdown, "HTML": "\n".join(page.words)}
    bad = []
    for less, more in (("text", "Markdown"), ("text", "HTML")):
        entries = re.sub(r"^ ?\d+  (?=[A-Z_]+ )", "", seen[less], flags=re.M)  # the number of a list's entry is the list's
        missing = numbers(entries) - numbers(seen[more])
        if missing:
            bad.append("of %s not in %s: %s" % (less, more, dict(missing.most_common(8))))
    for what, words in spoken(json.loads(report(tacho, run, "--json"))):
        for name, text in seen.items():
            if squeeze(words) not in squeeze(text):
                bad.append("%s of the JSON is not in %s: %s" % (what, name, words[:120]))
    print("%s: %d numbers in the text, %d in the page%s" % (run, sum(numbers(lines).values()), sum(numbers(seen["HTML"]).values()),
                                                          "".join("\n  " + b for b in bad)))
    return bool(bad)


sys.exit(any([look(sys.argv[1], run) for run in sys.argv[2:]]))
