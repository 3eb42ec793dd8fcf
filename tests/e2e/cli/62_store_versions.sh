#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# Files stay readable. A file of each earlier schema version (tests/golden/schema_N.sql, a dump of a real
# recording) opens, and its report has the same values under all keys that the report had at that time
# (schema_N.json). A file of a newer schema version is refused with exit status 3 and says the version it needs.
# When the schema changes: keep these files, add the dump of a file that the last version made.
set -u
command -v python3 > /dev/null || { echo "needs the program python3"; exit 77; }
cd "$TMPDIR" || exit 1
python3 - "$SRC/tests/golden" "$TACHO" "$SRC/store/store.h" << 'PY'
import glob, json, math, os, re, sqlite3, subprocess, sys

golden, tacho, header = sys.argv[1:]
APPLICATION_ID = 1413695567
# Sentences may be worded better; numbers, units, ids and reasons' places may not change.
SENTENCES = {"verdict", "claim", "action", "verify", "wrong_when", "effort", "how", "evidence", "absent", "text", "file",
             "looked_for", "checked", "not_checked", "replay_error_because", "problems", "summary", "reason", "caution", "notes", "hint"}
# Findings that a report no longer has, with the reason; all others stay.
WITHDRAWN = {("schema_2", "INPUT_STALL"): "the replay of the deeper queue that it proposed predicts 0.012 %: the "
                                          "wait is the wake-up of the worker, which no queue shortens"}
wrong = []


def kept_report(dump):
    report = json.load(open(dump.replace(".sql", ".json")))
    version = os.path.basename(dump)[:-len(".sql")]
    report["findings"] = [row for row in report["findings"] if (version, row["id"]) not in WITHDRAWN]
    return report


def make(name, dump, version):
    db = sqlite3.connect(name)
    db.executescript(open(dump).read())
    db.execute(f"PRAGMA application_id={APPLICATION_ID}")
    db.execute(f"PRAGMA user_version={version}")
    db.close()


def compare(old, new, path):
    if isinstance(old, dict):
        for key, value in old.items():
            if key in SENTENCES:
                continue
            if not isinstance(new, dict) or key not in new:
                wrong.append(f"{path}/{key} is gone")
            else:
                compare(value, new[key], f"{path}/{key}")
    elif isinstance(old, list):
        if not isinstance(new, list) or len(new) != len(old):
            wrong.append(f"{path}: {old!r:.80} became {new!r:.80}")
        else:
            for i, value in enumerate(old):
                compare(value, new[i], f"{path}/{i}")
    elif isinstance(old, float) and isinstance(new, float) and math.isclose(old, new, rel_tol=1e-12):
        pass  # a sum in another order rounds its last digits otherwise
    elif old != new and not (isinstance(old, str) and old.startswith("host: ")):  # a label of host time without a range
        wrong.append(f"{path}: {old!r} became {new!r}")


dumps = sorted(glob.glob(golden + "/schema_*.sql"))
assert dumps
newest = int(re.search(r"STORE_SCHEMA_VERSION (\d+)", open(header).read())[1])
for dump in dumps:
    version = int(re.search(r"schema_(\d+)\.sql", dump)[1])
    file = f"version_{version}.tacho"
    make(file, dump, version)
    got = subprocess.run([tacho, "report", "--json", file], capture_output=True, text=True)
    assert got.returncode == 0, got.stderr
    kept = dump.replace(".sql", ".json")
    if os.environ.get("BLESS"):
        open(kept, "w").write(got.stdout)
    compare(kept_report(dump), json.loads(got.stdout), "")
    # what leaves the step cannot gain more than the budget's share of it, nor less than nothing
    asked = subprocess.run([tacho, "advise", "--json", "--what-if", "framework=0", file], capture_output=True, text=True)
    host = json.loads(got.stdout)["budget"]["host_pct"]
    gain = json.loads(asked.stdout)["what_if"][0]["gain_pct"]
    if not 0 <= gain["expected"] <= 100 * host / (100 - host) + 0.1:
        wrong.append(f"{file}: framework=0 gains {gain} where the host takes {host} % of the step")
    text = subprocess.run([tacho, "report", file], capture_output=True, text=True)
    assert text.returncode == 0 and "steps" in text.stdout, text.stderr
    # opened for writing, it becomes a file of the present version with the same report
    saved = subprocess.run([tacho, "report", "--save", file], capture_output=True, text=True)
    assert saved.returncode == 0, saved.stderr
    db = sqlite3.connect(file)
    if db.execute("PRAGMA user_version").fetchone()[0] != newest:
        wrong.append(f"{file}: not migrated to version {newest}")
    if db.execute("SELECT count(*) FROM step_aggregate WHERE steps <> 1").fetchone()[0]:
        wrong.append(f"{file}: a row of step_aggregate covers more than one step")
    db.close()
    again = subprocess.run([tacho, "report", "--json", file], capture_output=True, text=True)
    compare(kept_report(dump), json.loads(again.stdout), "")

make("newer.tacho", dumps[-1], 999)
for command in (["report"], ["report", "--json"], ["sql", "--csv"], ["export", "-f", "csv", "-o", "out"]):
    words = [tacho, command[0], "newer.tacho", *(["SELECT 1"] if command[0] == "sql" else []), *command[1:]]
    got = subprocess.run(words, capture_output=True, text=True)
    said = got.stderr + got.stdout
    if got.returncode != 3 or "999" not in said or f"up to {newest}" not in said or ('"hint":' if "--json" in words else "hint: ") not in said:
        wrong.append(f"{' '.join(words[1:])}: exit {got.returncode}: {said}")
print("\n".join(wrong))
sys.exit(bool(wrong))
PY
