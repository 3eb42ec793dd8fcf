#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# No step of the engine allocates after the first: in runs of 3 and of 9 steps it calls malloc and its relatives, and mmap, equally often. All models
# in all types, and all optimizers. What the matrix library takes and gives back within its calls is only said.
set -u
fail() { echo "FAIL: $*"; exit 1; }
[ -z "${SAN:-}" ] || { echo "the sanitizers allocate in the program's place"; exit 77; }
cd "$TMPDIR" || exit 1
export XDG_CACHE_HOME=$TMPDIR/cache OMP_NUM_THREADS=2
mkdir cache
# glibc's own functions are behind those that count
cat > count.c << 'C'
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
static _Atomic long own, others;
static uintptr_t begin, end; /* of the program's code; the first object is the program */
static int first_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            end = begin + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}
__attribute__((constructor)) static void find(void) { dl_iterate_phdr(first_object, NULL); }
#define NOTE \
    uintptr_t caller = (uintptr_t)__builtin_return_address(0); \
    atomic_fetch_add(caller >= begin && caller < end ? &own : &others, 1)
void *malloc(size_t bytes) { NOTE; return __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { NOTE; return __libc_calloc(count, bytes); }
void *realloc(void *old, size_t bytes) { NOTE; return __libc_realloc(old, bytes); }
void *memalign(size_t alignment, size_t bytes) { NOTE; return __libc_memalign(alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { NOTE; return __libc_memalign(alignment, bytes); }
int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    NOTE;
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : ENOMEM;
}
void *mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset)
{
    NOTE;
    return (void *)syscall(SYS_mmap, at, bytes, access, flags, file, offset);
}
__attribute__((destructor)) static void say(void)
{
    fprintf(stderr, "allocations: %ld by train, %ld by libraries\n", (long)own, (long)others);
}
C
"$CC" -O1 -w -shared -fPIC -o count.so count.c 2> err || { cat err; echo "no glibc to count in"; exit 77; }
# allocations of a run of so many steps: by the program itself, by libraries
count() { # STEPS ARGUMENTS
    LD_PRELOAD=$TMPDIR/count.so "$TRAIN" "${@:2}" --steps "$1" --log-every 0 --workers 0 > out 2> err || { cat out err; fail "${*:2}"; }
    sed -n 's/^allocations: \([0-9]*\) by train, \([0-9]*\) by libraries$/\1 \2/p' err
}
count 1 mlp > /dev/null # draws the digits
runs=0 most=0
check() { # ARGUMENTS
    local few many few_library many_library
    read -r few few_library <<< "$(count 3 "$@")"
    read -r many many_library <<< "$(count 9 "$@")"
    if [ "${few:-0}" -lt 10 ] || [ "$few" != "$many" ]; then
        fail "$*: ${few:-no} allocations in 3 steps, ${many:-no} in 9"
    fi
    runs=$((runs + 1))
    [ $(((many_library - few_library) / 6)) -le $most ] || most=$(((many_library - few_library) / 6))
}
text=(--layers 2 --channels 32 --heads 2 --seq 16 --batch 2 --data "$SRC/LICENSE")
for dtype in fp32 bf16 fp16; do
    for model in gpt2-tiny llama-tiny moe-tiny; do check $model "${text[@]}" --dtype $dtype; done
    check mlp --hidden 32 --batch 4 --dtype $dtype
    check resnet-tiny --channels 8 --batch 4 --dtype $dtype
done
check gpt2-tiny "${text[@]}" --accumulate 3 --recompute block --watch 2
check llama-tiny "${text[@]}" --recompute block --clip-by layer
names=$("$TRAIN" --help all | sed -n 's/^  --optimizer NAME *//p' | sed 's/([^)]*)//g; s/ or /, /g; s/,/ /g')
for name in $names; do
    [ "$name" = default ] || check gpt2-tiny "${text[@]}" --layers 1 --optimizer "$name" --lookahead 2
done
echo "$runs runs: as many allocations of the engine in 9 steps as in 3; libraries make at most $most in a step"
[ "$runs" -ge 30 ] || fail "only $runs runs"
