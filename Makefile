# SPDX-License-Identifier: Apache-2.0
# tacho: plain GNU make. `make help` lists targets and knobs; `make demo` and `make test` do all their own set-up.

# ---- knobs (## lines are what `make help` prints) ----------------------------------------------------------------------------
O ?= build             ## O=DIR       build folder
V ?= 0                 ## V=1         print every command
SAN ?=                 ## SAN=LIST    sanitizers, e.g. SAN=address,undefined or SAN=thread
DEBUG ?= 0             ## DEBUG=1     no optimisation
WERROR ?= 1            ## WERROR=0    warnings do not stop the build
HARDEN ?= 1            ## HARDEN=0    no stack protector, no _FORTIFY_SOURCE, no full RELRO and the like
CROSS ?=               ## CROSS=PREFIX  tools of another architecture, e.g. CROSS=aarch64-linux-gnu- (docs/portable.md)
SYSROOT ?=             ## SYSROOT=DIR its libraries; `.ci/sysroot DIR` makes one on Debian
MARCH ?= $(if $(strip $(CROSS)),$(CROSS_MARCH),native) ## MARCH=CPU   CPU the reference engine is compiled for
PREFIX ?= /usr/local   ## PREFIX=DIR  where `make install` puts things (DESTDIR= is honoured)
FILTER ?=              ## FILTER=RE   only the tests whose name matches
# strip the blanks that the comments above leave behind
O := $(strip $(O))
V := $(strip $(V))
SAN := $(strip $(SAN))
DEBUG := $(strip $(DEBUG))
WERROR := $(strip $(WERROR))
HARDEN := $(strip $(HARDEN))
CROSS := $(strip $(CROSS))
SYSROOT := $(strip $(SYSROOT))
# a cross compiler knows no native CPU: what every CPU of the architecture has
CROSS_MARCH := $(if $(filter aarch64%,$(CROSS)),armv8-a,$(firstword $(subst -, ,$(CROSS))))
MARCH := $(strip $(MARCH))
PREFIX := $(strip $(PREFIX))
FILTER := $(strip $(FILTER))

# the sysroot belongs to the compiler's name, so that the probe of libraries sees the same machine
IN_SYSROOT := $(if $(SYSROOT), --sysroot=$(abspath $(SYSROOT)))
ifneq ($(CROSS),)
export CROSS
export PKG_CONFIG_SYSROOT_DIR := $(abspath $(SYSROOT))
export PKG_CONFIG_LIBDIR := $(abspath $(SYSROOT))/usr/lib/$(CROSS:%-=%)/pkgconfig:$(abspath $(SYSROOT))/usr/share/pkgconfig
endif
ifeq ($(origin CC),default)
CC := $(CROSS)gcc$(IN_SYSROOT)
endif
# one file is C++ (store/import/kineto/kineto_json.cpp): the C++ compiler of the same family, where there is one
ifeq ($(origin CXX),default)
CXX := $(or $(if $(filter clang%,$(notdir $(CC))),$(notdir $(shell command -v $(patsubst clang%,clang++%,$(notdir $(CC)))))),$(CROSS)g++$(IN_SYSROOT))
endif
ifeq ($(origin AR),default)
AR := $(CROSS)ar
endif
Q := $(if $(filter 1,$(V)),,@)
VERSION := 0.1.0

# as many jobs as cores unless the command line says otherwise
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2> /dev/null || echo 2)
endif

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

# ---- what this machine has: probed once into $(O)/config.mk; removing the file probes again ------------------------------------
NO_BUILD_GOALS := help clean deps lint lint-deep lint-rules lint-circles lint-format lint-shell lint-python tidy format compile_commands.json uninstall asan asan-changed ubsan tsan check-san check-aarch64
ifneq ($(filter-out $(NO_BUILD_GOALS),$(or $(MAKECMDGOALS),all)),)
include $(O)/config.mk
endif

$(O)/config.mk: .ci/probe .ci/deps $(O)/compiler
	$(Q)CC="$(CC)" CXX="$(CXX)" .ci/deps --if-missing "$(O)"
	$(Q)CC="$(CC)" CXX="$(CXX)" .ci/probe "$(O)" > $@.tmp && mv $@.tmp $@

# Stamps: rewritten only when their text changes, so that what depends on them is rebuilt exactly when a flag changed.
$(O)/compiler: STAMP = $(CC) $(CXX)
$(O)/flags: STAMP = $(CC) $(CXX) $(OPT) $(WARN) $(SAN) $(HARDEN) $(MARCH) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(VERSION)
$(O)/compiler $(O)/flags: force
	@mkdir -p $(@D)
	@echo '$(STAMP)' | cmp -s - $@ || echo '$(STAMP)' > $@

# ---- flags -----------------------------------------------------------------------------------------------------------------
# without optimisation gcc does not know the ranges of values, and warns of texts that can never be cut
WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla $(if $(filter 1,$(DEBUG)),$(if $(findstring clang,$(CC)),,-Wno-format-truncation)) $(if $(filter 1,$(WERROR)),-Werror)
OPT := $(if $(filter 1,$(DEBUG)),-O0,-O2)
# what the compiler knows of hardening (.ci/probe); a sanitizer checks more, and _FORTIFY_SOURCE wants optimisation
HARDENED := $(filter 1,$(HARDEN)$(SAN)$(filter 1,$(DEBUG)))
CPPFLAGS_ALL = -D_GNU_SOURCE -DTACHO_VERSION='"$(VERSION)"' -Iinclude -I. -I$(O)/gen $(NVTX_CFLAGS) $(HAVE_CFLAGS) $(CPPFLAGS)
CFLAGS_ALL = -std=c11 $(OPT) -g -fno-omit-frame-pointer -fvisibility=hidden $(if $(HARDENED),$(HARDEN_CFLAGS)) $(WARN) $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all) $(CFLAGS)
CXXFLAGS_ALL = -std=c++17 $(OPT) -g -fno-omit-frame-pointer -fvisibility=hidden $(if $(HARDENED),$(HARDEN_CFLAGS)) $(filter-out -Wstrict-prototypes -Wmissing-prototypes,$(WARN)) $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all) $(CXX_NO_SAN) $(CXXFLAGS)
# the C compiler links, and its UBSan runtime has no checks of C++ types
CXX_NO_SAN = $(if $(findstring undefined,$(SAN)),-fno-sanitize=vptr$(if $(findstring clang,$(CXX)),$(comma)function))
comma := ,
PIE = $(if $(HARDENED),$(HARDEN_PIE))
LDFLAGS_ALL = $(if $(SAN),-fsanitize=$(SAN)) $(if $(HARDENED),$(HARDEN_LDFLAGS)) $(LDFLAGS)

