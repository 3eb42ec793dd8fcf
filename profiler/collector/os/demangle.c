/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of kernels are mangled C++ names. The demangler is the one of the C++ runtime, where there
 * is one: tacho itself is C.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/drain/gpu.h"

typedef char *(*demangler)(const char *name, char *buffer, size_t *size, int *status);

static demangler find(void)
{
    static const char *const library[] = {"libstdc++.so.6", "libc++abi.so.1"};
    void *h = NULL;
    demangler f = (demangler)(uintptr_t)dlsym(RTLD_DEFAULT, "__cxa_demangle");
    for (size_t i = 0; i < sizeof library / sizeof *library && !f; i++)
        if ((h = dlopen(library[i], RTLD_LAZY | RTLD_LOCAL)))
            f = (demangler)(uintptr_t)dlsym(h, "__cxa_demangle");
    return f;
}

/* Rust's older names are C++ names with a hash at the end, and letters that C++ does not have
 * written as $..$ and "..": the same text, shorter, if it is one. */
static char *rust(char *text)
{
    static const char *const escape[][2] = {
        {"$LT$", "<"},  {"$GT$", ">"},  {"$RF$", "&"},  {"$BP$", "*"},  {"$LP$", "("},
        {"$RP$", ")"},  {"$C$", ","},   {"$SP$", "@"},  {"$u20$", " "}, {"$u27$", "'"},
        {"$u5b$", "["}, {"$u5d$", "]"}, {"$u7b$", "{"}, {"$u7d$", "}"}, {"$u7e$", "~"}};
    size_t n = text ? strlen(text) : 0;
    if (n < 20 || strncmp(text + n - 19, "::h", 3) != 0 ||
        strspn(text + n - 16, "0123456789abcdef") != 16)
        return text;
    text[n - 19] = 0;
    char *to = text;
    for (const char *from = text; *from;) {
        size_t i = 0, many = sizeof escape / sizeof *escape;
        while (i < many && strncmp(from, escape[i][0], strlen(escape[i][0])) != 0)
            i++;
        if (i < many) {
            *to++ = escape[i][1][0];
            from += strlen(escape[i][0]);
        } else if (from[0] == '.' && from[1] == '.') {
            *to++ = ':';
            *to++ = ':';
            from += 2;
        } else if (from[0] == '_' && from[1] == '$' &&
                   (from == text || from[-1] == ':')) { /* before a name that begins so */
            from++;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
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
