/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: compute that is only waiting, so that more ranks than cores take the time
 * that they would take with cores of their own.
 */
#ifndef LT_SIMULATED_H
#define LT_SIMULATED_H

struct lt_trace;

/* Sleeps in a range `simulated.forward` or `simulated.backward` with tacho.work of that pass and no
 * FLOPs: tools see compute. Nothing for 0 seconds. */
void lt_simulate(struct lt_trace *trace, int backward, double seconds);

/* Sleeps for that long, whatever signals come. */
void lt_sleep(double seconds);

#endif
