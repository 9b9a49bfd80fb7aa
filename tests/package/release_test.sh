#!/usr/bin/env bash
# The steps of packaging/release.sh that build nothing, on packages that have only the command: the three scripts of SQL are what `init --print` writes,
# SQLite's is a schema that the command then finds installed, the checksums are right, and what must be refused is.   release_test.sh TERMGATE
set -euo pipefail
termgate=$(realpath "$1")
release=$(cd "$(dirname "$0")/../../packaging" && pwd)/release.sh
scratch=$(mktemp -d "${TMPDIR:-/tmp}/termgate-release-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
fail() { echo "release_test: $*" >&2; exit 1; }
refused() { # what is said, arguments
  ! "$release" "${@:2}" >"$scratch/said" 2>&1 || fail "not refused: ${*:2}"
  grep -q "$1" "$scratch/said" || { cat "$scratch/said"; fail "${*:2}: not \"$1\""; }
}
[ "$(dpkg --print-architecture)" = amd64 ] || { echo "skipped: it is about amd64" >&2; exit 77; }
out=$scratch/out
refused 'the step packages makes them' --out "$out" sql
for name in termgate libtermgate0; do
  mkdir -p "$scratch/$name/DEBIAN" "$scratch/$name/usr/bin"
  printf 'Package: %s\nVersion: 0\nArchitecture: amd64\nMaintainer: test <test@termgate.example>\nDescription: test\n' "$name" >"$scratch/$name/DEBIAN/control"
done
cp "$termgate" "$scratch/termgate/usr/bin/termgate"
for name in termgate libtermgate0; do dpkg-deb -Znone --root-owner-group -b "$scratch/$name" "$out/${name}_0_amd64.deb" >/dev/null; done
"$release" --out "$out" sql sums >/dev/null
for kind in postgresql sqlserver sqlite; do
  "$termgate" init --print --db-kind "$kind" | cmp - "$out/termgate-$kind.sql" || fail "termgate-$kind.sql is not what init prints"
done
sqlite3 -bail "$scratch/app.db" <"$out/termgate-sqlite.sql" >/dev/null
"$termgate" init --db "sqlite:$scratch/app.db" >"$scratch/said"
(cd "$out" && sha256sum --quiet -c SHA256SUMS)
[ "$(cut -c67- "$out/SHA256SUMS" | tr '\n' ' ')" = 'libtermgate0_0_amd64.deb termgate-postgresql.sql termgate-sqlite.sql termgate-sqlserver.sql termgate_0_amd64.deb ' ] ||
  { cat "$out/SHA256SUMS"; fail "these are not the files of the release"; }
refused 'has files already' --out "$out"
refused 'has no step' --for debian13-amd64 --out "$out" sql
refused 'for one release of Debian' --for debian11-amd64
echo "release_test: passed"
