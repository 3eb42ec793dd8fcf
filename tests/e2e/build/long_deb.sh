#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# `make deb`: the same package twice, its dependencies are packages of this system, and its program works from where it is unpacked.
set -u
[ -z "${SAN:-}" ] || { echo "packages are not made with sanitizers"; exit 77; }
for tool in dpkg-deb dpkg-shlibdeps; do command -v $tool > /dev/null || { echo "no $tool"; exit 77; }; done
sums=
for _ in 1 2; do
    make O="$BUILD" CC="$CC" -o all deb > "$TMPDIR/log" 2>&1 || { cat "$TMPDIR/log"; exit 1; }
    deb=$(ls "$BUILD"/deb/tacho_*.deb) || exit 1
    sums="$sums $(sha256sum < "$deb")"
done
# shellcheck disable=SC2086
set -- $sums
[ "$1" = "$3" ] || { echo "two builds, two packages: $sums"; exit 1; }
dpkg-deb -f "$deb" Depends | tr ',' '\n' | sed 's/ *(.*//; s/ //g' > "$TMPDIR/depends"
[ -s "$TMPDIR/depends" ] || { echo "it depends on nothing"; exit 1; }
while read -r package; do
    dpkg -s "$package" > /dev/null 2>&1 || { echo "it depends on $package, which is not here"; exit 1; }
done < "$TMPDIR/depends"
dpkg-deb -x "$deb" "$TMPDIR/away" || exit 1
cd "$TMPDIR" || exit 1
away/usr/bin/tacho train gpt2-tiny --steps 3 > out 2>&1 || { cat out; exit 1; }
ls ./*.tacho > /dev/null || exit 1
[ -f away/usr/share/doc/tacho/copyright ] || { echo "no licence"; exit 1; }
for page in away/usr/share/man/man1/*.gz; do gzip -t "$page" || exit 1; done
