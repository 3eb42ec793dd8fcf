#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Seeds for fuzz_nsight: small cuts of the shared Nsight exports. usage: fuzz_nsight.sh FOLDER_OF_TRACES OUT
set -u
mkdir -p "$2"
command -v python3 > /dev/null || exit 0
python3 - "$1" "$2" << 'EOF'
import glob, gzip, os, sqlite3, sys, tempfile
traces, out = sys.argv[1:3]
for path in sorted(glob.glob(os.path.join(traces, "nsys*.sqlite.gz"))):
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "all")
        open(plain, "wb").write(gzip.open(path).read())
        for rows, size in ((1, 512), (5, 1024), (12, 1024)):
            seed = os.path.join(out, f"{os.path.basename(path).split('.')[0]}.{rows}")
            if os.path.exists(seed):
                os.remove(seed)
            db = sqlite3.connect(seed)
            db.execute(f"PRAGMA page_size={size}")
            db.execute("ATTACH ? AS a", (plain,))
            for name, sql in db.execute("SELECT name, sql FROM a.sqlite_master WHERE type='table'").fetchall():
                if name.startswith("ENUM_") or (rows == 1 and name.startswith(("TARGET_INFO_CUDA", "ANALYSIS_FILE", "Process"))):
                    continue
                columns = db.execute(f"SELECT name, type FROM pragma_table_info(?, 'a')", (name,)).fetchall()
                key = "id INTEGER PRIMARY KEY, value" if name == "StringIds" else ",".join(f'"{c}" {t}' for c, t in columns)
                db.execute(f'CREATE TABLE "{name}"({key})')
                if name != "StringIds":
                    db.execute(f'INSERT INTO "{name}" SELECT * FROM a."{name}" LIMIT {rows}')
            ids = set()
            for table, column in (("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"), ("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"), ("ThreadNames", "nameId"), ("NVTX_EVENTS", "textId")):
                ids |= {i for (i,) in db.execute(f"SELECT {column} FROM {table}") if i is not None}
            for i in ids:
                db.execute("INSERT OR IGNORE INTO StringIds SELECT id, substr(value, 1, 80) FROM a.StringIds WHERE id=?", (i,))
            db.commit()
            db.execute("DETACH a")
            db.execute("VACUUM")
            db.close()
EOF
exit 0
