/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of what `train calibrate` measures by default, in the order of the rows in its result.
 * Messages of MPI and single operations are measured only when they are asked for.
 */
#include "libtrain/calibrate/calibrate.h"

int lt_calibrate(struct lt_calibration *out, const struct lt_calibrate_options *options)
{
    int rc = lt_calibrate_gemm(out, options);
    if (rc == 0)
        rc = lt_calibrate_curve(out, options);
    if (rc == 0)
        rc = lt_calibrate_memory(out, options);
    if (rc == 0)
        rc = lt_calibrate_disk(out, options);
    return rc;
}