# ---- rooms: every .c of a folder belongs to it; flags a room needs beyond the common ones stand here -----------------------------
TACHO_ROOMS := $(shell find cli reports monitor tuner history planner analyzers tui profiler/collector store -type d)
TRAIN_ROOMS := $(shell find workloads libtrain -type d)
AGENT_ROOMS := $(shell find profiler/agent -type d)
TACHO_SRC := $(foreach d,$(TACHO_ROOMS),$(wildcard $(d)/*.c))
TACHO_CXX := $(foreach d,$(TACHO_ROOMS),$(wildcard $(d)/*.cpp))
TRAIN_SRC := $(foreach d,$(TRAIN_ROOMS),$(wildcard $(d)/*.c))
AGENT_SRC := $(foreach d,$(AGENT_ROOMS),$(wildcard $(d)/*.c))
HOOK_SRC := $(wildcard profiler/hook/*.c)
HOOK_PY := $(wildcard profiler/hook/*.py)
HOOK_PACKAGE := $(wildcard profiler/hook/tacho_hook/*.py)
GEMM_SRC := $(wildcard profiler/gemm/*.c)
obj = $(patsubst %.cpp,$(O)/obj/%.o,$(patsubst %.c,$(O)/obj/%.o,$(1)))

TACHO_LIBS = $(SQLITE_LIBS) $(JANSSON_LIBS) $(PFM_LIBS) $(NCURSES_LIBS) $(DW_LIBS) $(SIMDJSON_LIBS) $(ZLIB_LIBS) -lstdc++ -lm -lpthread -ldl
TRAIN_LIBS = $(JPEG_LIBS) $(PNG_LIBS) $(ZSTD_LIBS) $(BLAS_LIBS) $(OPENMP_LIBS) $(MPI_LIBS) -lm -lpthread -ldl
$(O)/obj/store/%.o: CPPFLAGS_ALL += $(SQLITE_CFLAGS)
$(O)/obj/tui/%.o: CPPFLAGS_ALL += $(NCURSES_CFLAGS)
$(O)/obj/store/import/%.o: CPPFLAGS_ALL += $(SIMDJSON_CFLAGS) $(ZLIB_CFLAGS)
$(O)/obj/profiler/collector/%.o: CPPFLAGS_ALL += $(PFM_CFLAGS) $(DW_CFLAGS)
$(O)/obj/monitor/serve/%.o: CPPFLAGS_ALL += $(MICROHTTPD_CFLAGS)
$(O)/obj/reports/%.o $(O)/obj/monitor/%.o $(O)/obj/history/%.o $(O)/obj/tuner/%.o $(O)/obj/planner/%.o $(O)/obj/cli/%.o $(O)/obj/analyzers/%.o $(O)/obj/profiler/collector/%.o: CPPFLAGS_ALL += $(JANSSON_CFLAGS)
$(O)/obj/libtrain/%.o $(O)/obj/workloads/%.o: OPT := $(if $(filter 1,$(DEBUG)),-O0,-O3)
$(O)/obj/libtrain/%.o $(O)/obj/workloads/%.o: CPPFLAGS_ALL += $(BLAS_CFLAGS) $(MPI_CFLAGS)
$(O)/obj/libtrain/data/%.o: CPPFLAGS_ALL += $(JPEG_CFLAGS) $(PNG_CFLAGS)
$(O)/obj/libtrain/collectives/%.o: CPPFLAGS_ALL += $(ZSTD_CFLAGS)
$(O)/obj/tests/unit/libtrain/%.o: CFLAGS_ALL += $(OPENMP_CFLAGS)
# `omp simd` is a wish: clang warns where it does not grant it (gcc ignores the switch)
$(O)/obj/libtrain/%.o $(O)/obj/workloads/%.o: CFLAGS_ALL += -march=$(MARCH) -ffp-contract=fast -fno-math-errno -fno-trapping-math $(OPENMP_CFLAGS) -Wno-pass-failed
$(O)/obj/profiler/agent/%.o: CFLAGS_ALL += -fPIC -ftls-model=initial-exec -fomit-frame-pointer
# the callbacks of events: 0.7 of 22 ns of an event would go to the stack protector
$(call obj,$(addprefix profiler/agent/core/,nvtx.c names.c counter.c)): CFLAGS_ALL += $(if $(HARDENED),-fno-stack-protector)

all: $(O)/tacho $(O)/libtacho.so $(O)/libtacho_gemm.so $(O)/tacho-python/.done $(O)/train ## tacho, libtacho.so and train (default)

$(O)/tacho: $(call obj,$(TACHO_SRC) $(TACHO_CXX))
	$(link)
$(O)/tacho: LIBS = $(PIE) $(TACHO_LIBS)
$(O)/train: $(call obj,$(TRAIN_SRC))
	$(link)
$(O)/train: LIBS = $(PIE) $(TRAIN_LIBS)
$(O)/libtacho.so: $(call obj,$(AGENT_SRC))
	$(link)
$(O)/libtacho.so: LIBS = -shared -Wl,-z,nodelete -Wl,-z,now -lpthread

# stands before cuBLAS when asked: `tacho run --gemm-shapes`
$(O)/libtacho_gemm.so: $(call obj,$(GEMM_SRC))
	$(link)
$(O)/libtacho_gemm.so: LIBS = -shared -Wl,-z,now -lpthread -ldl

# the Python hook: a folder that `tacho run` puts on PYTHONPATH
$(O)/tacho-python/libtacho_hook.so: $(call obj,$(HOOK_SRC))
	@mkdir -p $(@D)
	$(link)
$(O)/tacho-python/libtacho_hook.so: LIBS = -shared -Wl,-z,now -ldl
$(O)/obj/profiler/hook/%.o $(O)/obj/profiler/gemm/%.o: CFLAGS_ALL += -fPIC
$(O)/tacho-python/.done: $(O)/tacho-python/libtacho_hook.so $(HOOK_PY) $(HOOK_PACKAGE)
	$(Q)rm -rf $(@D)/*.py $(@D)/tacho_hook && mkdir $(@D)/tacho_hook && cp $(HOOK_PY) $(@D)/ && cp $(HOOK_PACKAGE) $(@D)/tacho_hook/ && touch $@

define link
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(LIBS)
endef

$(O)/obj/%.o: %.c $(O)/config.mk $(O)/flags
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

$(O)/obj/%.o: %.cpp $(O)/config.mk $(O)/flags
	@mkdir -p $(@D)
	@echo "  CXX     $<"
	$(Q)$(CXX) $(CPPFLAGS_ALL) $(CXXFLAGS_ALL) -MMD -MP -c -o $@ $<

# schema.sql is the one place where the tables are written down; the program carries it as a string
$(O)/gen/schema.inc: store/schema.sql
	@mkdir -p $(@D)
	$(Q)sed 's/\\/\\\\/g; s/"/\\"/g; s/^/"/; s/$$/\\n"/' $< > $@
$(call obj,$(wildcard store/*.c)): $(O)/gen/schema.inc
# the tables of kernel classes and of data sheets, the same way
$(O)/gen/%.inc: analyzers/device/%.tsv
	@mkdir -p $(@D)
	$(Q)sed 's/\\/\\\\/g; s/"/\\"/g; s/^/"/; s/$$/\\n"/' $< > $@
$(O)/gen/%.inc: analyzers/hardware/%.tsv
	@mkdir -p $(@D)
	$(Q)sed 's/\\/\\\\/g; s/"/\\"/g; s/^/"/; s/$$/\\n"/' $< > $@
# style and scripts of the HTML report (one element of the page), and Chart.js where the probe found it; its policy names them by their hashes
HTML_JS := reports/html/page.js reports/html/flame.js reports/html/timeline.js
$(O)/gen/%.inc: reports/html/%
	@mkdir -p $(@D)
	$(Q)$(embed) < $< > $@
$(O)/gen/chart.js.inc: $(CHART_JS) $(O)/config.mk
	@mkdir -p $(@D)
	$(Q)$(chart_text) | $(embed) > $@
$(O)/gen/html.js: $(HTML_JS)
	@mkdir -p $(@D)
	$(Q)cat $(HTML_JS) > $@
$(O)/gen/html.js.inc: $(O)/gen/html.js
	$(Q)$(embed) < $< > $@
$(O)/gen/html_hashes.inc: reports/html/html.css $(O)/gen/html.js $(CHART_JS) $(O)/config.mk
	@mkdir -p $(@D)
	$(Q){ echo "#define HTML_STYLE_HASH \"$$(cat reports/html/html.css | $(hash))\""; \
	    echo "#define HTML_SCRIPT_HASH \"$$(cat $(O)/gen/html.js | $(hash))\""; \
	    $(if $(CHART_JS),echo "#define HTML_CHART_HASH \"$$($(chart_text) | $(hash))\"";) } > $@
# a text as a C string; its hash as a policy has it; Chart.js without the line that names a file beside it
embed = sed 's/\\/\\\\/g; s/"/\\"/g; s/?/\\?/g; s/^/"/; s/$$/\\n"/'
hash = sha256sum | cut -d' ' -f1 | tr a-f A-F | basenc --base16 -d | base64
chart_text = sed '/^\/\/. sourceMappingURL=/d; $$a\' $(CHART_JS)
$(call obj,reports/html/html.c): $(O)/gen/html.css.inc $(O)/gen/html.js.inc $(O)/gen/html_hashes.inc $(if $(CHART_JS),$(O)/gen/chart.js.inc)
$(call obj,analyzers/device/classes.c): $(O)/gen/classes.inc
$(call obj,analyzers/hardware/accelerators.c): $(O)/gen/accelerators.inc

# ---- the engine on a GPU: a library that train opens at run time; nothing else is built with nvcc ---------------------------------
CUDA_ARCHS ?= 80 90a 100 ## CUDA_ARCHS=LIST  architectures that `make cuda` compiles for
CUDA_SRC := $(wildcard libtrain/cuda/*.cu)
CUDA_OBJ := $(patsubst libtrain/%.cu,$(O)/%.o,$(CUDA_SRC))
CUDA_HEADERS := $(wildcard libtrain/cuda/*.h libtrain/ops/*.h libtrain/base/*.h)
cuda: $(O)/libtrain_cuda.so ## libtrain_cuda.so, for train --device cuda; without nvcc it takes one from PyPI (no GPU needed)
# the compiler that is here, or that .ci/cuda puts into the build folder: one line, its path
$(O)/cuda/nvcc: .ci/cuda
	$(Q)mkdir -p $(@D) && .ci/cuda "$(O)/cuda" > $@
$(O)/cuda/%.o: libtrain/cuda/%.cu $(CUDA_HEADERS) $(O)/cuda/nvcc
	@echo "  NVCC    $<"
	$(Q)"$$(cat $(O)/cuda/nvcc)" -c -std=c++17 -O3 -Xcompiler -fPIC,-fvisibility=hidden -I. -Iinclude \
	    $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) -Xptxas -v -o $@ $< > $@.ptxas 2>&1 || { cat $@.ptxas; exit 1; }
$(O)/libtrain_cuda.so: $(CUDA_OBJ)
	@echo "  NVCC    $@"
	$(Q)"$$(cat $(O)/cuda/nvcc)" -shared -cudart static -o $@ $(CUDA_OBJ) -ldl -lrt -lpthread

# machine code as text, for tests/gpu/sass.py
cuda-sass: $(patsubst %.o,%.sass,$(CUDA_OBJ)) ## what `make cuda` compiled, disassembled, in build/cuda/*.sass (cuobjdump from PyPI)
$(O)/cuda/cuobjdump: .ci/cuda
	$(Q)mkdir -p $(@D) && .ci/cuda "$(O)/cuda" cuobjdump > $@
$(O)/cuda/%.sass: $(O)/cuda/%.o $(O)/cuda/cuobjdump
	@echo "  SASS    $@"
	$(Q)tool=$$(realpath "$$(cat $(O)/cuda/cuobjdump)") && PATH="$$(dirname "$$tool"):$$PATH" "$$tool" -sass $< > $@

# ---- tests, benchmarks: tests/unit/*.c are cmocka programs, tests/targets/*.c are programs to be profiled ------------------------
UNIT_ROOMS := $(shell find tests/unit -type d)
UNIT_SRC := $(foreach d,$(UNIT_ROOMS),$(wildcard $(d)/*.c))
TARGET_SRC := $(filter-out tests/targets/fake_% tests/targets/linked_%,$(wildcard tests/targets/*.c))
BENCH_SRC := $(wildcard tests/bench/*.c)
UNIT := $(patsubst tests/unit/%.c,$(O)/tests/unit/%,$(UNIT_SRC))
TARGETS := $(patsubst tests/targets/%.c,$(O)/tests/targets/%,$(TARGET_SRC))
BENCH := $(patsubst tests/bench/%.c,$(O)/tests/bench/%,$(BENCH_SRC))
$(O)/libtacho.a: $(call obj,$(filter-out cli/main.c,$(TACHO_SRC)) $(TACHO_CXX))
	$(archive)
$(O)/libtrain.a: $(call obj,$(filter-out workloads/main.c,$(TRAIN_SRC)))
	$(archive)
define archive
	@echo "  AR      $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)
endef
# tests of the engine link libtrain; all others link the rooms of tacho
$(O)/tests/unit/libtrain/test_lt_calibrate: LDFLAGS_ALL += -Wl,--wrap=lt_op
$(O)/tests/unit/libtrain/test_lt_local: LDFLAGS_ALL += -Wl,--wrap=calloc
$(O)/tests/unit/tui/test_tui_tail: LDFLAGS_ALL += -Wl,--wrap=strdup
$(O)/tests/unit/libtrain/test_lt_plan: TRAIN_LIBS += $(O)/libtacho.a $(TACHO_LIBS) # the planner beside the engine
$(O)/tests/unit/libtrain/test_lt_plan: $(O)/libtacho.a
$(O)/tests/unit/libtrain/%: $(O)/obj/tests/unit/libtrain/%.o $(O)/libtrain.a
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< $(O)/libtrain.a $(CMOCKA_LIBS) $(TRAIN_LIBS)
$(O)/tests/unit/%: $(O)/obj/tests/unit/%.o $(O)/libtacho.a
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(O)/libtacho.a $(CMOCKA_LIBS) $(TACHO_LIBS)
# both ends of the rings in one program
$(O)/tests/unit/agent/test_agent_order: $(call obj,$(wildcard profiler/agent/core/*.c))
$(O)/tests/targets/%: $(O)/obj/tests/targets/%.o
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< -lpthread -ldl
# a substitute driver, CUPTI and NVML, for machines without a GPU; a clock that is set
FAKES := $(O)/tests/fake/libcuda.so.1 $(O)/tests/fake/libcupti.so.13 $(O)/tests/fake/libnvidia-ml.so.1 $(O)/tests/fake/libfake_clock.so
$(O)/obj/tests/targets/target_fusion.o: CFLAGS_ALL += -O3 -fno-math-errno
$(O)/obj/tests/targets/fake_%.o: CFLAGS_ALL += -fPIC
$(O)/obj/tests/targets/target_stacks.o $(O)/obj/tests/unit/collector/test_col_unwind.o: CFLAGS_ALL += -O2 -fomit-frame-pointer -fno-optimize-sibling-calls
$(O)/tests/fake/libcuda.so.1: $(O)/obj/tests/targets/fake_cuda.o
$(O)/tests/fake/libcupti.so.13: $(patsubst %,$(O)/obj/tests/targets/fake_%.o,cupti records kineto profiler)
$(O)/tests/fake/libnvidia-ml.so.1: $(O)/obj/tests/targets/fake_nvml.o
$(O)/tests/fake/libfake_clock.so: $(O)/obj/tests/targets/fake_clock.o
$(FAKES):
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -Wl,-soname,$(@F) -o $@ $^ -lpthread -ldl
$(O)/tests/bench/lt_%: $(O)/obj/tests/bench/lt_%.o $(O)/libtrain.a
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< $(O)/libtrain.a $(TRAIN_LIBS)
$(O)/tests/bench/%: $(O)/obj/tests/bench/%.o $(O)/libtacho.a
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< $(O)/libtacho.a $(TACHO_LIBS)
# libFuzzer targets: tests/fuzz/fuzz_*.c, and one for each importer that is import_file.c with seeds of its own; with clang only
FUZZ_IMPORTS := $(addprefix $(O)/tests/fuzz/fuzz_,ascend ascend_csv chakra flight inspector kineto log perfetto pickle pprof rocprof tfevents unitrace workers xla_json xplane)
FUZZ := $(patsubst tests/fuzz/%.c,$(O)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c)) $(FUZZ_IMPORTS)
# NULL + 0, the end of an array that has nothing in it, is no find (and defined from C2y on)
FUZZ_CFLAGS := -fno-sanitize=pointer-overflow
FUZZ_FLAGS := -DSTORE_IMPORT_WINDOW=16384u -DKINETO_FRAME_WINDOW=2048u -DKINETO_BATCH_ROWS=16
FUZZ_LT_SRC := $(wildcard libtrain/data/bpe*.c libtrain/data/source*.c libtrain/data/picture.c libtrain/data/dataset.c libtrain/data/format.c libtrain/base/fail.c libtrain/base/memory.c libtrain/base/output.c)
$(O)/tests/fuzz/fuzz_lt_%: $(O)/obj/tests/fuzz/fuzz_lt_%.o $(call obj,$(FUZZ_LT_SRC))
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -fsanitize=fuzzer -o $@ $^ $(JPEG_LIBS) $(PNG_LIBS) -lm -lpthread
$(FUZZ_IMPORTS): $(O)/tests/fuzz/%: $(O)/obj/tests/fuzz/import_file.o $(O)/libtacho.a
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -fsanitize=fuzzer -o $@ $< $(O)/libtacho.a $(TACHO_LIBS)
$(O)/tests/fuzz/%: $(O)/obj/tests/fuzz/%.o $(O)/libtacho.a
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -fsanitize=fuzzer -o $@ $< $(O)/libtacho.a $(TACHO_LIBS)
.SECONDARY:

test: check ## the same as check; does all its own set-up
check: all unit-programs $(BENCH) ## unit and end-to-end tests; none of them measures the machine (6 minutes on two cores)
	$(Q)SAN="$(SAN)" CC="$(CC)" tests/run "$(O)" '$(FILTER)'
check-unit: all unit-programs ## only the unit programs
	$(Q)SAN="$(SAN)" CC="$(CC)" tests/run --unit "$(O)" '$(FILTER)'
check-timing: all unit-programs $(BENCH) ## tests that compare times, one at a time: for a machine that has nothing else to do
	$(Q)SAN="$(SAN)" CC="$(CC)" tests/run --timing "$(O)" '$(FILTER)'
check-wide: all unit-programs $(BENCH) ## builds of other kinds, devices played by substitutes, more models, all shared traces against brute force (3 minutes)
	$(Q)SAN="$(SAN)" CC="$(CC)" tests/run --wide "$(O)" '$(FILTER)'
check-long: all unit-programs $(BENCH) ## the tests of `make check` and the long ones: kill storms, the portable build
	$(Q)SAN="$(SAN)" CC="$(CC)" tests/run --long "$(O)" '$(FILTER)'
check-hostile: all unit-programs ## what an adversary tries: kills, stray writes, hostile files and folders; a table at its end
	$(Q)SAN="$(SAN)" CC="$(CC)" tests/run --hostile "$(O)" '$(FILTER)'
# the cross tools by their own names, whatever CC this build has
AARCH64 = $(if $(findstring ccache,$(CC)),ccache )aarch64-linux-gnu-
check-aarch64: ## the unit programs, built for aarch64 and run under qemu-user: SYSROOT=DIR, which `.ci/sysroot DIR` makes
	$(Q)if tests/aarch64.sh --tools "$(SYSROOT)"; then \
	$(MAKE) O=$(O)-aarch64 CROSS=aarch64-linux-gnu- CC="$(AARCH64)gcc --sysroot=$(SYSROOT)" CXX="$(AARCH64)g++ --sysroot=$(SYSROOT)" all unit-programs && \
	tests/aarch64.sh "$(O)-aarch64" "$(SYSROOT)" '$(FILTER)'; else [ $$? = 77 ]; fi
# versions that the tests have seen together; a python3 of 3.10 to 3.13
FRAMEWORKS := torch==2.15.0 numpy==2.4.6 nvtx==0.2.17 safetensors==0.8.0 pytorch-lightning==2.6.6 transformers==5.23.0 accelerate==1.15.0 jax==0.10.2 jaxlib==0.10.2 ipykernel==7.4.0 uv==0.13.9
FRAMEWORKS_PYTHON ?= python3
frameworks: $(O)/frameworks/.done ## PyTorch, JAX, Lightning and transformers in a virtual environment of the build folder (4 GB)
$(O)/frameworks/.done: Makefile
	$(Q)if $(FRAMEWORKS_PYTHON) -m venv "$(O)/frameworks" && timeout 600 "$(O)/frameworks/bin/python" -m pip install --quiet --progress-bar off $(FRAMEWORKS); \
	then touch $@; else echo "frameworks: not installed (no network, or no python3 with venv): their tests are skipped"; fi
# what tests/frameworks/beside.py runs beside tacho
BESIDE := py-spy==0.4.3 scalene==2.4.0 traceml-ai==0.5.0
frameworks-beside: frameworks ## the profilers that tests/frameworks/beside.py compares with, into the same virtual environment
	$(Q)timeout 600 "$(O)/frameworks/bin/python" -m pip install --quiet --progress-bar off $(BESIDE)
check-frameworks: all frameworks ## programs of PyTorch, JAX, Lightning and transformers, as people write them (10 minutes)
	$(Q)tests/frameworks/run.py "$(O)" '$(FILTER)'
# the same sources for the processor: kernels as fibers, a late queue, plain products (tests/gpu/shim)
SHIM := $(O)/tests/cuda/libtrain_cuda.so $(O)/tests/cuda/libcublasLt.so.13 $(O)/tests/cuda/libnccl.so.2
SHIM_CXXFLAGS = -std=gnu++17 -O2 -g -U_FORTIFY_SOURCE -fPIC -fvisibility=hidden -Wall -Wextra -Wno-unknown-pragmas -Wno-clobbered -Itests/gpu/shim -I. -Iinclude $(if $(SAN),-fsanitize=$(SAN)) -shared
$(O)/tests/cuda/libcudart_shim.so: tests/gpu/shim/fibers.cpp tests/gpu/shim/runtime.cpp tests/gpu/shim/cuda_runtime.h $(O)/flags
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CXX) $(SHIM_CXXFLAGS) -Wl,-soname,$(@F) -o $@ $(filter %.cpp,$^)
$(O)/tests/cuda/libcublasLt.so.13: tests/gpu/shim/cublaslt.cpp libtrain/cuda/blas.h $(O)/tests/cuda/libcudart_shim.so
	@echo "  LD      $@"
	$(Q)$(CXX) $(SHIM_CXXFLAGS) -O3 -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' -o $@ $< -L$(@D) -lcudart_shim
$(O)/tests/cuda/libnccl.so.2: tests/gpu/shim/nccl.cpp libtrain/cuda/nccl.h $(O)/tests/cuda/libcudart_shim.so
	@echo "  LD      $@"
	$(Q)$(CXX) $(SHIM_CXXFLAGS) -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' -o $@ $< -L$(@D) -lcudart_shim
$(O)/tests/cuda/obj/%.o: libtrain/cuda/%.cu $(CUDA_HEADERS) tests/gpu/shim/cuda_runtime.h $(O)/flags
	@mkdir -p $(@D)
	@echo "  CXX     $<"
	$(Q)$(CXX) $(filter-out -shared,$(SHIM_CXXFLAGS)) -x c++ -c -o $@ $<
$(O)/tests/cuda/libtrain_cuda.so: $(patsubst libtrain/cuda/%.cu,$(O)/tests/cuda/obj/%.o,$(CUDA_SRC)) $(O)/tests/cuda/libcudart_shim.so
	@echo "  LD      $@"
	$(Q)$(CXX) $(SHIM_CXXFLAGS) -Wl,-rpath,'$$ORIGIN' -o $@ $(filter %.o,$^) -L$(@D) -lcudart_shim -ldl
# what a step on a GPU should take, by kernel: the engine's operations and the planner's times
$(O)/tests/gpu/step_model: $(O)/obj/tests/gpu/step_model.o $(O)/libtrain.a $(O)/libtacho.a
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -Wl,--as-needed -o $@ $^ $(TRAIN_LIBS) $(TACHO_LIBS)
unit-programs: $(UNIT) $(TARGETS) $(FAKES) $(SHIM) $(O)/tests/gpu/step_model
# what tests/gpu/run.sh takes to a machine with a GPU: a folder of its own, stripped, with the libraries that tacho needs and a bare
# machine lacks (not the C and C++ runtimes: the programs that are recorded bring theirs); work runs without the toolkit
NVCC ?= $(firstword $(wildcard $(or $(CUDA_HOME),/usr/local/cuda)/bin/nvcc) nvcc)
GPU_KIT_MIB := 24
# train for a machine that has none of its libraries: on a GPU it needs neither GEMMs of the processor nor MPI
$(O)/gpu/train: all $(O)/libtrain_cuda.so
	@mkdir -p $(@D)
	$(Q)$(MAKE) --no-print-directory O=$(O)/gpu-train MARCH=x86-64-v2 HAVE_CFLAGS=-DLT_GEMM_PLAIN BLAS_LIBS= BLAS_CFLAGS= MPI_LIBS= MPI_CFLAGS= ZSTD_LIBS= $(O)/gpu-train/train $(O)/gpu-train/libtrain.a
	$(Q)strip -o $@ $(O)/gpu-train/train && strip -o $(@D)/libtrain_cuda.so $(O)/libtrain_cuda.so
$(O)/gpu/step_model: $(O)/gpu/train $(O)/obj/tests/gpu/step_model.o $(O)/libtacho.a
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -Wl,--as-needed -s -o $@ $(O)/obj/tests/gpu/step_model.o $(O)/gpu-train/libtrain.a $(O)/libtacho.a $(OPENMP_LIBS) $(TACHO_LIBS)
gpu-tests: all $(O)/gpu/work $(O)/gpu/train $(O)/gpu/step_model ## the folder build/gpu, all that tests/gpu/run.sh needs beside this tree on a machine with a GPU
	$(Q)mkdir -p $(O)/gpu/lib $(O)/gpu/tacho-python/tacho_hook
	$(Q)for file in tacho libtacho.so libtacho_gemm.so tacho-python/libtacho_hook.so; do strip -o $(O)/gpu/$$file $(O)/$$file || exit 1; done
	$(Q)cp $(HOOK_PY) $(O)/gpu/tacho-python/ && cp $(HOOK_PACKAGE) $(O)/gpu/tacho-python/tacho_hook/
	$(Q)ldd $(O)/tacho $(O)/gpu/train | awk '$$2 == "=>" && $$3 ~ "^/" && $$1 !~ /^lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so/ { print $$3 }' | xargs -r cp -L -t $(O)/gpu/lib
	$(Q)mib=$$(du -sm --apparent-size $(O)/gpu | cut -f1); echo "  KIT     $(O)/gpu: $$mib MiB to carry"; [ "$$mib" -le $(GPU_KIT_MIB) ] || { echo "gpu-tests: more than $(GPU_KIT_MIB) MiB"; exit 1; }
$(O)/gpu/work: tests/gpu/work.cu
	@mkdir -p $(@D)
	@echo "  NVCC    $@"
	$(Q)$(NVCC) -O2 -std=c++17 -Iinclude -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
	    -gencode arch=compute_90,code=compute_90 -o $@ $< -ldl
coverage: all unit-programs ## lines of libtacho.so that its tests run, by gcov
	$(Q)tests/bench/coverage.sh $(O)
asan: ## everything under AddressSanitizer and UBSan, in build-asan
	$(Q)$(MAKE) O=$(O)-asan SAN=address,undefined check
asan-changed: ## unit tests of the folders that commits of the last day changed (tests/changed.sh), under both of these
	$(Q)$(MAKE) O=$(O)-asan SAN=address,undefined ROOMS="$$(tests/changed.sh | tr '\n' ' ')" check-rooms
check-rooms: all $(foreach r,$(ROOMS),$(filter $(O)/tests/unit/$(r)/%,$(UNIT))) $(TARGETS) $(FAKES) $(if $(filter libtrain,$(ROOMS)),$(SHIM))
	$(Q)if [ -z "$(strip $(ROOMS))" ]; then echo "no folder of tests/unit changed"; else \
	SAN="$(SAN)" CC="$(CC)" tests/run --unit "$(O)" "^unit/($$(echo $(ROOMS) | tr ' ' '|'))/"; fi
ubsan: ## everything under UBSan alone, in build-ubsan
	$(Q)$(MAKE) O=$(O)-ubsan SAN=undefined check
tsan: ## agent, collector, loader, ranks, import and dashboard tests under ThreadSanitizer, in build-tsan
	$(Q)$(MAKE) O=$(O)-tsan SAN=thread FILTER='agent|col_|collector|loader|lt_parallel|ranks_|lt_train|imp_kineto|tui_|90_top' check
check-san: ## asan, tsan and fuzz one after the other: builds three times (about an hour and a half on two cores)
	$(Q)$(MAKE) asan && $(MAKE) tsan && $(MAKE) fuzz
fuzz-programs: $(FUZZ)
fuzz: ## libFuzzer targets of all that comes from outside, FUZZ_SECONDS each (default 60), in build-fuzz; needs clang
	$(Q)if ! command -v clang > /dev/null; then echo "fuzz: no clang: nothing was fuzzed ('.ci/deps --dev' installs it)"; else \
	$(MAKE) O=$(O)-fuzz CC=clang SAN=fuzzer-no-link,address,undefined CPPFLAGS="$(FUZZ_FLAGS)" CFLAGS="$(FUZZ_CFLAGS)" CXXFLAGS="$(FUZZ_CFLAGS)" fuzz-programs && \
	tests/fuzz/run.sh "$(O)-fuzz" "$(or $(FUZZ_SECONDS),60)"; fi
bench: all $(BENCH) $(TARGETS) ## the budgets of the design, measured on this machine (about 10 minutes)
	$(Q)tests/bench/run.sh "$(O)"

OLD ?=                 ## OLD=FOLDER    build folder of another revision, for `make bench-pairs`
bench-pairs: all $(BENCH) ## costs of events, drain and step beside those of the build in OLD, in turn (4 minutes; quiet machine)
	$(Q)[ -n "$(strip $(OLD))" ] || { echo "bench-pairs: OLD=FOLDER: the build folder of the other revision" >&2; exit 2; }
	$(Q)tests/bench/pairs.py "$(strip $(OLD))" "$(O)" $(PAIRS)

# ---- the engine with a double for every float ------------------------------------------------------------------------------------
# plain products, because the library's are of floats; libtrain/base/double.h says what else is different
double: $(O)/config.mk ## build/double/train, whose floats are doubles: divided sums then agree to 1e-10
	$(Q)$(MAKE) --no-print-directory O=$(O)/double HAVE_CFLAGS="-DLT_GEMM_PLAIN$(if $(MPI_LIBS), -DHAVE_MPI=1)" BLAS_LIBS= BLAS_CFLAGS= \
	    CPPFLAGS="$(CPPFLAGS) -include libtrain/base/double.h" $(O)/double/train

bench-engine: all $(O)/tests/bench/lt_limit ## steps of GPT-2 124M beside the limit, PyTorch and llm.c (TORCH_PYTHON, LLMC_DIR)
	$(Q)tests/bench/engine.sh "$(O)"

# ---- advice: slow runs, what makes them faster, and what tacho says of them ------------------------------------------------------
SEEDS ?= 1-10          ## SEEDS=LIST   draws of `make bench-advice`, such as 1-20; empty: judge what is recorded
ADVICE ?= $(O)/advice  ## ADVICE=DIR   where its recordings are kept (make clean removes build/)
PAGE ?=                ## PAGE=FILE    page that `make bench-advice` writes, such as docs/advice-results.md
ROWS ?=                ## ROWS=FILE    rows of draws, also of other machines, to which it adds, such as docs/advice-results.jsonl
bench-advice: all ## records slow runs and their fixes (minutes a draw), judges the advice; docs/advice-bench.md
	$(Q)[ -z "$(strip $(SEEDS))" ] || TACHO=$(O)/tacho TRAIN=$(O)/train workloads/bottlenecks/bench.py record "$(strip $(ADVICE))" $(SEEDS)
	$(Q)TACHO=$(O)/tacho TRAIN=$(O)/train workloads/bottlenecks/bench.py judge "$(strip $(ADVICE))" $(if $(strip $(PAGE)),--markdown "$(strip $(PAGE))") $(if $(strip $(ROWS)),--keep "$(strip $(ROWS))") $(if $(EVERY),--every)

screens: all ## screens of tacho as SVG, of runs recorded for them, in build/screens
	$(Q).ci/screens.py "$(O)" "$(O)/screens"

# ---- demo: a GPT-2 learns the licence texts that every Debian has ----------------------------------------------------------------
demo: all ## a run held back by its loader, the report, the change tried, the comparison that proves it (two minutes)
	$(Q).ci/demo "$(O)"

# ---- a build for any Linux with glibc 2.28 ---------------------------------------------------------------------------------------
dist: $(O)/config.mk ## tarball and Python wheel for any x86-64 Linux with glibc >= 2.28, in build/dist
	$(Q).ci/dist "$(O)" "$(VERSION)"
deb: all ## Debian package for this system, in build/deb
	$(Q).ci/deb "$(O)" "$(VERSION)"

# ---- sources: lint, format -------------------------------------------------------------------------------------------------------
SOURCES := $(sort $(foreach d,include $(TACHO_ROOMS) $(TRAIN_ROOMS) $(AGENT_ROOMS) profiler profiler/hook profiler/gemm $(UNIT_ROOMS) tests/targets tests/bench tests/fuzz tests/gpu,$(wildcard $(d)/*.[ch])))
CXX_SOURCES := $(TACHO_CXX) $(CUDA_SRC) $(wildcard tests/gpu/*.cu tests/gpu/*.cpp tests/gpu/shim/*)
SCRIPTS := $(sort $(filter-out %.py %.tsv,$(wildcard .ci/*)) tests/run $(shell find tests share -name '*.sh'))
PY_SOURCES := $(sort $(HOOK_PY) $(HOOK_PACKAGE) $(wildcard .ci/*.py profiler/python/tacho/*.py workloads/bottlenecks/*.py) $(shell find tests -name '*.py'))
# the checks of tests/lint that are programs, but circles.py, which reads a build; 77: a tool is missing, which the check has said
LINTS := $(sort $(wildcard tests/lint/*.sh) $(filter-out tests/lint/circles.py,$(wildcard tests/lint/*.py)))
PYFLAKES ?= $(firstword $(foreach p,pyflakes3 pyflakes,$(shell command -v $(p))))
lint: ## formatting and checks of C, C++, Python and shell sources, direction of includes, left-over marks
	$(Q)$(MAKE) --no-print-directory --keep-going --output-sync=target lint-rules lint-circles lint-format lint-shell lint-python
lint-rules:
	$(Q)bad=0; for lint in $(LINTS); do $$lint || [ $$? = 77 ] || bad=1; done; exit $$bad
lint-circles:
	$(Q)if [ -d "$(O)/obj" ]; then tests/lint/circles.py "$(O)"; else echo "lint: no build in $(O): circles not checked"; fi
lint-format:
	$(Q)if command -v clang-format > /dev/null; then clang-format --dry-run -Werror $(SOURCES) $(CXX_SOURCES); else echo "lint: no clang-format: formatting not checked"; fi
lint-shell:
	$(Q)if command -v shellcheck > /dev/null; then shellcheck -S warning $(SCRIPTS); else echo "lint: no shellcheck: scripts not checked"; fi
lint-python:
	$(Q)if command -v python3 > /dev/null; then PYTHONPYCACHEPREFIX=$(O)/lint-python python3 -m py_compile $(PY_SOURCES); else echo "lint: no python3: Python files not checked"; fi
	$(Q)if [ -n "$(PYFLAKES)" ]; then $(PYFLAKES) $(PY_SOURCES); else echo "lint: no pyflakes: Python files only compiled"; fi
lint-deep: ## gcc -fanalyzer, clang-tidy and cppcheck against .ci/analyze.tsv (an hour on two cores, LINT_SECONDS=N: a part of it; CHANGED=1: changed files only, for 10 minutes at most)
	$(Q)if [ -f "$(O)/config.mk" ] && [ -d "$(O)/gen" ]; then .ci/analyze.py $(if $(CHANGED),--changed) $(if $(LINT_SECONDS),--seconds=$(LINT_SECONDS)) "$(O)" || [ $$? = 77 ]; else echo "lint: no build in $(O): nothing was analysed"; fi
tidy: ## clang-tidy with the rules of .clang-tidy (slow)
	$(Q)clang-tidy --quiet $(filter %.c,$(SOURCES)) -- -std=c11 -D_GNU_SOURCE -DTACHO_VERSION='""' -Iinclude -I. -I$(O)/gen -I/usr/local/cuda/include -I$(O)/nvtx/include
format: ## formats the sources in place
	clang-format -i $(SOURCES) $(CXX_SOURCES)
compile_commands.json: ## for editors (needs bear)
	bear -- $(MAKE) -B all unit-programs

# ---- install ---------------------------------------------------------------------------------------------------------------------
D = $(DESTDIR)$(PREFIX)
SHARE := $(notdir $(wildcard share/*))
# pages of the commands and completions of shells, made from the tables of options by the program itself
man: all ## manual pages (needs scdoc) and completions of bash, zsh and fish, in build/man and build/completion
	@mkdir -p $(O)/man $(O)/completion
	$(Q)for s in bash zsh fish; do $(O)/tacho help --completion $$s > $(O)/completion/tacho.$$s || exit 1; done
	$(Q)if ! command -v scdoc > /dev/null; then echo "man: no scdoc: no manual pages"; else \
	for c in '' $$($(O)/tacho help | sed -n '/^commands:/,/^$$/s/^  \([a-z]*\) .*/\1/p'); do \
	$(O)/tacho help --scdoc $$c | scdoc > $(O)/man/tacho$${c:+-$$c}.1 || exit 1; done; fi
install: all man ## tacho, libtacho.so, train, tacho_nvtx.h, manual pages, completions and the documents under PREFIX
	install -d "$(D)/bin" "$(D)/lib" "$(D)/libexec/tacho" "$(D)/include" "$(D)/share/doc/tacho/docs"
	install -m 755 $(O)/tacho "$(D)/bin/tacho"
	install -m 755 $(O)/libtacho.so "$(D)/lib/libtacho.so"
	install -m 755 $(O)/train "$(D)/libexec/tacho/train"
	install -m 755 $(O)/libtacho_gemm.so "$(D)/lib/libtacho_gemm.so"
	install -d "$(D)/lib/tacho-python"
	install -m 755 $(O)/tacho-python/libtacho_hook.so "$(D)/lib/tacho-python/"
	install -m 644 $(HOOK_PY) "$(D)/lib/tacho-python/"
	rm -f "$(D)/lib/tacho-python/tacho_hook.py"
	install -d "$(D)/lib/tacho-python/tacho_hook"
	install -m 644 $(HOOK_PACKAGE) "$(D)/lib/tacho-python/tacho_hook/"
	install -m 644 include/tacho_nvtx.h "$(D)/include/tacho_nvtx.h"
	install -m 644 README.md CHANGELOG.md SECURITY.md LICENSE "$(D)/share/doc/tacho/"
	install -m 644 $(wildcard docs/*.md) "$(D)/share/doc/tacho/docs/"
	install -d "$(D)/share/doc/tacho/docs/schemas" "$(D)/share/doc/tacho/docs/howto"
	install -m 644 $(wildcard docs/howto/*.md) "$(D)/share/doc/tacho/docs/howto/"
	install -m 644 $(wildcard docs/schemas/*.json) "$(D)/share/doc/tacho/docs/schemas/"
	for folder in $(SHARE); do install -d "$(D)/share/tacho/$$folder" && cp -R share/$$folder/. "$(D)/share/tacho/$$folder/" || exit 1; done
	install -d "$(D)/share/man/man1" "$(D)/share/bash-completion/completions" "$(D)/share/zsh/site-functions" "$(D)/share/fish/vendor_completions.d"
	for page in $(O)/man/*.1; do [ ! -f "$$page" ] || install -m 644 "$$page" "$(D)/share/man/man1/"; done
	install -m 644 $(O)/completion/tacho.bash "$(D)/share/bash-completion/completions/tacho"
	install -m 644 $(O)/completion/tacho.zsh "$(D)/share/zsh/site-functions/_tacho"
	install -m 644 $(O)/completion/tacho.fish "$(D)/share/fish/vendor_completions.d/tacho.fish"
uninstall: ## removes what install put under PREFIX
	rm -f "$(D)/bin/tacho" "$(D)/lib/libtacho.so" "$(D)/lib/libtacho_gemm.so" "$(D)/include/tacho_nvtx.h"
	rm -f "$(D)/share/bash-completion/completions/tacho" "$(D)/share/zsh/site-functions/_tacho" "$(D)/share/fish/vendor_completions.d/tacho.fish" "$(D)/share/man/man1/tacho.1" "$(D)"/share/man/man1/tacho-*.1
	rm -rf "$(D)/libexec/tacho" "$(D)/lib/tacho-python" "$(D)/share/doc/tacho" "$(D)/share/tacho"

ifneq ($(filter-out $(NO_BUILD_GOALS),$(or $(MAKECMDGOALS),all)),)
-include $(patsubst %.c,$(O)/obj/%.d,$(TACHO_SRC) $(TRAIN_SRC) $(AGENT_SRC) $(HOOK_SRC) $(GEMM_SRC) $(UNIT_SRC) $(TARGET_SRC) $(BENCH_SRC) $(wildcard tests/fuzz/*.c) tests/gpu/step_model.c) $(patsubst %.cpp,$(O)/obj/%.d,$(TACHO_CXX))
endif

deps: ## installs what the build needs (Debian packages, NVTX headers); done by itself when something is missing
	$(Q).ci/deps "$(O)"
clean: ## remove the build folder
	rm -rf $(O)
help: ## this list
	@echo "targets:"; sed -n 's/^\([a-z][a-z_.-]*\):[^#]*## \(.*\)/  \1\t\2/p' Makefile | expand -t 24
	@echo "knobs:"; sed -n 's/^[A-Z]* ?=[^#]*## \([^ ]*\) *\(.*\)/  \1\t\2/p' Makefile | expand -t 24
force:
FUZZ_SECONDS ?=
ROOMS ?=
.PHONY: asan-changed check-rooms check-aarch64 screens man double frameworks frameworks-beside check-frameworks bench-engine bench-advice dist deb coverage gpu-tests cuda cuda-sass fuzz fuzz-programs all test check check-unit check-timing check-wide check-long check-hostile unit-programs asan ubsan tsan check-san bench demo lint lint-deep lint-rules lint-circles lint-format lint-shell lint-python tidy format install uninstall deps clean help force
