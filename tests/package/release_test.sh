#!/usr/bin/env bash
# The steps of packaging/release.sh on packages that have only the command: the three scripts of SQL are what `init --print` writes, SQLite's is a
# schema that the command then finds installed, the tarball and the image are those of this version, the image's root refuses a stale write, the
# checksums are right, and what must be refused is. The step `check` is played in a clone; the step `packages`, which takes minutes, is not played.
#   release_test.sh TERMGATE
set -euo pipefail
termgate=$(realpath "$1")
tree=$(cd "$(dirname "$0")/../.." && pwd)
release=$tree/packaging/release.sh
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
strip "$scratch/termgate/usr/bin/termgate" # most of a development build is what only a debugger reads
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

refused 'the step tarball makes it' --out "$out" image
if command -v patchelf >/dev/null; then
  version=$("$tree/packaging/version.sh")
  "$release" --out "$out" tarball image sums >/dev/null
  grep -qF "  termgate-$version-linux-amd64.tar.gz" "$out/SHA256SUMS" || { cat "$out/SHA256SUMS"; fail "no tarball"; }
  "$tree/tests/package/image_test.sh" "$out/termgate_${version}_amd64.oci.tar"
  (cd "$out" && sha256sum --quiet -c SHA256SUMS)
fi
refused 'has files already' --out "$out"
refused 'has no step' --for debian13-amd64 --out "$out" sql
refused 'for one release of Debian' --for debian11-amd64

# A clone with what this folder has in front of its commit.
cd "$tree"
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]; then
  clone=$scratch/clone
  git clone -q --shared "$tree" "$clone"
  { git diff -z --name-only --diff-filter=d HEAD; git ls-files -z -o --exclude-standard; } | tar -c --null -T - | tar -x -C "$clone"
  commit() { git -C "$clone" add -A && git -C "$clone" -c user.name=test -c user.email=test@termgate.example commit -q --allow-empty -m test; }
  commit
  release=$clone/packaging/release.sh
  "$release" --out "$out" check >/dev/null
  echo >"$clone/left-over"
  refused 'differs from its commit' --out "$out" check
  rm "$clone/left-over"
  sed -i 's/"version": "[^"]*"/"version": "99.0.0"/' "$clone/clients/node/package.json"
  commit
  refused 'package.json does not have version' --out "$out" check
fi
echo "release_test: passed"
