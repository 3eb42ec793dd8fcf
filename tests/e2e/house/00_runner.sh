#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# parallel: yes
# The test runner itself: counts, failures, skips with a reason, time limit, crash of a unit program, processes left behind,
# signals, exit status. It runs a copy of itself over scripts and a cmocka program written here.
set -eu
root=$(mktemp -d)
mkdir -p "$root/tests/unit" "$root/tests/e2e" "$root/b/tests/unit"
cp tests/run "$root/tests/run"
cd "$root"

fail() {
    echo "$1"
    cat out
    exit 1
}
# expect STATUS LAST_LINE ARGUMENTS...
expect() {
    local status=$1 last=$2 rc=0
    shift 2
    tests/run "$@" > out 2>&1 || rc=$?
    [ "$rc" = "$status" ] || fail "exit status $rc instead of $status"
    [ "$(tail -n 1 out)" = "$last" ] || fail "last line is not '$last'"
}

expect 1 "0 passed, 0 failed" b
echo 'exit 0' > tests/e2e/01_good.sh
echo 'exit 9' > tests/e2e/long_bad.sh
echo 'exit 9' > tests/e2e/shared.sh
expect 0 "1 passed, 0 failed" b
expect 1 "1 passed, 1 failed" --long b
expect 0 "1 passed, 0 failed" b good
expect 1 "0 passed, 0 failed" b nothing_has_this_name
mkdir tests/e2e/room
echo 'exit 0' > tests/e2e/room/01_other.sh
expect 0 "2 passed, 0 failed" b
expect 0 "1 passed, 0 failed" b e2e/room/
expect 0 "1 passed, 0 failed" b e2e/01_other
rm -r tests/e2e/room
echo 'echo no such device; exit 77' > tests/e2e/02_skip.sh
expect 0 "1 passed, 0 failed, 1 skipped" b
grep -q '02_skip.*no such device' out || fail "the reason of a skip is missing"
echo 'echo the reason; exit 1' > tests/e2e/03_bad.sh
expect 1 "1 passed, 1 failed, 1 skipped" b
grep -q '| the reason' out || fail "the log of a failure is missing"
rm tests/e2e/0*

# a background shell command ignores INT; a test must not inherit that
echo 'trap "exit 0" INT; kill -INT $$; exit 1' > tests/e2e/01_int.sh
# shellcheck disable=SC2016  # for the script to expand
echo '[ "$1" = "$BUILD" ] && [ -x "$BUILD/tests" ] && [ -z "$(ls -A "$TMPDIR")" ] && [ -z "${TACHO_PAUSE:-}" ]' > tests/e2e/02_env.sh
TACHO_PAUSE=0.5 expect 0 "2 passed, 0 failed" b
rm tests/e2e/0*

# a test that hangs, and children that it leaves: all of them gone
printf '# a hanging test\n# timeout: 1\nsleep 3601 & sleep 3602\n' > tests/e2e/01_hang.sh
SAN='' expect 1 "0 passed, 1 failed" b
grep -q 'time limit (1 s)' b/tests/log/e2e/01_hang || fail "the time limit is not named"
for process in /proc/[0-9]*; do
    case $({ tr '\0' ' ' < "$process/cmdline"; } 2> /dev/null || true) in
    "sleep 3601 " | "sleep 3602 ") fail "left behind: ${process#/proc/}" ;;
    esac
done
rm tests/e2e/0*

# scripts that say so run beside each other, one more than there are cores; the others afterwards, alone; a signal reaches them all
mkdir meet
for script in 01_a 03_b; do
    # shellcheck disable=SC2016  # for the script to expand
    printf '#!/bin/bash\n# parallel: yes\ntouch meet/%s\nfor _ in $(seq 600); do [ -e meet/01_a -a -e meet/03_b ] && exit 0; sleep 0.05; done\nexit 1\n' \
        $script > tests/e2e/$script.sh
done
echo 'mkdir alone && sleep 0.2 && rmdir alone' | tee tests/e2e/02_c.sh > tests/e2e/04_d.sh
printf '#!/bin/bash\n# parallel: yes\necho the reason; exit 3\n' > tests/e2e/05_e.sh
expect 1 "4 passed, 1 failed" b
grep -q '| the reason' out || fail "the log of a failure beside others is missing"
rm tests/e2e/0*
printf '#!/bin/bash\n# parallel: yes\nsleep 3603.%d\n' $$ > tests/e2e/01_a.sh
cp tests/e2e/01_a.sh tests/e2e/02_b.sh
tests/run b > out 2>&1 &
for _ in $(seq 600); do [ "$(pgrep -fcx "sleep 3603.$$")" = 2 ] && break; sleep 0.05; done
[ "$(pgrep -fcx "sleep 3603.$$")" = 2 ] || fail "two scripts do not run beside each other"
if command -v flock > /dev/null; then # a second run would remove the folders of these two
    rc=0
    tests/run b good > second 2>&1 || rc=$?
    if [ $rc != 2 ] || ! grep -q 'another run of the tests uses' second || [ ! -d b/tests/work/e2e/01_a ]; then
        fail "a second run in one build folder: exit status $rc"
    fi
fi
kill $!
rc=0
wait $! || rc=$?
[ $rc = 130 ] || fail "exit status $rc after a signal"
for _ in $(seq 600); do [ "$(pgrep -fcx "sleep 3603.$$")" = 0 ] && break; sleep 0.05; done # a killed process takes a moment
[ "$(pgrep -fcx "sleep 3603.$$")" = 0 ] || fail "a signal leaves scripts behind"
rm tests/e2e/0*
# the scripts that take longest start first: all of them meet before another one runs
most=$(($(nproc) + 2))
for ((i = 1; i <= most; i++)); do
    # shellcheck disable=SC2016  # for the script to expand
    printf '#!/bin/bash\n# parallel: first\ntouch meet/first%d\nfor _ in $(seq 600); do [ $(ls meet | grep -c first) = %d ] && exit 0; sleep 0.05; done\nexit 1\n' \
        $i $most > tests/e2e/02_first$i.sh
