#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 1800
# That 28_gpu_other_tools sees what it is for: with any one of the recorder's defects put back into a copy of the sources, the function
# of that defect must fail there. The defects are numbered as in that script; those with the number `streams` are for 35_gpu_streams.
# $GPU_DEFECTS: only these numbers.
set -u
[ -z "${SAN:-}" ] || { echo "the other build does this"; exit 77; }
cd "$TMPDIR" || exit 1
fail=0 defects=0
mkdir tree && cp -a "$SRC"/{Makefile,.ci,include,profiler,store,analyzers,planner,tuner,monitor,history,reports,tui,cli,libtrain,workloads,tests,share,docs} tree/ || exit 1
cd tree || exit 1
# objects of the build, with their times: only what a change touches is compiled again
mkdir build && cp -a "$BUILD"/{config.mk,compiler,flags,gen,obj,tacho,libtacho.so,libtacho.a,train} build/ || exit 1
[ ! -d "$BUILD/nvtx" ] || cp -a "$BUILD/nvtx" build/
rm -rf build/obj/tests
ln -s "$BUILD/tests" build/tests
make_again() { make -s O=build build/tacho build/libtacho.so > ../make.out 2>&1 || { tail -5 ../make.out; exit 1; }; }
# fails NUMBER: does the function of that defect fail with what was built?
fails() {
    local script=28_gpu_other_tools
    [ "$1" != streams ] || script=35_gpu_streams
    rm -rf ../work && mkdir ../work
    ! TMPDIR=$(realpath ../work) BUILD=$PWD/build TACHO=$PWD/build/tacho LIBTACHO=$PWD/build/libtacho.so GPU_DEFECTS=$1 \
        timeout 120 tests/e2e/agent/$script.sh > ../said 2>&1
}
# defect NUMBER WHAT FILE SED...: put back, built, tried, taken out
defect() {
    local number=$1 what=$2 file=profiler/$3
    case " ${GPU_DEFECTS:-$number} " in *" $number "*) ;; *) return ;; esac
    shift 3
    cp -a "$file" ../kept
    sed -i "$@" "$file"
    defects=$((defects + 1))
    if cmp -s "$file" ../kept; then
        echo "FAIL: $number, $what: the source has no such place any more"
        fail=1
        return
    fi
    make_again
    if fails "$number"; then
        echo "$number: $what: $(grep -c . ../said) complaints, the first: $(head -1 ../said)"
    else
        echo "FAIL: $number, $what: nobody misses the mend"
        fail=1
    fi
    cp ../kept "$file" # a newer file than the object that has the defect
}

make_again
defect 1_2 "the subscription is held from the start" agent/gpu/cupti.c '/int rc = subscribe(false);/{n;d}'
defect 1_2 "buffers that CUPTI holds at a hand-over are left there" agent/gpu/cupti.c \
    '/^static void give_up/,/^}/{s/i < HAND_OVER_TRIES/false/;/agent_capture_end();/d;/flush(CUPTI_FLUSH_FORCED)/d}'
defect 3 "queries become rows" collector/drain/gpu_rows.c 's/(record->kind == COL_CUPTI_SYNC && record->result) ||//'
defect 3 "CUPTI records every query" agent/gpu/cupti_capture.c 's/cupti->ActivityEnableAllSyncRecords(0);/(void)cupti;/'
defect 1_2 "what CUPTI dropped for another profiler is a loss" agent/gpu/cupti_buffer.c 's/if (!rc && cupti->ActivityGetNumDroppedRecords)/if (rc)/'
defect 4 "wrong ids of graph launches are kept" agent/gpu/cupti_capture.c 's/relaxed_store(&gpu->graph_ids_until, .*/return;/'
defect 5 "CUPTI's memory on the device has no limit" agent/gpu/cupti_capture.c 's/^    limit_device_memory();/    (void)limit_device_memory;/'
defect 6 "sizes of records end at 13.0" collector/pool/cupti.c '/{COL_CUPTI_[A-Z0-9_]*, 130[1-5]00, /d'
defect 6 "a library without a version is refused" agent/gpu/cupti.c 's/        gpu->cupti_version = 0;/        return CUPTI_UNKNOWN;/'
defect 7 "each thread has a buffer" agent/gpu/cupti_capture.c 's/cupti->ActivitySetAttribute(CUPTI_ATTR_PER_THREAD_BUFFER.*/(void)no;/'
defect 8 "a CUPTI that is newer than the driver is the only one tried" agent/gpu/cupti.c \
    's/if (rc != CUPTI_NOT_INITIALIZED && rc != CUPTI_UNKNOWN)/if (i < CUPTI_REJECTED_MOST)/'
