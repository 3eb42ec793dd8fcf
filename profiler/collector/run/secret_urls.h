/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the search for secrets: the name and the password of a user before the place where
 * they are valid, in a URL ("https://user:password@host"), without one ("user:password@host") and
 * as Oracle's programs take them ("user/password@//host:1521/service").
 */
#ifndef COL_SECRET_URLS_H
#define COL_SECRET_URLS_H

#include "profiler/collector/run/secret_text.h"

void col_urls_hide(struct col_text *in);

#endif
