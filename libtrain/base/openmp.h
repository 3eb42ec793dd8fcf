/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: OpenMP where the compiler has it, else its calls for one thread.
 */
#ifndef LT_OPENMP_H
#define LT_OPENMP_H

#ifdef _OPENMP
#include <omp.h>
#else
static inline int omp_get_max_threads(void)
{
    return 1;
}
static inline int omp_get_thread_num(void)
{
    return 0;
}
static inline int omp_in_parallel(void)
{
    return 0;
}
static inline void omp_set_num_threads(int threads)
{
    (void)threads;
}
#endif

#endif
