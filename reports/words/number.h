/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for people, with three or four digits and a prefix: "6.25 TFLOP/s", "1.5 GiB", "12.3 ms".
 * The reports and the dashboard print the same ones. buf has 32 bytes; every function returns buf.
 * Texts are UTF-8 (the micro sign).
 */
#ifndef REPORTS_NUMBER_H
#define REPORTS_NUMBER_H

const char *page_number(char *buf,
                        double v); /* four digits; never an exponent (analyzers/base/words.h) */
const char *page_digits(char *buf, double v, int digits);
const char *page_si(char *buf, double v, const char *unit);
const char *page_bytes(char *buf, double v);
const char *page_time(char *buf, double ns);

#endif
