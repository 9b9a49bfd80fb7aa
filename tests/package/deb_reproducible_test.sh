#!/usr/bin/env bash
# Builds the packages of this commit again, in a clone that differs in what a build must not depend on: folder, home, umask, time zone, language, number
# of jobs, moment. Every package, the bill of materials and the checksums must have the same bytes.
#   deb_reproducible_test.sh PACKAGES_DIR      made by ./run package, of this commit
set -euo pipefail
packages=$(realpath -m "$1")
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
skip() { echo "skipped: $*" >&2; exit 77; }
[ -n "${TERMGATE_TEST_LONG:-}" ] || skip "building packages takes minutes: ./test --long does it"
ls "$packages"/termgate_*.deb >/dev/null 2>&1 || skip "there are no packages in $packages: ./run package"
[ -z "$(git -C "$source_dir" status --porcelain)" ] || skip "this folder differs from its commit"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/termgate-again.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
moment=$(git -C "$source_dir" log -1 --format=%ct)
made=$(dpkg-deb --fsys-tarfile "$packages"/termgate_*.deb | tar -xO ./usr/share/doc/termgate/changelog.gz | gunzip | sed -n 's/^ -- .*>  //p')
[ "$(date -d "$made" +%s)" = "$moment" ] || skip "the packages in $packages are of another commit: ./run package"

clone="$scratch/a-folder-whose-name-is-of-another-length"
git clone -q "$source_dir" "$clone"
mkdir -m 700 "$scratch/home"
(
  umask 077
  cd "$clone"
  # No compiler cache: it could hand out what the first build made.
  env -u CMAKE_CXX_COMPILER_LAUNCHER -u CMAKE_C_COMPILER_LAUNCHER -u SOURCE_DATE_EPOCH HOME="$scratch/home" TZ=Pacific/Kiritimati LC_ALL=C LANGUAGE=de \
    CMAKE_BUILD_PARALLEL_LEVEL=3 CCACHE_DISABLE=1 ./run package >"$scratch/log" 2>&1
) || { tail -30 "$scratch/log" >&2; exit 1; }

status=0
for one in "$packages"/*.deb "$packages"/*.spdx.json "$packages/SHA256SUMS"; do
  other=$clone/build/packages/$(basename "$one")
  cmp -s "$one" "$other" && continue
  status=1
  echo "deb_reproducible_test: $(basename "$one") differs" >&2
  case "$one" in
    *.deb)
      dpkg-deb -R "$one" "$scratch/first"
      dpkg-deb -R "$other" "$scratch/again"
      diff -rq "$scratch/first" "$scratch/again" >&2 || true
      rm -rf "$scratch/first" "$scratch/again"
      ;;
    *) diff "$one" "$other" >&2 || true ;;
  esac
done
[ "$(cd "$packages" && ls -- *.deb)" = "$(cd "$clone/build/packages" && ls -- *.deb)" ] || { echo "deb_reproducible_test: not the same packages" >&2; status=1; }
[ "$status" = 0 ] || exit 1
(cd "$packages" && wc -c -- *.deb)
echo "deb_reproducible_test: passed"
