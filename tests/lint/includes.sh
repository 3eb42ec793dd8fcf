#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Direction of includes: fails on an arrow between rooms that the table in CONTRIBUTING.md does not have, and on a library
# header in a room whose row does not name the library. usage: tests/lint/includes.sh [ROOT]
set -u
cd "${1:-"$(dirname "$0")/../.."}" || exit 2

# files of the rooms; what is generated lies in build folders, which are left out
files=$(find analyzers cli history include libtrain monitor planner profiler reports store tui tuner workloads \( -name '*.[ch]' -o -name '*.cu' \) 2> /dev/null | sort)
if [ -z "$files" ] || [ ! -f CONTRIBUTING.md ]; then
    echo "includes: no sources or no CONTRIBUTING.md in $PWD" >&2
    exit 2
fi
# shellcheck disable=SC2086  # one word a file
awk -v "existing=$files" '
# the backticked words of a table cell
function words(cell, list,    n) {
    n = 0
    while (match(cell, /`[^`]+`/)) {
        list[++n] = substr(cell, RSTART + 1, RLENGTH - 2)
        cell = substr(cell, RSTART + RLENGTH)
    }
    return n
}
function starts(text, prefix) { return substr(text, 1, length(prefix)) == prefix }
# a/b/../c -> a/c
function normal(path,    part, n, i, out, k) {
    n = split(path, part, "/")
    k = 0
    for (i = 1; i <= n; i++) {
        if (part[i] == "" || part[i] == ".") continue
        if (part[i] == ".." && k > 0) { k--; continue }
        out[++k] = part[i]
    }
    path = out[1]
    for (i = 2; i <= k; i++) path = path "/" out[i]
    return path
}
function room_of(path,    r, best) {
    best = ""
    for (r in room) if (starts(path, r) && length(r) > length(best)) best = r
    return best
}
function allowed(from, to,    n, i, entry) {
    n = split(may[from], entry, " ")
    for (i = 1; i <= n; i++)
        if (entry[i] == to || entry[i] == "*" || (entry[i] ~ /\/$/ && room_of(to) == entry[i])) return 1
    return 0
}
function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    bad++
}
BEGIN {
    n = split(existing, list, "\n")
    for (i = 1; i <= n; i++) exists[list[i]] = 1
}
FILENAME == "CONTRIBUTING.md" {
    if (/<!-- rooms/) table = 1
    else if (/<!-- end of rooms/) table = 0
    else if (table && /^\| *`/) {
        split($0, cell, "|")
        words(cell[2], name)
        room[name[1]] = 1
        n = words(cell[4], w)
        for (i = 1; i <= n; i++) may[name[1]] = may[name[1]] " " w[i]
        n = words(cell[5], w)
        for (i = 1; i <= n; i++) { library[w[i]] = 1; uses[name[1], w[i]] = 1 }
        rooms++
    }
    next
}
FNR == 1 {
    if (rooms < 2) { print "CONTRIBUTING.md: no table of rooms"; bad++; exit }
    from = room_of(FILENAME)
    folder = FILENAME
    sub(/[^\/]*$/, "", folder)
    checked++
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, q, "\"")
    if (exists[normal(folder q[2])]) to = normal(folder q[2])
    else if (exists[normal(q[2])]) to = normal(q[2])
    else if (exists[normal("include/" q[2])]) to = normal("include/" q[2])
    else if (q[2] ~ /\.inc$/) next # generated from the room itself
    else { complain("cannot tell which file \"" q[2] "\" is"); next }
    if (room_of(to) != from && !allowed(from, to)) complain(from " may not include " to)
    arrows++
}
/^[ \t]*#[ \t]*include[ \t]*</ {
    header = $0
    sub(/^[^<]*</, "", header)
    sub(/>.*/, "", header)
    if (exists[header] || exists["include/" header]) complain("write \"" header "\" with quotes: it is ours")
    for (l in library) if (starts(header, l) && !((from, l) in uses)) complain(from " may not use <" header ">")
}
END {
    if (!bad) printf "includes: %d files, %d includes of ours, every arrow is in the table\n", checked, arrows
    exit bad != 0
}' CONTRIBUTING.md $files
