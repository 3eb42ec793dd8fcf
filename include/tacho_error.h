/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: error codes and the error object that every room of tacho reports through.
 *
 * Convention. A function that can fail returns 0, or a negative code of TACHO_ERROR_MAP. Where the
 * caller needs words, it passes a `struct tacho_error *` (may be NULL): the callee fills `what`
 * ("FILE: what happened") and `hint` ("what to do"). Libraries never print and never exit; only
 * cli/ turns an error into stderr text and an exit code. Ownership: the caller owns the struct; it
 * holds no pointers, so it needs no clean-up.
 */
#ifndef TACHO_ERROR_H
#define TACHO_ERROR_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* name, code, process exit code (2 usage, 3 bad input, 4 not supported or not permitted,
 * 5 internal), text */
#define TACHO_ERROR_MAP(X) \
    X(NOMEM, -1, 5, "out of memory") \
    X(IO, -2, 3, "input/output error") \
    X(NOSPACE, -3, 3, "no space left on device") \
    X(NOTFOUND, -4, 3, "no such file") \
    X(FORMAT, -5, 3, "not a file tacho can read") \
    X(CORRUPT, -6, 3, "damaged file") \
    X(VERSION, -7, 3, "written by a newer tacho") \
    X(BUSY, -8, 3, "in use by another process") \
    X(EXISTS, -9, 3, "exists already") \
    X(USAGE, -10, 2, "wrong usage") \
    X(NOTSUP, -11, 4, "not supported here") \
    X(DENIED, -12, 4, "not permitted") \
    X(INTERNAL, -13, 5, "internal error") \
    X(INTERRUPTED, -14, 130, "interrupted")

enum tacho_error_code {
    TACHO_OK = 0,
#define TACHO_ERROR_ENUM(name, code, exit_code, text) TACHO_E##name = (code),
    TACHO_ERROR_MAP(TACHO_ERROR_ENUM)
#undef TACHO_ERROR_ENUM
};

struct tacho_error {
    int code;       /* 0 or a negative TACHO_E* */
    char what[512]; /* "FILE: what happened", no trailing newline */
    char hint[256]; /* "what to do", may be empty */
};

/* Text of a code, never NULL; static storage. */
static inline const char *tacho_error_text(int code)
{
    switch (code) {
    case TACHO_OK:
        return "ok";
#define TACHO_ERROR_TEXT(name, value, exit_code, text) \
    case value: \
        return text;
        TACHO_ERROR_MAP(TACHO_ERROR_TEXT)
#undef TACHO_ERROR_TEXT
    default:
        return "unknown error";
    }
}

/* The code for an errno. */
static inline int tacho_error_of_errno(int os)
{
    switch (os) {
    case ENOENT:
    case ENOTDIR:
        return TACHO_ENOTFOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return TACHO_EDENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return TACHO_ENOSPACE;
    case EEXIST:
        return TACHO_EEXISTS;
    case ENOMEM:
        return TACHO_ENOMEM;
    default:
        return TACHO_EIO;
    }
}

/* What to do about an errno: too few descriptors have nothing to do with the file, so `otherwise`
 * would mislead. */
static inline const char *tacho_error_hint(int os, const char *otherwise)
{
    return os == EMFILE || os == ENFILE ? "allow more open files, for example with 'ulimit -n 4096'"
                                        : otherwise;
}

/* Exit code of the command line program for an error code (0 for TACHO_OK, 5 for an unknown one).
 */
static inline int tacho_error_exit(int code)
{
    switch (code) {
    case TACHO_OK:
        return 0;
#define TACHO_ERROR_EXIT(name, value, exit_code, text) \
    case value: \
        return exit_code;
        TACHO_ERROR_MAP(TACHO_ERROR_EXIT)
#undef TACHO_ERROR_EXIT
    default:
        return 5;
    }
}

/* The ending of a noun in a message: "s" unless there is one of it. */
static inline const char *tacho_plural(long long count)
{
    return count == 1 ? "" : "s";
}

/* Fills *err (if not NULL) and returns `code`, so that a function can end with `return
 * tacho_fail(err, ...)`. `hint` may be NULL. `what` is a printf format. */
__attribute__((format(printf, 4, 5))) static inline int
tacho_fail(struct tacho_error *err, int code, const char *hint, const char *what, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, what);
        err->code = code;
        vsnprintf(err->what, sizeof err->what, what, ap);
        snprintf(err->hint, sizeof err->hint, "%s", hint ? hint : "");
        va_end(ap);
    }
    return code;
}

#endif
