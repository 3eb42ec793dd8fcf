/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of kinds of files that tacho cannot read.
 */
#include "store/import/kinds/kinds.h"

#include <stdint.h>
#include <string.h>

#define TAR_MAGIC_AT 257
#define FOLDED_LINES 16

/* How a row recognises a file: by the end of its name; by bytes at a place; by words that all are
 * in the beginning of a text. */
struct signature {
    const char *suffix;
    const char *magic; /* of magic_bytes bytes at `at` */
    size_t magic_bytes, at;
    bool json;   /* the text is JSON, but no trace of events */
    bool events; /* JSON that has events nevertheless */
    bool folded; /* each line is a stack, a space and a count */
    bool times;  /* JSON that begins with a list in a list, whose first number is a time of day, or
                  * -1 for what was there before */
    bool first;  /* an importer would take it by its content */
    const char *words[3];
    const char *without; /* a word that it does not hold; NULL: any */
    struct imp_kind kind;
};

#define MAGIC(text, place) .magic = (text), .magic_bytes = sizeof(text) - 1, .at = (place)

#define HINT_UNPACK "unpack it, and give the trace in it or the folder"
#define HINT_RUN \
    "record the program with 'tacho run -- CMD', which samples call stacks with --stacks"
#define HINT_NOT  "give the trace that the profiler wrote, not this file"
#define HINT_NSYS "export it: nsys export --type sqlite FILE, then give the .sqlite file"
#define HINT_ROCPROF \
    "give the trace: the *_results.db or *_results.json, or the folder with *_kernel_trace.csv"
#define HINT_NVPROF \
    "record with Nsight Systems, which replaces nvprof, and export it: nsys export --type sqlite"
#define HINT_ASCEND \
    "record a timeline: with torch_npu.profiler, or msprof --output=FOLDER CMD; then give its " \
    "folder"
#define HINT_ASCEND_TEXTS \
    "export texts: export_type=torch_npu.profiler.ExportType.Text, or msprof --export=on " \
    "--output=PROF_FOLDER"
#define HINT_TORCH "export the trace: prof.export_chrome_trace(\"trace.json\")"

#define LOG_UNTIMED(what) \
    { \
        what ": its steps have no times", \
            "give what the program prints, which has the milliseconds of each step: " \
            "COMMAND | tee train.log", \
            false \
    }

#define PERF \
    { \
        "a recording of Linux perf", HINT_RUN, false \
    }
#define NVIDIA_SMI \
    { \
        "a log of nvidia-smi", \
            "record the program with 'tacho run -- CMD', which samples the GPUs too", false \
    }
#define HTML \
    { \
        "an HTML page: a report, or an error of a download", \
            "give the trace itself, or download it again", false \
    }
#define OTHER_SYSTEM(of) \
    { \
        "a program of " of ", not a trace", "give the trace that a profiler wrote", false \
    }
#define CHECKPOINT \
    { \
        "a checkpoint of PyTorch (torch.save)", HINT_NOT, false \
    }
#define CPROFILE \
    { \
        "a cProfile file", HINT_RUN, false \
    }

#define XLA_TABLE \
    { \
        "a table that TensorBoard made of a profile of XLA", \
            "give the .xplane.pb, or the .trace.json.gz, of the same folder", false \
    }

#define MEMORY_TIMELINE \
    { \
        "a memory timeline of torch.profiler (export_memory_timeline)", \
            "export the trace of the same profile: prof.export_chrome_trace(\"trace.json\"); or " \
            "dump a snapshot: torch.cuda.memory._dump_snapshot(\"memory.pickle\")", \
            false \
    }

