/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the demangler of the C++ runtime at run time: tacho itself is C and does not link to one.
 * Function names of sampled stacks and of GPU kernels go through it. Rust's older mangling is a C++
 * name with escapes, which are undone afterwards.
 */
#include "profiler/collector/os/demangle.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef char *(*demangler)(const char *name, char *buffer, size_t *size, int *status);

static demangler find(void)
{
    static const char *const library[] = {"libstdc++.so.6", "libc++abi.so.1"};
    void *handle = NULL;
    demangler function = (demangler)(uintptr_t)dlsym(RTLD_DEFAULT, "__cxa_demangle");
    for (size_t i = 0; i < sizeof library / sizeof *library && !function; i++)
        if ((handle = dlopen(library[i], RTLD_LAZY | RTLD_LOCAL)))
            function = (demangler)(uintptr_t)dlsym(handle, "__cxa_demangle");
    return function;
}

/* Undoes the escapes of Rust's older mangling, in place. Such names end with a hash ("::h" and 16
 * digits) and write letters that C++ does not allow as $..$ and "..". Other names stay as they
 * are. */
static char *rust(char *text)
{
    static const char *const escape[][2] = {
        {"$LT$", "<"},  {"$GT$", ">"},  {"$RF$", "&"},  {"$BP$", "*"},  {"$LP$", "("},
        {"$RP$", ")"},  {"$C$", ","},   {"$SP$", "@"},  {"$u20$", " "}, {"$u27$", "'"},
        {"$u5b$", "["}, {"$u5d$", "]"}, {"$u7b$", "{"}, {"$u7d$", "}"}, {"$u7e$", "~"}};
    size_t length = text ? strlen(text) : 0;
    if (length < 20 || strncmp(text + length - 19, "::h", 3) != 0 ||
        strspn(text + length - 16, "0123456789abcdef") != 16)
        return text;
    text[length - 19] = 0;
    char *end = text;
    for (const char *from = text; *from;) {
        size_t i = 0, escapes = sizeof escape / sizeof *escape;
        while (i < escapes && strncmp(from, escape[i][0], strlen(escape[i][0])) != 0)
            i++;
        if (i < escapes) {
            *end++ = escape[i][1][0];
            from += strlen(escape[i][0]);
        } else if (from[0] == '.' && from[1] == '.') {
            *end++ = ':';
            *end++ = ':';
            from += 2;
        } else if (from[0] == '_' && from[1] == '$' &&
                   (from == text || from[-1] == ':')) { /* a component that begins with an escape */
            from++;
        } else {
            *end++ = *from++;
        }
    }
    *end = 0;
    return text;
}

char *col_demangle(const char *name)
{
    static demangler demangle;
    static int looked;
    int status = -1;
    if (strncmp(name, "_Z", 2) != 0)
        return NULL;
    if (!looked) {
        demangle = find();
        looked = 1;
    }
    char *text = demangle ? demangle(name, NULL, NULL, &status) : NULL;
    if (status == 0)
        return rust(text);
    free(text);
    return NULL;
}