defect 8 "error 15 is not explained" collector/drain/gpu_report.c 's/newer than the driver; set/set/'
defect 9 "a kernel that runs at exit has no reason of its own" collector/drain/gpu_rows.c \
    's/: reason\[origin\],/: reason[origin == COL_GPU_FORCED ? COL_GPU_COMPLETE : origin],/'
defect 10 "a slice is not known as one" collector/pool/cupti.c 's/record->bytes >= 176 && record->raw\[145\]/record->bytes == 1/'
defect 10 "functions of the host are not recorded" agent/gpu/cupti_capture.c 's/&= agent_cuda.gpu->cupti_version >= CUPTI_VERSION_NEWER_KINDS/\&= false/'
defect 10 "nobody else may subscribe" agent/gpu/cupti.c 's/params.several = several;/params.several = several \&\& false;/'
defect streams "waits are recorded all the time" agent/gpu/cupti_capture.c 's/bool waits = \*list ||/bool waits = true || *list ||/'
defect streams "the recording of waits is never switched" agent/gpu/cupti.c '/agent_capture_waits();/d'
defect streams "what is known of the streams is forgotten at a window's end" agent/gpu/cupti_capture.c \
    's/^    note_session_end();/&\n    relaxed_store(\&agent_cuda.streams, 0);/'
defect streams "waits are not recorded until a second stream is seen" agent/gpu/cupti_capture.c 's/return relaxed_load(&agent_cuda.streams) != 1;/return relaxed_load(\&agent_cuda.streams) > 1;/'
defect streams "uses of other streams count from the start" agent/gpu/cupti_capture.c 's/relaxed_store(&agent_cuda.strays, 0);/;/'
defect streams "the start of a library is a second stream" agent/gpu/cupti_record.c 's/if (strays < WIRE_GPU_SECOND_STREAM)/if (strays < 1)/'
defect streams "the first work's stream is the one, though a library had it" agent/gpu/cupti_record.c 's/if (ops >= WIRE_GPU_SECOND_STREAM)/if (ops)/'
defect streams "a call that waits is not seen" agent/gpu/cupti_record.c 's/cbid == wait\[domain\]\[0\]/cbid == 0/'
defect streams "work on another stream is not seen" agent/gpu/cupti_record.c 's/if (ops && place != own)/if (!ops \&\& place != own)/'
defect streams "the time until waits are recorded again is not said" collector/drain/gpu_report.c 's/if (gpu->waits_reported ||/if (seen || gpu->waits_reported ||/'
defect streams "a killed process has a second stream by the start of a library" collector/drain/gpu_report.c \
    's/return others >= (int64_t)WIRE_GPU_SECOND_STREAM ?/return others ?/'
defect streams "a killed process has one stream" collector/drain/gpu_report.c 's/begin = second_stream(gpu);/(void)second_stream;/'
make_again
fails streams && { echo "FAIL: without a defect"; cat ../said; fail=1; }
fails "${GPU_DEFECTS:-}" && { echo "FAIL: without a defect"; cat ../said; fail=1; }
echo "$defects defects put back, one at a time"
exit $fail