static const struct signature signatures[] = {
    /* profilers of accelerators */
    {.suffix = ".nsys-rep", .kind = {"an Nsight Systems report", HINT_NSYS, true}},
    {.suffix = ".qdrep", .kind = {"an Nsight Systems report", HINT_NSYS, true}},
    {.suffix = ".qdstrm",
     .kind = {"an unfinished Nsight Systems capture",
              "finish it with QdstrmImporter, then: nsys export --type sqlite FILE", false}},
    {MAGIC("NSYS", 0), .kind = {"an Nsight Systems report", HINT_NSYS, true}},
    {MAGIC("NVR\0", 0),
     .kind = {"an Nsight Compute report of single kernels",
              "record a timeline instead: nsys profile --trace=cuda,nvtx,osrt CMD, then nsys "
              "export --type sqlite",
              false}},
    {.suffix = ".ncu-rep",
     .kind = {"an Nsight Compute report of single kernels",
              "record a timeline instead: nsys profile --trace=cuda,nvtx,osrt CMD, then nsys "
              "export --type sqlite",
              false}},
    {.first = true,
     MAGIC("SQLite format 3", 0),
     .words = {"read_only_ops", "dlprof_version"},
     .kind = {"a database of DLProf",
              "give the nsys_profile.sqlite beside it, which DLProf made it from", false}},
    {.suffix = ".nvvp", .first = true, .kind = {"an nvprof profile", HINT_NVPROF, false}},
    {.first = true,
     MAGIC("SQLite format 3", 0),
     .words = {"CUPTI_ACTIVITY_KIND_", "CREATE TABLE StringTable"},
     .kind = {"an nvprof profile", HINT_NVPROF, false}},
    {.first = true,
     MAGIC("SQLite format 3", 0),
     .words = {"BeginNs", "__section", "__lane"},
     .kind = {"a database of the older rocprof", "give the results.json that was written with it",
              false}},
    {.suffix = ".otf2",
     .kind = {"an OTF2 trace (Score-P, rocprofv3)",
              "rocprofv3: record with --output-format json; Score-P: record with 'tacho run -- "
              "CMD'",
              false}},
    {MAGIC("OTF2", 0),
     .kind = {"an OTF2 trace (Score-P, rocprofv3)",
              "rocprofv3: record with --output-format json; Score-P: record with 'tacho run -- "
              "CMD'",
              false}},
    {.suffix = ".vtune",
     .kind = {"a VTune result", "record with torch.profiler, or " HINT_RUN, false}},
    {.words = {"\"Counter_Name\"", "\"Counter_Value\"", "\"Dispatch_Id\""},
     .kind = {"a table of counters of rocprofv3", HINT_ROCPROF, false}},
    {.words = {"\"Name\",\"Calls\",\"TotalDuration"},
     .kind = {"a table of sums of rocprof", HINT_ROCPROF, false}},
    {.words = {"\"Node_Id\"", "\"Agent_Type\""},
     .kind = {"rocprofv3's list of agents", HINT_ROCPROF, false}},
    {.words = {"KernelName", "gpu-id", "BeginNs"},
     .kind = {"a CSV table of the older rocprof",
              "record with rocprofv3 --sys-trace --output-format json", false}},
    {.words = {"Profiling result:", "NVPROF"},
     .kind = {"a table that nvprof printed", HINT_NVPROF, false}},
    {.words = {"\"Start\",\"Duration\",\"Grid X\""},
     .kind = {"a table that nvprof printed", HINT_NVPROF, false}},
    {.words = {"\"Kernel Name\"", "\"Metric Name\"", "\"Metric Value\""},
     .kind = {"a table of single kernels of Nsight Compute",
              "record a timeline instead: nsys profile --trace=cuda,nvtx,osrt CMD, then nsys "
              "export --type sqlite",
              false}},
    {.words = {"Time(%)", "Total Time (ns)", "Instances"}, /* versions before 2022 */
     .kind = {"a table that nsys stats printed",
              "give the export that it was made from: nsys export --type sqlite FILE.nsys-rep",
              false}},
    {.words = {"Time (%)", "Total Time (ns)", "Instances"},
     .kind = {"a table that nsys stats printed",
              "give the export that it was made from: nsys export --type sqlite FILE.nsys-rep",
              false}},
    {.words = {"\"NsysExport\""},
     .json = true,
     .kind = {"a JSON export of Nsight Systems",
              "export SQLite instead: nsys export --type "
              "sqlite FILE.nsys-rep",
              false}},
    {.words = {"utilization.gpu", "memory.used"}, .kind = NVIDIA_SMI},
    {.words = {"NVIDIA-SMI", "Driver Version"}, .kind = NVIDIA_SMI},
    {.words = {"# gpu ", "# Idx "}, .kind = NVIDIA_SMI}, /* dmon, pmon */

    {.first = true,
     MAGIC("SQLite format 3", 0),
     .words = {"CANN_API"},
     .kind = {"a database of Ascend's profilers", HINT_ASCEND_TEXTS, false}},
    {.words = {"\"timestamps\"", "\"REQUEST_START\"", "\"ns\""},
     .json = true,
     .kind = {"a trace of requests of the Triton Inference Server",
              "record the server with Nsight Systems, or with 'tacho run -- CMD'", false}},
    {.first = true,
     MAGIC("SQLite format 3", 0),
     .words = {"StepTraceTime", "communication_not_overlapped"},
     .kind = {"a database of sums of torch_npu", HINT_ASCEND_TEXTS, false}},
    {.first = true,
     MAGIC("SQLite format 3", 0),
     .words = {"memscope_dump"},
     .kind = {"a database of memory events of an Ascend NPU (msMemScope)", HINT_ASCEND, false}},
    {.words = {"Op Name", "Task Duration(us)", "Current Freq"},
     .kind = {"a table of single operators of an Ascend NPU (msprof op)", HINT_ASCEND, false}},
    {.words = {"Step", "Computing,Communication(Not Overlapped),Overlapped,"},
     .kind = {"a table of sums of steps of an Ascend NPU (step_trace_time.csv)",
              "give the trace_view.json of the capture, or the folder of all ranks", false}},
    {.words = {"\"ProfilerLifecycle\"", "\"commId\""},
     .json = true,
     .kind = {"a log of a profiler plugin of NCCL",
              "record the program with 'tacho run -- CMD', which records its collectives, or give "
              "a dump of the NCCL Inspector",
              false}},
    {.words = {"nccl_bus_bandwidth_gbs{"},
     .kind = {"a file of Prometheus metrics of the NCCL Inspector",
              "let it write JSON: NCCL_INSPECTOR_PROM_DUMP=0", false}},

    /* profilers of programs */
    {.words = {"\"prev_comm\"", "\"next_comm\""},
     .json = true,
     .kind = {"a list of context switches (bpftrace)", HINT_RUN, false}},
    {MAGIC("{\"type\": \"attached_probes\"", 0), .json = true,
     .kind = {"the output of bpftrace", HINT_RUN, false}},
    {MAGIC("PERFFILE", 0), .kind = PERF}, /* its first version, and the other byte order */
    {MAGIC("2ELIFREP", 0), .kind = PERF},
    {MAGIC("PERFILE2", 0), .kind = PERF},
    {.words = {"speedscope.app/file-format-schema"},
     .json = true,
     .kind = {"a speedscope profile (py-spy, rbspy)", HINT_RUN, false}},
    {.words = {"\"cat\":\"py-spy\""},
     .without = "\"traceEvents\"",
     .json = true,
     .events = true, /* made of samples: their times are no times of calls */
     .kind = {"a profile of samples (py-spy, chrometrace)", HINT_RUN, false}},
    {.words = {"<svg", "Flame graph stack visualization"},
     .kind = {"the picture of a flame graph (py-spy, flamegraph.pl, inferno)", HINT_RUN, false}},
    {.folded = true,
     .kind = {"a list of folded stacks (py-spy raw, export_stacks of torch.profiler)", HINT_RUN,
              false}},
    {.words = {"\"profiles\"", "\"shared\"", "\"frames\""},
     .json = true,
     .kind = {"a speedscope profile (py-spy, rbspy)", HINT_RUN, false}},
    {.words = {"\"stackTable\"", "\"frameTable\""},
     .json = true,
     .kind = {"a Firefox profile (samply)", HINT_RUN, false}},
    {.words = {"\"nodes\"", "\"callFrame\"", "\"timeDeltas\""},
     .json = true,
     .kind = {"a CPU profile of V8 (Node.js, Chrome)", HINT_RUN, false}},
    {.words = {"\"root_frame\"", "\"sample_count\""},
     .json = true,
     .kind = {"a pyinstrument session", HINT_RUN, false}},
    {.words = {"\"files\"", "\"elapsed_time_sec\"", "\"growth_rate\""},
     .json = true,
     .kind = {"a Scalene profile", HINT_RUN, false}},
    {MAGIC("\0\0\0\0\0\0\0\0\3\0\0\0\0\0\0", 0),
     .kind = {"a CPU profile of gperftools", "convert it: pprof -proto PROGRAM FILE > FILE.pb",
              false}},
    {MAGIC("\0\0\0\0\3\0\0\0\0\0\0", 0),
     .kind = {"a CPU profile of gperftools", "convert it: pprof -proto PROGRAM FILE > FILE.pb",
              false}},
    {MAGIC("heap profile:", 0), .kind = {"a heap profile of gperftools", HINT_RUN, false}},
    {MAGIC("--- contention", 0), .kind = {"a contention profile of gperftools", HINT_RUN, false}},
    {MAGIC("--- heap", 0), .kind = {"a heap profile of gperftools", HINT_RUN, false}},
    {MAGIC("heap_v2/", 0), .kind = {"a heap profile of jemalloc", HINT_RUN, false}},
    {MAGIC("memray\0", 0), .kind = {"a recording of memray", HINT_RUN, false}},
    {MAGIC("MOJ", 0), .kind = {"a recording of Austin (MOJO)", HINT_RUN, false}},
    {.words = {"line_profiler", "LineStats"},
     .first = true,
     .kind = {"a profile of line_profiler", HINT_RUN, false}},
    {MAGIC("threadcreate profile:", 0), .kind = {"a profile of threads of Go", HINT_RUN, false}},
    {.suffix = ".prof", MAGIC("{", 0), .kind = CPROFILE},
    /* a dict of marshal whose first key is a tuple of three; each may have the flag of what is
     * referred to again, and Python 2 writes the count in four bytes */
    {MAGIC("\xfb)\3", 0), .kind = CPROFILE},
    {MAGIC("\xfb\xa9\3", 0), .kind = CPROFILE},
    {MAGIC("{)\3", 0), .json = true, .kind = CPROFILE},
    {MAGIC("{\xa9\3", 0), .json = true, .kind = CPROFILE},
    {MAGIC("{(\3\0\0\0", 0), .json = true, .kind = CPROFILE},
    {.words = {"ncalls", "tottime", "percall"},
     .kind = {"a table that cProfile printed", HINT_RUN, false}},
    {.words = {"\"children\"", "\"frame\"", "\"metrics\""},
     .json = true,
     .kind = {"a profile tree of Triton's Proton (Hatchet)",
              "record a timeline: proton.start(NAME, data=\"trace\")", false}},
    {.times = true, .json = true, .kind = MEMORY_TIMELINE},
    {.words = {"<title>GPU Memory Timeline HTML"}, .kind = MEMORY_TIMELINE},
    {.words = {"Self CPU %", "CPU total %", "# of Calls"},
     .kind = {"a table that torch.profiler printed (key_averages)", HINT_TORCH, false}},

    /* frameworks */
    {.words = {"\"collective\"", "\"p2p\"", "\"Transit Time(ms)\""},
     .json = true,
     .kind = {"a table of collectives of msprof", "give trace_view.json of the same folder",
              false}},
    {.words = {"\"start_info\"", "\"config\""},
     .json = true,
     .kind = {"the settings of a profile of torch_npu", "give trace_view.json of the same folder",
              false}},
    {.words = {"\"ENV_VARIABLES\"", "\"ASCEND_GLOBAL_LOG_LEVEL\""},
     .json = true,
     .kind = {"the settings of a profile of torch_npu", "give trace_view.json of the same folder",
              false}},
    {.words = {"\"schema\"", "chakra", "\"nodes\""},
     .without = "\"inclusive_dur\"",
     .json = true,
     .kind = {"an execution trace of PyTorch (Chakra): its operators have no times",
              "give the Kineto trace that was recorded with it: prof.export_chrome_trace()",
              false}},
    {.words = {"\"nodes\"", "[pytorch|profiler|execution_"}, /* schema 1.0.1 and before */
     .without = "\"inclusive_dur\"",
     .json = true,
     .kind = {"an execution trace of PyTorch: its operators have no times",
              "give the Kineto trace that was recorded with it: prof.export_chrome_trace()",
              false}},
    {.words = {"\"nodes\"", "\"ctrl_deps\""},
     .without = "\"inclusive_dur\"",
     .json = true,
     .kind = {"an execution trace of PyTorch (Chakra): its operators have no times",
              "give the Kineto trace that was recorded with it: prof.export_chrome_trace()",
              false}},
    {.words = {"NCCL INFO"},
     .kind = {"a log of NCCL (NCCL_DEBUG)",
              "record the program with 'tacho run -- CMD', which "
              "records its collectives",
              false}},
    {.suffix = ".xplane.pb",
     .kind = {"a file with the name of an XPlane that does not hold one",
              "copy it again in binary mode, or profile again: jax.profiler.trace(FOLDER)", false}},
    {.suffix = ".op_stats.pb", .first = true, .kind = XLA_TABLE},
    {.suffix = ".overview_page.pb", .first = true, .kind = XLA_TABLE},
    {.suffix = ".input_pipeline.pb", .first = true, .kind = XLA_TABLE},
    {.suffix = ".kernel_stats.pb", .first = true, .kind = XLA_TABLE},
    {.suffix = ".tensorflow_stats.pb", .first = true, .kind = XLA_TABLE},
    {.suffix = ".memory_profile.json", .json = true, .kind = XLA_TABLE},
    {.suffix = ".hlo_proto.pb",
     .kind = {"an XLA program (HLO), not a profile", "give the .xplane.pb of the same folder",
              false}},
    {.words = {"HloModule "},
     .kind = {"the text of an XLA program, not a profile",
              "record one: jax.profiler.trace(FOLDER), and give the folder", false}},
    {.words = {"module @", "mhlo."},
     .kind = {"the text of an XLA program, not a profile",
              "record one: jax.profiler.trace(FOLDER), and give the folder", false}},
    {.words = {"module @", "stablehlo."},
     .kind = {"the text of an XLA program, not a profile",
              "record one: jax.profiler.trace(FOLDER), and give the folder", false}},
    {.words = {"\"log_history\"", "\"global_step\""},
     .without = "\"global_step/max_steps\"", /* a log of ms-swift, which ends with that state */
     .json = true,
     .kind = {"the state of a Hugging Face Trainer: its steps have no times",
              "give what it printed, or its event files of TensorBoard (report_to=\"tensorboard\")",
              false}},
    {MAGIC("s:0 t", 0), .kind = LOG_UNTIMED("the main.log of llm.c")},
    {MAGIC("0 val ", 0), .kind = LOG_UNTIMED("the log.txt of build-nanogpt")},
    {MAGIC("0 train ", 0), .kind = LOG_UNTIMED("the log.txt of build-nanogpt")},
    {MAGIC(":W&B", 0),
     .kind = {"a run of Weights & Biases",
              "export its history as CSV, or log with TensorBoard beside it", false}},
    {.words = {"dynamo_start"},
     .kind = {"a structured log of torch.compile (TORCH_TRACE)",
              "read it with tlparse; for times record with torch.profiler", false}},
    {MAGIC("\x89HDF\r\n\x1a\n", 0), .kind = {"an HDF5 file", HINT_NOT, false}},
    {MAGIC("PAR1", 0),
     .kind = {"a Parquet file",
              "of Nsight Systems: export SQLite instead: nsys export --type sqlite", false}},
    {MAGIC("PARE", 0), .kind = {"an encrypted Parquet file", HINT_NOT, false}},
    {MAGIC("FEA1", 0),
     .kind = {"a Feather file",
              "of Nsight Systems: export SQLite instead: nsys export --type sqlite", false}},
    {MAGIC("ARROW1", 0),
     .kind = {"an Arrow file",
              "of Nsight Systems: export SQLite instead: nsys export --type sqlite", false}},
    {MAGIC("\x93NUMPY", 0), .kind = {"a NumPy array", HINT_NOT, false}},
    {MAGIC("GGUF", 0), .kind = {"the weights of a model (GGUF)", HINT_NOT, false}},
    {.suffix = ".safetensors", .kind = {"the weights of a model (safetensors)", HINT_NOT, false}},
    {.words = {"\"dtype\"", "\"shape\"", "\"data_offsets\""},
     .kind = {"the weights of a model (safetensors)", HINT_NOT, false}},
    {.suffix = ".onnx", .kind = {"a model (ONNX)", HINT_NOT, false}},
    {.words = {"archive/data.pkl"}, .kind = CHECKPOINT},
    {.suffix = ".pt", MAGIC("PK\3\4", 0), .kind = CHECKPOINT},
    {.first = true, /* a pickle whose first number is that of PyTorch before 1.6 */
     MAGIC("\x80\2\x8a\nl\xfc\x9c"
           "F\xf9 j\xa8P\x19.",
           0),
     .kind = CHECKPOINT},

    /* archives and files of no profiler */
    {MAGIC("PK\3\4", 0), .kind = {"a zip archive", HINT_UNPACK, false}},
    {MAGIC("PK\5\6", 0), .kind = {"an empty zip archive", HINT_UNPACK, false}},
    {MAGIC("PK\7\10", 0), .kind = {"a zip archive in several parts", HINT_UNPACK, false}},
    {MAGIC("7z\xbc\xaf\x27\x1c", 0), .kind = {"a 7z archive", HINT_UNPACK, false}},
    {MAGIC("Rar!\x1a\7", 0), .kind = {"a RAR archive", HINT_UNPACK, false}},
    {MAGIC("ustar", TAR_MAGIC_AT), .kind = {"a tar archive", HINT_UNPACK, false}},
    {MAGIC("\x28\xb5\x2f\xfd", 0), .kind = {"zstd data", "unpack it: unzstd FILE", false}},
    {MAGIC("\x50\x2a\x4d\x18", 0), .kind = {"zstd data", "unpack it: unzstd FILE", false}},
    {MAGIC("\xfd"
           "7zXZ",
           0),
     .kind = {"xz data", "unpack it: unxz FILE", false}},
    {MAGIC("BZh", 0), .kind = {"bzip2 data", "unpack it: bunzip2 FILE", false}},
    {MAGIC("\x02\x21\x4c\x18", 0), .kind = {"LZ4 data", "unpack it: unlz4 FILE", false}},
    {MAGIC("\x04\x22\x4d\x18", 0), .kind = {"LZ4 data", "unpack it: unlz4 FILE", false}},
    {MAGIC("\x7f"
           "ELF",
           0),
     .kind = {"a program, not a trace", "record it: tacho run -- FILE", false}},
    {MAGIC("\xcf\xfa\xed\xfe", 0), .kind = OTHER_SYSTEM("macOS")},
    {MAGIC("MZ", 0), .kind = OTHER_SYSTEM("Windows")},
    {MAGIC("%PDF", 0), .kind = {"a PDF document", HINT_NOT, false}},
    {MAGIC("\xff\xd8\xff", 0), .kind = {"a picture", HINT_NOT, false}},
    {MAGIC("GIF8", 0), .kind = {"a picture", HINT_NOT, false}},
    {MAGIC("\x89PNG", 0), .kind = {"a picture", HINT_NOT, false}},
    {.words = {"<!DOCTYPE html"}, .kind = HTML},
    {.words = {"<!doctype html"}, .kind = HTML},
    {.words = {"<html"}, .kind = HTML},
    {.words = {"<HTML"}, .kind = HTML},
    {.words = {"<?xml", "nvidia_smi_log"}, .kind = NVIDIA_SMI},
    {MAGIC("<?xml", 0), .kind = {"an XML file: a report, or an error of a download",
                                 "give the trace itself, or download it again", false}},
    {.words = {"version https://git-lfs.github.com"},
     .kind = {"a pointer of Git LFS, not the file itself", "fetch it: git lfs pull", false}},
};

