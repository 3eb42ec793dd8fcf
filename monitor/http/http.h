/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to monitor/: requests over plain HTTP, many at once. No TLS: what crosses a network goes
 * through a tunnel or a proxy that the user sets up.
 */
#ifndef MONITOR_HTTP_H
#define MONITOR_HTTP_H

#include <stddef.h>

#include "tacho_error.h"

#define MON_HTTP_ANSWER_MOST ((size_t)8 << 20) /* bytes of an answer; a longer one is an error */

/* A request and what came of it. The caller owns the texts of the request, and `answer`, which
 * mon_http_free() frees. */
struct mon_http {
    const char *url;   /* http://HOST[:PORT][/PATH]; an IPv6 address in brackets */
    const char *type;  /* media type of the body */
    const char *token; /* sent as "Authorization: Bearer"; NULL: none */
    const char *body;  /* NULL: GET, else POST */
    size_t size;       /* of the body, in bytes */

    int rc;          /* 0 for a status of 200 to 299, else TACHO_E*, with the words in `err` */
    int status;      /* of the answer; 0: none came */
    char *answer;    /* the body, with a 0 after its end; NULL: none */
    size_t answered; /* its bytes */
    struct tacho_error err;
};

/* Makes all requests, at most 64 at a time, each within `seconds` from the start of its own
 * connection to the last byte of its answer. Names of hosts are looked up one after the other. */
void mon_http_all(struct mon_http *list, size_t count, double seconds);
/* The answer of each, and nothing else, is freed. */
void mon_http_free(struct mon_http *list, size_t count);

#endif
