#!/usr/bin/env bash
# Makes the files of a release from this commit, for one release of Debian and one architecture at a time. RELEASING.md says what comes before and after.
#
#   packaging/release.sh [--for debian12-amd64] [--out FOLDER] [STEP…]
#
# --for   debian12-amd64 (default), debian12-arm64, debian13-amd64, debian13-arm64
# --out   build/release/VERSION/FOR where none is given. Files of an earlier run must not be in it, unless steps are named.
# Steps, in this order; without one: all that --for has.
#   check      this folder is a clean clone, the versions agree, and the figures in the docs are not older than what they measure
#   packages   the Debian packages and their bill of materials: 5 to 20 minutes
#   sql        termgate-postgresql.sql, -sqlserver.sql, -sqlite.sql: debian12-amd64 only, for they are the same everywhere
#   tarball    the command with its libraries, for other Linux: debian12, which has the oldest glibc
#   image      the OCI image, of the tarball
#   sums       SHA256SUMS of all that is in FOLDER
# The same commit on the same Debian packages gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
die() { echo "release.sh: $*" >&2; exit 1; }
for=debian12-amd64 out=
while [ $# -gt 0 ]; do
  case "$1" in
    --for) for=${2:?} && shift 2 ;;
    --out) out=${2:?} && shift 2 ;;
    -*) usage ;;
    *) break ;;
  esac
done
case "$for" in
  debian12-amd64) steps=(check packages sql tarball image sums) ;;
  debian12-arm64) steps=(check packages tarball image sums) ;;
  debian13-amd64 | debian13-arm64) steps=(check packages sums) ;;
  *) usage ;;
esac
architecture=${for#*-}
version=$(packaging/version.sh)
umask 022
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC
out=$(realpath -m "${out:-build/release/$version/$for}")
if [ $# -gt 0 ]; then
  for step in "$@"; do
    [[ " ${steps[*]} " == *" $step "* ]] || die "$for has no step \"$step\": ${steps[*]}"
  done
  steps=("$@")
elif [ -n "$(ls -A "$out" 2>/dev/null)" ]; then
  die "$out has files already: a release is made in an empty folder"
fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/termgate-release.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out"

check() {
  local base file
  [ -z "$(git status --porcelain)" ] || die "this folder differs from its commit: make a release in a clean clone"
  base=${version%%[~+]*}
  for file in clients/node/package.json clients/python/pyproject.toml clients/java/pom.xml clients/dotnet/Termgate.csproj; do
    grep -qE "[\">]${base}[\"<]" "$file" || die "$file does not have version $base"
  done
  # A release may not have figures that are older than what they measure. Before the tag they are only reported.
  tests/bench/figures.py check || [ "$base" != "$version" ] || die "the figures in the docs are not those of this code: see above"
  [ "$base" != "$version" ] || ! grep -q "^## $base (unreleased)" CHANGELOG.md || die "CHANGELOG.md calls $base unreleased"
}

packages() {
  local made=build/packages
  [[ "$PWD" != *[[:space:]]* ]] || die "packages cannot be built in a folder whose name has blanks: $PWD"
  case "$for" in
    "debian12-$(dpkg --print-architecture)") ./run package ;;
    "debian13-$(dpkg --print-architecture)") made=build/packages-trixie; packaging/other_release.sh --packages trixie ;;
    debian12-arm64) made=build/packages-bookworm-arm64; packaging/arm64.sh --packages bookworm ;;
    debian13-arm64) made=build/packages-trixie-arm64; packaging/arm64.sh --packages trixie ;;
    *) die "the packages of $for cannot be made on $(dpkg --print-architecture)" ;;
  esac
  cp "$made"/*.deb "$made"/*.spdx.json "$out/"
}

# The command and its library as the packages have them, in $scratch/unpacked.
unpack() {
  local package
  rm -rf "$scratch/unpacked"
  for package in "$out"/termgate_*"_$architecture.deb" "$out"/libtermgate0_*"_$architecture.deb"; do
    [ -e "$package" ] || die "there are no packages in $out: the step packages makes them"
    dpkg-deb -x "$package" "$scratch/unpacked"
  done
}

sql() {
  local kind
  unpack
  for kind in postgresql sqlserver sqlite; do
    LD_LIBRARY_PATH="$scratch/unpacked/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)" \
      "$scratch/unpacked/usr/bin/termgate" init --print --db-kind "$kind" >"$out/termgate-$kind.sql"
  done
}

# The libraries of a cross build are in its root.
libraries=/
[ "$architecture" = "$(dpkg --print-architecture)" ] || libraries=/var/tmp/termgate-bookworm-$architecture

tarball() {
  unpack
  packaging/tarball.py "$scratch/unpacked" "$version" "$architecture" "$out" "$libraries"
}

image() {
  local made=$out/termgate-$version-linux-$architecture.tar.gz
  [ -e "$made" ] || die "there is no $made: the step tarball makes it"
  packaging/oci.py "$made" "$out/termgate_${version}_$architecture.oci.tar" "$libraries"
}

sums() {
  local names
  mapfile -t names < <(cd "$out" && find . -maxdepth 1 -type f ! -name 'SHA256SUMS*' -printf '%P\n' | sort)
  [ ${#names[@]} -gt 0 ] || die "there is nothing in $out"
  (cd "$out" && sha256sum -- "${names[@]}" >SHA256SUMS && cat SHA256SUMS)
}

for step in "${steps[@]}"; do
  echo "== $step"
  "$step"
done
