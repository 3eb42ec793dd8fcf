#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Seeds of fuzz_mcp: a session, and a call of each tool. usage: fuzz_mcp.sh TRACES SEEDS
set -eu
mkdir -p "$2"
cd "$2"
{
    echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}'
    echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
    echo '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
    echo '[{"jsonrpc":"2.0","id":"3","method":"ping"},{"jsonrpc":"2.0","id":4.5,"method":"none"}]'
} > session
call() { printf '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":%s}}\n' "$1" "$2" > "$1"; }
call summarize '{"run":"latest","max_bytes":500}'
call explain '{"finding":"INPUT_STALL"}'
call get '{"section":"kernels.0","match":"a","sort":"-total_us","fields":"name,total_us","by":"module","offset":1,"limit":2}'
call steps '{"order":"index","rank":0,"step":1,"from":1,"to":2,"limit":3}'
call ranges '{"by":"position","match":"x","min_us":0.5}'
call slices '{"order":"start","limit":1000}'
call diff '{"baseline":"a","candidate":"b"}'
call advise '{"edits":"comm=0.5x,loader.workers=8"}'
call sql '{"query":"SELECT 1"}'
call list_runs '{"folder":"."}'
call define '{"name":"mfu"}'
