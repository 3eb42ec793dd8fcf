#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# docs/schema.md against a real file: every table and column it names is there, none is missing from it, its examples run.
set -u
. "$(dirname "$0")/../kit/cli_common.sh"
doc=$SRC/docs/schema.md
doc=$(realpath "$doc")
work_folder schema
expect 0 "$TACHO" run -o doc -- "$TRAIN" gpt2-tiny --steps 12
run=doc.tacho

# documented: "**table** — ..." and under it "| column, column | meaning |"
awk '/^\*\*[a-z_]+\*\* —/ { table = $1; gsub(/\*/, "", table) }
     /^## / { table = "" }
     table != "" && /^\| [a-z]/ { split($0, cell, "|"); n = split(cell[2], name, /, */)
         for (i = 1; i <= n; i++) { gsub(/ /, "", name[i]); if (name[i] != "column") print table "." name[i] } }' "$doc" |
    sort -u > "$work/documented"
sqlite3 "$run" "SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'" | sort -u > "$work/real"
diff -u "$work/documented" "$work/real" || fail "docs/schema.md (-) and the file (+) differ"
[ "$(sqlite3 "$run" 'PRAGMA application_id')" = 1413695567 ] || fail "application_id"
[ "$(sqlite3 "$run" 'PRAGMA user_version')" = 2 ] || fail "user_version"

# examples in SQL (DuckDB's are not SQLite's)
awk '/^```sql/ { n++; on = 1; next } /^```/ { on = 0 } on { print > ("'"$work"'/example" n ".sql") }' "$doc"
examples=0
for file in "$work"/example*.sql; do
    ! grep -q ATTACH "$file" || continue
    "$TACHO" sql "$run" --csv < "$file" > "$work/out" 2> "$work/err" || fail "$(cat "$file" "$work/err")"
    [ "$(wc -l < "$work/out")" -ge 1 ] || fail "no answer: $(cat "$file")"
    examples=$((examples + 1))
done
[ $examples -ge 4 ] || fail "only $examples examples"

# keys of `run` that the text names are the keys that a run has
for key in $(sqlite3 "$run" "SELECT key FROM run WHERE key NOT LIKE 'counter.%'"); do
    [[ $key != process.[0-9]*.* ]] || key=process.P.${key#process.*.}
    grep -q "\`$key\`" "$doc" || fail "run.key '$key' is not in docs/schema.md"
done

# what Python sees
if command -v python3 > /dev/null && python3 -c 'import sqlite3' 2> /dev/null; then
    python3 - "$run" << 'EOF' || fail "Python's sqlite3"
import sqlite3, sys
db = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True)
assert db.execute('SELECT count(*) FROM step').fetchone()[0] == 12
for table in [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]:
    db.execute(f'SELECT * FROM "{table}"').fetchall()
EOF
fi
echo "note: $examples examples"