static bool ends_with(const char *path, const char *suffix)
{
    size_t length = strlen(path), end = strlen(suffix);
    if (length > 3 && !strcmp(path + length - 3, ".gz"))
        length -= 3;
    return length >= end && !memcmp(path + length - end, suffix, end);
}

static bool is_json(const unsigned char *head, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && strchr(" \n\r\t", head[i]))
        i++;
    return i < bytes && (head[i] == '{' || head[i] == '[');
}

bool imp_kind_no_events(const unsigned char *head, size_t bytes)
{
    return is_json(head, bytes) && !memmem(head, bytes, "\"traceEvents\"", 13) &&
           !memmem(head, bytes, "\"ph\"", 4);
}

/* Do the first lines have the form "outer;inner 17", one of them with more than one frame? */
static bool is_folded(const unsigned char *head, size_t bytes)
{
    const unsigned char *end = head + bytes, *next;
    bool deep = false;
    for (int lines = 0; lines < FOLDED_LINES && (next = memchr(head, '\n', (size_t)(end - head)));
         lines++, head = next + 1) {
        const unsigned char *count = next;
        count -= count > head && count[-1] == '\r';
        const unsigned char *line = count;
        while (count > head && count[-1] >= '0' && count[-1] <= '9')
            count--;
        if (count == line || count - head < 2 || count[-1] != ' ')
            return false;
        deep |= memchr(head, ';', (size_t)(count - head)) != NULL;
    }
    return deep;
}

