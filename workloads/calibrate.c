/* SPDX-License-Identifier: Apache-2.0
 *
 * train calibrate: what this machine can do at most, measured with the engine's own libraries and
 * threads, as JSON on stdout (docs/calibrate.md). `tacho calibrate` runs it, keeps what it says and
 * draws the tables.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "libtrain/calibrate/calibrate.h"
#include "workloads/recipe.h"

static void print_help(void)
{
    printf(
        "usage: train calibrate [OPTION]...\n"
        "Measures GEMMs, memory, caches and disk of this machine and writes JSON. "
        "'tacho calibrate' keeps it and "
        "shows it.\n\n"
        "  --quick       some seconds instead of about half a minute\n"
        "  --ops         also every operation of the engine, cold and hot\n"
        "  --disk DIR    read the disk of that folder (default: the current one)\n"
        "  --mpi         only messages between two ranks: mpirun -np 2 train calibrate --mpi\n"
        "  --only-ops    only the operations\n"
        "  --libraries   only report which libraries it would measure with\n"
        "  --last-cache MIB\n"
        "                size of the last cache, where the system reports another one (a virtual\n"
        "                machine may report one that it shares); operands in memory exceed it\n"
        "  --json        write JSON, the only format\n");
}

/* A whole number of MiB as bytes. */
static int parse_mib(int64_t *bytes, const char *text, struct tacho_error *err)
{
    char *end = NULL;
    long mib = strtol(text, &end, 10);
    if (end == text || *end || mib < 1 || mib > 1 << 20)
        return tacho_fail(err, TACHO_EUSAGE, "for example: --last-cache 32",
                          "calibrate: --last-cache %s: a whole number of MiB from 1 is needed",
                          text);
    *bytes = (int64_t)mib << 20;
    return 0;
}

int calibrate_command(int argc, char **argv, struct tacho_error *err)
{
    static const struct option table[] = {{"quick", no_argument, NULL, 'q'},
                                          {"ops", no_argument, NULL, 'o'},
                                          {"only-ops", no_argument, NULL, 'O'},
                                          {"disk", required_argument, NULL, 'd'},
                                          {"libraries", no_argument, NULL, 'l'},
                                          {"mpi", no_argument, NULL, 'm'},
                                          {"last-cache", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    struct lt_calibrate_options options = {0};
    struct lt_calibration result = {0};
    int ops = 0, skip = 0, mpi = 0, root = 1, c, rc = 0;
    opterr = 0;
    while ((c = getopt_long(argc, argv, "h", table, NULL)) != -1)
        switch (c) {
        case 'q':
            options.quick = 1;
            break;
        case 'o':
        case 'O':
            ops = 1;
            skip = c == 'O';
            break;
        case 'l':
            skip = 1;
            break;
        case 'd':
            options.disk = optarg;
            break;
        case 'c':
            if (parse_mib(&options.last_cache, optarg, err))
                return TACHO_EUSAGE;
            break;
        case 'm':
            mpi = 1;
            break;
        case 'j':
            break;
        case 'h':
            print_help();
            return 0;
        default:
            return tacho_fail(err, TACHO_EUSAGE, "train calibrate --help lists the options",
                              "calibrate: %s: unknown option", argv[optind - 1]);
        }
    if (optind < argc)
        return tacho_fail(err, TACHO_EUSAGE, "train calibrate --help lists the options",
                          "unexpected argument %s", argv[optind]);
    if (mpi)
        rc = lt_calibrate_mpi(&result, &options, &root);
    else if (!skip)
        rc = lt_calibrate(&result, &options);
    if (rc == 0 && ops && !mpi)
        rc = lt_calibrate_ops(&result, &options);
    if (rc == 0 && ops && !mpi)
        rc = lt_calibrate_activations(&result, &options);
    if (rc == 0 && root)
        rc = lt_calibration_write(&result, stdout);
    lt_calibration_clear(&result);
    return rc ? tacho_fail(err, rc, NULL, "calibrate: %s", tacho_error_text(rc)) : 0;
}