done
printf '#!/bin/bash\n# parallel: yes\n[ $(ls meet | grep -c first) = %d ]\n' $most > tests/e2e/01_a.sh
expect 0 "$((most + 1)) passed, 0 failed" b
rm tests/e2e/0*

# scripts that compare times run when they are asked for; each further try is told, also one inside of a script
printf '#!/bin/bash\n# timing: yes\n# patience: 3\n[ -e tried ] && exit 0\ntouch tried\necho "FAIL: too slow"\nexit 1\n' > tests/e2e/01_time.sh
echo 'echo "retry: a part (try 2 of 3): too late"' > tests/e2e/02_exact.sh
expect 0 "1 passed, 0 failed" b
grep -q '^ *retry: a part (try 2 of 3): too late$' out || fail "what a script repeats is not shown"
expect 0 "1 passed, 0 failed" --timing b
grep -qx 'retry: e2e/01_time (try 2 of 3): too slow' out || fail "a further try is not told"
printf '#!/bin/bash\n# timing: yes\n# patience: 2\necho "FAIL: too slow"\nexit 1\n' > tests/e2e/01_time.sh
expect 1 "0 passed, 1 failed" --timing b
[ "$(grep -c '^retry: ' out)" = 1 ] || fail "a patience of 2 is not one further try"
expect 1 "0 passed, 0 failed" --unit b
[ "$(cut -f 1 b/tests/log/times)" = '' ] || fail "times of tests that did not run"
rm tests/e2e/0*
# wide scripts run when they are asked for, by their kind or by a name
printf '#!/bin/bash\n# parallel: yes\n# wide: yes\nexit 0\n' > tests/e2e/01_wide.sh
echo 'exit 0' | tee tests/e2e/02_narrow.sh > tests/e2e/03_narrow.sh
expect 0 "2 passed, 0 failed" b
expect 0 "1 passed, 0 failed" --wide b
grep -q '^pass *e2e/01_wide ' out || fail "--wide runs another script"
expect 0 "1 passed, 0 failed" b 01_wide
expect 1 "3 passed, 1 failed" --long b # long_bad
rm tests/e2e/0*
# hostile scripts run when they are asked for; a table of their last lines ends the run, and a script without such a line fails
echo 'exit 9' > tests/e2e/01_not_hostile.sh
echo 'echo "hostile: stray writes | ${ROUNDS:-7} rounds | all named"' > tests/e2e/hostile_good.sh
expect 0 "1 passed, 0 failed" --hostile b
grep -qx 'hostile_good  *stray writes  *7 rounds  *all named' out || fail "the table has no row of a script that passed"
ROUNDS=9 expect 0 "1 passed, 0 failed" --hostile b
grep -q ' 9 rounds ' out || fail "ROUNDS does not reach a hostile script"
echo 'echo "hostile: kills | 3 rounds | 1 lost"; exit 1' > tests/e2e/hostile_bad.sh
echo 'echo done' > tests/e2e/hostile_silent.sh
echo 'echo needs root; exit 77' > tests/e2e/hostile_skip.sh
expect 1 "1 passed, 2 failed, 1 skipped" --hostile b
grep -qx 'hostile_bad  *kills  *3 rounds  *FAILED: 1 lost' out || fail "the table has no row of a script that failed"
grep -qx 'hostile_silent .* FAILED: no result' out || fail "a script without a result does not fail"
grep -qx 'hostile_skip .* skipped: needs root' out || fail "the table has no row of a script that was skipped"
rm tests/e2e/0* tests/e2e/hostile_*
rc=0
tests/run --nothing b > out 2>&1 || rc=$?
[ $rc = 2 ] || fail "an unknown option: exit status $rc"

# cmocka programs: each test counts; one that dies half-way is a failure
cat > tests/unit/test_x.c << 'END'
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
static void good(void **s) { (void)s; }
static void bad(void **s) { (void)s; if (getenv("BAD")) fail(); }
static void skipped(void **s) { (void)s; skip(); }
static void dies(void **s) { (void)s; if (getenv("DIES")) _Exit(0); }
int main(void)
{
    const struct CMUnitTest a[] = {cmocka_unit_test(good), cmocka_unit_test(bad), cmocka_unit_test(skipped)};
    const struct CMUnitTest b[] = {cmocka_unit_test(good), cmocka_unit_test(dies)};
    int failures = cmocka_run_group_tests_name("a", a, NULL, NULL);
    return failures + cmocka_run_group_tests_name("b", b, NULL, NULL);
}
END
${CC:-gcc} tests/unit/test_x.c -o b/tests/unit/test_x -lcmocka
expect 0 "4 passed, 0 failed, 1 skipped" b
expect 0 "4 passed, 0 failed, 1 skipped" --unit b
BAD=1 expect 1 "3 passed, 1 failed, 1 skipped" b
DIES=1 expect 1 "3 passed, 1 failed, 1 skipped" b
expect 1 "0 passed, 0 failed" --wide b
sed -i '1i /* A program.\n * wide: yes\n */' tests/unit/test_x.c
expect 1 "0 passed, 0 failed" b
expect 0 "4 passed, 0 failed, 1 skipped" --wide b
expect 0 "4 passed, 0 failed, 1 skipped" b test_x
sed -i 1,3d tests/unit/test_x.c
rm b/tests/unit/test_x
expect 1 "0 passed, 1 failed" b