/* "[[-1," or "[[1700000000000000,": in us, or in ns. */
static bool begins_with_time(const unsigned char *head, size_t bytes)
{
    enum { DIGITS_LEAST = 16, DIGITS_MOST = 19 };
    size_t i = 0, digits = 0;
    for (int brackets = 0; brackets < 2; i++) {
        if (i == bytes || (head[i] != '[' && !strchr(" \n\r\t", head[i])))
            return false;
        brackets += head[i] == '[';
    }
    if (bytes - i > 3 && !memcmp(head + i, "-1,", 3))
        return true;
    while (i + digits < bytes && head[i + digits] >= '0' && head[i + digits] <= '9')
        digits++;
    return digits >= DIGITS_LEAST && digits <= DIGITS_MOST && i + digits < bytes &&
           head[i + digits] == ',';
}

static bool matches(const struct signature *signature, const char *path, const unsigned char *head,
                    size_t bytes)
{
    if (signature->suffix && !ends_with(path, signature->suffix))
        return false;
    if (signature->magic &&
        (bytes < signature->at + signature->magic_bytes ||
         memcmp(head + signature->at, signature->magic, signature->magic_bytes)))
        return false;
    for (size_t i = 0; i < 3 && signature->words[i]; i++)
        if (!memmem(head, bytes, signature->words[i], strlen(signature->words[i])))
            return false;
    if (signature->without && memmem(head, bytes, signature->without, strlen(signature->without)))
        return false;
    if (signature->folded && !is_folded(head, bytes))
        return false;
    if (signature->times && !begins_with_time(head, bytes))
        return false;
    return !signature->json || signature->events || imp_kind_no_events(head, bytes);
}

const struct imp_kind *imp_kind_of(const char *path, const unsigned char *head, size_t bytes,
                                   bool read_first)
{
    bool json = is_json(head, bytes);
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        const struct signature *signature = &signatures[i];
        if (read_first && (json ? !signature->json : !signature->first))
            continue; /* what a file holds decides before what it is called */
        if (matches(signature, path, head, bytes))
            return &signature->kind;
    }
    return NULL;
}
