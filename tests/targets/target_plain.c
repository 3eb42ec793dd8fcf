/* SPDX-License-Identifier: Apache-2.0
 *
 * A target that knows nothing of NVTX: burns CPU time, reads its input if asked, and exits as it is
 * told.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char usage[] = "target_plain [OPTIONS]: a program without NVTX\n"
                            "  --ms N       burn N milliseconds of CPU time (50)\n"
                            "  --sleep N    then sleep N milliseconds\n"
                            "  --echo       copy standard input to standard output\n"
                            "  --environ    print the environment, one variable a line\n"
                            "  --exit N     exit status (0)\n";

static const struct option options[] = {
    {"ms", 1, 0, 'm'},      {"sleep", 1, 0, 's'}, {"echo", 0, 0, 'e'}, {"exit", 1, 0, 'x'},
    {"environ", 0, 0, 'E'}, {"help", 0, 0, 'h'},  {0, 0, 0, 0}};

extern char **environ;

static void burn(long ms)
{
    volatile double x = 1;
    clock_t until = clock() + ms * (CLOCKS_PER_SEC / 1000);
    while (clock() < until)
        for (int i = 0; i < 10000; i++)
            x = x * 1.0000001 + 1e-9;
}

static void echo(void)
{
    char text[4096];
    for (ssize_t n; (n = read(0, text, sizeof text)) > 0;)
        if (write(1, text, (size_t)n) != n)
            exit(1);
}

int main(int argc, char **argv)
{
    long ms = 50, pause = 0, status = 0;
    int do_echo = 0, do_environ = 0;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'm':
            ms = atol(optarg);
            break;
        case 's':
            pause = atol(optarg);
            break;
        case 'x':
            status = atol(optarg);
            break;
        case 'e':
            do_echo = 1;
            break;
        case 'E':
            do_environ = 1;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fputs(usage, stderr);
            return 2;
        }
    }
    burn(ms);
    if (do_echo)
        echo();
    for (char **e = environ; do_environ && *e; e++)
        puts(*e);
    nanosleep(&(struct timespec){.tv_sec = pause / 1000, .tv_nsec = pause % 1000 * 1000000}, NULL);
    return (int)status;
}
