/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls the real libnccl on a machine without a GPU: every call fails, but the NVTX ranges around
 * them tell of communicator, bytes and operation all the same. Prints NCCL's version, or exits with
 * 77 where there is no libnccl.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct id {
    char bytes[128];
};

int main(int argc, char **argv)
{
    void *h = dlopen(argc > 1 ? argv[1] : "libnccl.so.2", RTLD_NOW);
    if (!h) {
        printf("%s\n", dlerror());
        return 77;
    }
    int (*version)(int *) = (int (*)(int *))(uintptr_t)dlsym(h, "ncclGetVersion");
    int (*init)(void **, int, struct id, int) =
        (int (*)(void **, int, struct id, int))(uintptr_t)dlsym(h, "ncclCommInitRank");
    int (*reduce)(const void *, void *, size_t, int, int, void *, void *) =
        (int (*)(const void *, void *, size_t, int, int, void *, void *))(uintptr_t)dlsym(
            h, "ncclAllReduce");
    struct id id;
    void *comm = NULL;
    int v = 0;
    if (!version || !init || !reduce || version(&v))
        return 77;
    memset(&id, 0, sizeof id);
    int rc = init(&comm, 1, id, 0);
    static float data[1024];
    int rc2 = reduce(data, data, 1024, 7, 0, NULL, NULL);
    printf("version %d, %d, %d\n", v, rc, rc2);
    return 0;
}
