#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Seeds for the fuzz targets of other producers' formats: small made files. usage: formats.sh TARGET OUT
set -u
mkdir -p "$2"
command -v python3 > /dev/null || exit 0
made=$(mktemp -d) || exit 1
trap 'rm -rf "$made"' EXIT
python3 tests/e2e/import/formats.py make "$made" || exit 1
python3 tests/e2e/import/logs.py make "$made/training" || exit 1
python3 tests/e2e/import/log_forms.py make "$made/forms" || exit 1
python3 tests/e2e/import/profiles.py make "$made/profiles" || exit 1
python3 tests/e2e/import/versions.py make "$made/versions" || exit 1
python3 tests/e2e/import/kin.py make "$made/kin" || exit 1
case $1 in
fuzz_xplane) cp "$made"/*.xplane.pb "$made"/versions/*.xplane.pb "$2" ;;
fuzz_flight) for rank in 0 1 2; do head -c 2500 "$made/versions/hang/nccl_trace_rank_$rank" > "$2/$rank"; done ;;
fuzz_unitrace) cp "$made"/versions/python.4242.json "$2" ;;
fuzz_xla_json)
    cp "$made"/kin/tf*.json "$2"
    printf '%s' '{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:TPU:0"}},{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"XLA Ops"}},
{"ph":"M","pid":1,"tid":3,"name":"thread_name","args":{"name":"Steps"}},{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}},
{"ph":"X","pid":1,"tid":2,"ts":1.5,"dur":2,"name":"fusion.1","args":{"hlo_category":"while","hlo_module":"jit_f","correlation_id":"3"}},
{"ph":"X","pid":1,"tid":3,"ts":1,"dur":9,"name":"5"},{"ph":"X","pid":701,"tid":7,"ts":1,"dur":3,"name":"$a.py:1 f","args":{"step_num":"2"}}]}' > "$2/tpu" ;;
fuzz_rocprof)
    cp "$made"/versions/rocprof.json "$made"/versions/rpd.json "$made"/versions/tables_amd/77_[khm]*_trace.csv "$2"
    printf '%s' '{"rocprofiler-sdk-tool":[{"metadata":{"pid":5,"node":{"hostname":"n"}},"agents":[{"id":{"handle":9},"type":2,
"logical_node_type_id":0,"cu_count":4,"product_name":"MI"}],"strings":{"buffer_records":[{"kind":"NONE","operations":[]},{"kind":"HIP_RUNTIME_API",
"operations":["hipFree"]},{"kind":"MARKER_CORE_API","operations":["roctxMarkA"]}],"marker_api":[{"key":7,"value":"st\"ep"}]},"kernel_symbols":[{"kernel_id":1,
"formatted_kernel_name":"gemm.kd"}],"buffer_records":{"kernel_dispatch":[{"start_timestamp":5,"end_timestamp":9,"correlation_id":{"internal":3},
"dispatch_info":{"agent_id":{"handle":9},"queue_id":{"handle":1},"kernel_id":1,"grid_size":{"x":64,"y":1,"z":1},"workgroup_size":{"x":64,"y":1,"z":1}}}],
"hip_api":[{"kind":1,"operation":0,"thread_id":5,"start_timestamp":1,"end_timestamp":2,"correlation_id":{"internal":3}}],"marker_api":[{"kind":2,
"operation":0,"thread_id":5,"start_timestamp":1,"end_timestamp":2,"correlation_id":{"internal":7}}],"memory_copy":[{"kind":0,"operation":0,
"src_agent_id":{"handle":9},"bytes":5,"start_timestamp":1,"end_timestamp":2}]}}]}' > "$2/one" ;;
fuzz_rocpd) cp "$made"/*_results.db "$made"/versions/*.rpd "$2" ;;
fuzz_ascend) cp "$made"/trace_view.json "$2" ;;
fuzz_ascend_csv)
    cp "$made"/versions/*.csv "$2"
    printf '%s\n' 'Step Id,Device_id,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Input Shapes' \
        '1,0,16,Cast1,Cast,AI_CORE,1699529622790614.8,607.98,"""5,6"""' '2,N/A,N/A,hcom,hcom_,HCCL,1.5,2,N/A' > "$2/table" ;;
fuzz_log) for log in "$made"/training/*.log "$made"/forms/*.log "$made"/forms/*.csv; do head -c 1500 "$log" > "$2/${log##*/}"; done ;;
fuzz_tfevents) head -c 1500 "$made"/training/events.out* > "$2/events"; head -c 1500 "$made"/forms/unnumbered/events.out* > "$2/unnumbered" ;;
fuzz_chakra)
    cp "$made"/training/graph.et "$made"/versions/messages.json "$2"
    printf '%s' '{"workload_graph":[{"Id":1,"Name":"a","NodeType":4,"data_deps":[],"runtime":3,"is_cpu_op":true},{"Id":2,"Name":"nccl","NodeType":7,
"ctrlDeps":[1],"data_deps":[1],"runtime":5,"is_cpu_op":false}]}' > "$2/json"
    printf '%s' '{"schema":"1.0.2-chakra.0.0.4","nodes":[{"id":2,"name":"a","ctrl_deps":1,"inclusive_dur":5,"ts":7.5,"stream":7}]}' > "$2/linked"
    ;;
fuzz_inspector)
    head -c 3000 "$made"/training/inspector/node-1-pid71.log > "$2/verbose"
    head -c 3000 "$made"/training/marker.log > "$2/marker"
    ;;
fuzz_perfetto)
    cp "$made"/profiles/*.pftrace "$2"
    for trace in "$made"/versions/*.pftrace; do cp "$trace" "$2/version-${trace##*/}"; done # both folders have a packed.pftrace
    ;;
fuzz_pprof)
    gzip -dc "$made"/profiles/cpu.pb.gz > "$2/cpu"
    cp "$made"/versions/parca.pb "$made"/versions/micro.pb "$2"
    ;;
fuzz_workers)
    python3 tests/e2e/import/workers.py write "$made/workers.json" "$made/truth" || exit 1
    head -c 6000 "$made/workers.json" > "$2/cut"
    printf '%s' '[{"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"PP rank 0, TP rank 0, compute"}},{"ph":"X","name":"forward-compute",
"pid":0,"tid":0,"ts":1,"dur":5,"args":{"step":1,"model_chunk":0,"mb_id":0,"seq_id":0}}]' > "$2/one"
    ;;
fuzz_pickle) cp "$made"/*.pickle "$made"/hang/nccl* "$2" ;;
esac
