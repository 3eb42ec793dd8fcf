-- SPDX-License-Identifier: Apache-2.0
-- The schema of a .tacho file, version 2. docs/schema.md explains every column. Times: CLOCK_MONOTONIC ns; sizes: bytes.
-- NULL always means "not measured", never 0. No secondary indexes: readers scan in id order (`tacho sql --index` adds them).
CREATE TABLE run (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE string (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE process (id INTEGER PRIMARY KEY, rank INTEGER, host TEXT, pid INTEGER, parent_pid INTEGER, program TEXT, device TEXT,
                      start INTEGER, "end" INTEGER, exit_status INTEGER, ended TEXT);
CREATE TABLE track (id INTEGER PRIMARY KEY, process INTEGER, kind TEXT NOT NULL, name TEXT, device TEXT, tid INTEGER, unit TEXT);
CREATE TABLE slice (id INTEGER PRIMARY KEY, track INTEGER NOT NULL, start INTEGER NOT NULL, dur INTEGER, name INTEGER,
                    category INTEGER, detail INTEGER, correlation INTEGER);
CREATE TABLE detail (id INTEGER PRIMARY KEY, flops INTEGER, bytes_read INTEGER, bytes_written INTEGER, dtype TEXT, pass TEXT,
                     kind TEXT, model_flops INTEGER, palm_flops INTEGER, bytes INTEGER, samples INTEGER, communicator INTEGER,
                     ranks INTEGER, collective TEXT, copy_kind TEXT, grid TEXT, block TEXT, schema TEXT, payload TEXT, flags INTEGER);
CREATE TABLE edge (from_slice INTEGER NOT NULL, to_slice INTEGER NOT NULL, kind TEXT NOT NULL);
CREATE TABLE counter (id INTEGER PRIMARY KEY, track INTEGER NOT NULL, time INTEGER NOT NULL, value REAL);
CREATE TABLE stack (id INTEGER PRIMARY KEY, parent INTEGER, frame INTEGER NOT NULL);
CREATE TABLE sample (id INTEGER PRIMARY KEY, track INTEGER NOT NULL, time INTEGER NOT NULL, value INTEGER);
CREATE TABLE step (process INTEGER NOT NULL, "index" INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER, tokens INTEGER,
                   samples INTEGER, paused INTEGER NOT NULL DEFAULT 0);
CREATE TABLE step_aggregate (process INTEGER NOT NULL, step INTEGER NOT NULL, track INTEGER NOT NULL, name INTEGER, category INTEGER,
                             detail INTEGER, count INTEGER NOT NULL, total INTEGER NOT NULL, self INTEGER NOT NULL,
                             steps INTEGER NOT NULL DEFAULT 1);
CREATE TABLE ceiling (device TEXT, resource TEXT NOT NULL, dtype TEXT, value REAL NOT NULL, source TEXT NOT NULL);
CREATE TABLE loss (source TEXT NOT NULL, reason TEXT NOT NULL, count INTEGER, t0 INTEGER, t1 INTEGER, PRIMARY KEY (source, reason));
CREATE TABLE metric (name TEXT PRIMARY KEY, value REAL, unit TEXT, reason TEXT);
CREATE TABLE finding (id TEXT PRIMARY KEY, json TEXT NOT NULL);
CREATE TABLE clock_anchor (tsc INTEGER, monotonic INTEGER NOT NULL, realtime INTEGER NOT NULL);
