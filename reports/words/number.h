/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for people, with three or four digits and a prefix: "6.25 TFLOP/s", "1.5 GiB", "12.3 ms".
 * The reports and the dashboard print the same ones. buf has NUMBER_BYTES; every function returns
 * buf. Texts are UTF-8 (the micro sign).
 */
#ifndef REPORTS_NUMBER_H
#define REPORTS_NUMBER_H

#define NUMBER_BYTES 32

/* Four digits, never an exponent (analyzers/base/words.h). */
const char *page_number(char *buf, double value);
const char *page_digits(char *buf, double value, int digits);
/* Per cent with one digit: "32.7"; "< 0.1" for what is above zero and would be printed as zero. */
const char *page_share(char *buf, double pct);
const char *page_si(char *buf, double value, const char *unit);
const char *page_bytes(char *buf, double bytes);
const char *page_time(char *buf, double ns);

/* The same as an argument of a call: the buffer lives until the end of the block. */
#define NUMBER_TEXT(value)         page_number((char[NUMBER_BYTES]){0}, value)
#define DIGITS_TEXT(value, digits) page_digits((char[NUMBER_BYTES]){0}, value, digits)
#define SHARE_TEXT(pct)            page_share((char[NUMBER_BYTES]){0}, pct)
#define SI_TEXT(value, unit)       page_si((char[NUMBER_BYTES]){0}, value, unit)
#define BYTES_TEXT(bytes)          page_bytes((char[NUMBER_BYTES]){0}, bytes)
#define TIME_TEXT(ns)              page_time((char[NUMBER_BYTES]){0}, ns)

#endif
