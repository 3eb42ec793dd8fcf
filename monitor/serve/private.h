/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to monitor/serve/: who may ask.
 */
#ifndef MONITOR_SERVE_PRIVATE_H
#define MONITOR_SERVE_PRIVATE_H

#include "monitor/serve/serve.h"

/* Is this the Authorization of a request that knows the token? "" knows everybody. Its time does
 * not depend on where a wrong token differs. */
bool serve_token_fits(const char *token, const char *authorization);
/* Does a Host header name this server? (mon_serve_start()) NULL: no. */
bool serve_host_fits(const char *host, bool is_loopback);
/* Opens the listening socket of "ADDRESS:PORT" or "PORT"; `at` gets where it listens. A descriptor
 * or TACHO_E*. */
#define SERVE_ADDRESS 64
int serve_listen(const char *address, char at[SERVE_ADDRESS], bool *is_loopback,
                 struct tacho_error *err);

#endif
