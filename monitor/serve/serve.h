/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of monitor/serve/: the samples of a watch over HTTP (libmicrohttpd), at /metrics,
 * in the text that the client asks for.
 *
 * Nothing listens unless a program starts a server. It answers from texts that
 * mon_serve_publish() left, in a thread of its own: a client never reaches the watch, and the watch
 * waits for no client. Clients are bounded in number (MON_SERVE_CLIENTS), bytes and time; one that
 * has not finished its request after MON_SERVE_SECONDS is cut off.
 */
#ifndef MONITOR_SERVE_H
#define MONITOR_SERVE_H

#include "monitor/export/metric.h"

#define MON_SERVE_CLIENTS 64
#define MON_SERVE_SECONDS 5
#define MON_SERVE_PORT    9464 /* of OpenTelemetry's exporters for Prometheus */
#define MON_TOKEN_MOST    256  /* bytes of a token, with its end */

struct mon_serve;

/* Starts a server at `address`: "ADDRESS:PORT" or "PORT" (then 127.0.0.1), an IPv6 address in
 * brackets; port 0: any free one. On addresses other than loopback it refuses to start without a
 * token file. Requests are refused whose Host is a foreign name: on loopback all but "localhost"
 * and loopback addresses; elsewhere all but addresses and the name of this host, so that no page
 * in a browser reaches it by a name that it controls. `token_file` NULL: no token. TACHO_EUSAGE,
 * TACHO_EDENIED, TACHO_EBUSY (the port), TACHO_ENOTSUP (built without libmicrohttpd) ... The
 * server is the caller's; mon_serve_stop() ends it, and accepts NULL. */
int mon_serve_start(const char *address, const char *token_file, struct mon_serve **serve,
                    struct tacho_error *err);
void mon_serve_stop(struct mon_serve *serve);
/* Where it listens: "127.0.0.1:9464". Lives as long as the server. */
const char *mon_serve_address(const struct mon_serve *serve);
/* From now on these samples are served, and clients that take too long are cut off. 0 or
 * TACHO_ENOMEM: the previous samples stay. */
int mon_serve_publish(struct mon_serve *serve, const struct mon_metrics *metrics);

/* Reads a token: the first line of a file that belongs to the caller and that nobody else may read;
 * 16 to 255 characters without blanks. Messages never hold it. */
int mon_token_read(const char *path, char token[MON_TOKEN_MOST], struct tacho_error *err);

#endif
