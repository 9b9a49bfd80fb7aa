#!/usr/bin/env bash
# Cross-builds for arm64 in a root of mmdebstrap, and runs the result by emulation (qemu-user-static).
# As root, with mmdebstrap and a network; some twenty minutes on two cores the first time. This machine's own packages are not touched.
#   packaging/arm64.sh [SUITE] [FOLDER]              the library, and the conformance tests on SQLite
#   packaging/arm64.sh --packages [SUITE] [FOLDER]   the Debian packages, into build/packages-SUITE-arm64; the command in them refuses a stale leader
# SUITE: bookworm (Debian 12) where none is given, or trixie. FOLDER: the root, /var/tmp/termgate-SUITE-arm64, which is kept for a next run.
set -euo pipefail
cd "$(dirname "$0")/.."
source packaging/root.sh
packages=
if [ "${1:-}" = --packages ]; then packages=1; shift; fi
need_tools
suite=${1:-bookworm}
[[ "$suite" =~ ^(bookworm|trixie)$ ]] || { echo "$0: the suite is bookworm or trixie, not $suite" >&2; exit 2; }
root=$(realpath -m "${2:-/var/tmp/termgate-$suite-arm64}")
boost=
[ "$suite" != bookworm ] || boost=1.81 # its package without a version is older
libraries=(libpqxx-dev libsqlite3-dev unixodbc-dev libfmt-dev "libboost$boost-dev" "libboost-program-options$boost-dev" "libboost-json$boost-dev" libpg-query-dev
  libssl-dev libhiredis-dev libzookeeper-mt-dev)
make_root "$root" "$suite" amd64,arm64 crossbuild-essential-arm64 cmake ninja-build pkg-config python3 git make file dpkg-dev ccache catch2 \
  qemu-user-static "${libraries[@]/%/:arm64}"
enter "$root"
copy_tree "$root"

if [ -z "$packages" ]; then
  inside "$root" bash -euc '
    cd /src
    cmake -S . -B /build --toolchain packaging/arm64.cmake -G Ninja -DCMAKE_INSTALL_LIBDIR=lib/aarch64-linux-gnu -DTERMGATE_PROXY=ON -DTERMGATE_SOURCES=ON \
      -DTERMGATE_UNITY=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DTERMGATE_TESTS=ON >/root/configure.log || { cat /root/configure.log; exit 1; }
    cmake --build /build --target conformance
    for database in sqlite_memory sqlite_wal sqlite_journal; do TERMGATE_CONFORMANCE=$database qemu-aarch64-static /build/tests/conformance; done'
  exit
fi

# The server's headers and make files are those of arm64. Of these packages only pg_config runs, so their files are enough, without their
# dependencies.
major=$(inside "$root" bash -euc '
  apt-get -qq update
  apt-cache depends postgresql-client | sed -n "s/.*Depends: postgresql-client-//p"')
[ -n "$major" ] || { echo "$0: no package postgresql-client is known in $root: is there a network?" >&2; exit 1; }
inside "$root" major="$major" bash -euc '
  if [ ! -e "/usr/lib/postgresql/$major/bin/pg_config" ]; then
    cd /root
    for package in "postgresql-server-dev-$major" "postgresql-client-$major"; do
      apt-get -qq download "$package:arm64"
      dpkg -x "$package"_*_arm64.deb /
    done
  fi
  printf "#!/bin/sh\nexec qemu-aarch64-static /usr/lib/postgresql/$major/bin/pg_config \"\$@\"\n" >/usr/local/bin/pg_config_arm64
  chmod 755 /usr/local/bin/pg_config_arm64
  /usr/local/bin/pg_config_arm64 --version'
build_packages "$root" major="$major" DEB_HOST_ARCH=arm64 bash -euc '
  umask 022
  cd /src
  configure() {
    cmake --preset package --toolchain packaging/arm64.cmake -DCMAKE_INSTALL_LIBDIR=lib/aarch64-linux-gnu -DTERMGATE_GUARD_MAJOR="$major" \
      -DTERMGATE_PG_CONFIG=/usr/local/bin/pg_config_arm64 "-DTERMGATE_GUARD_MAKE_OPTIONS=CC=aarch64-linux-gnu-gcc" -DCPACK_DEBIAN_PACKAGE_ARCHITECTURE=arm64 "$@" >/root/configure.log || { cat /root/configure.log; exit 1; }
  }
  # The command that is built runs here only by emulation, so its --help --json is printed that way, before the man pages are made.
  echo "{}" >/root/help.json
  configure -DTERMGATE_HELP_JSON=/root/help.json
  cmake --build build/package --target termgate
  qemu-aarch64-static build/package/termgate --help --json >/root/help.json
  rm -f build/package/package_files/stamp
  cmake --build build/package
  packaging/cpack.sh'
out=build/packages-$suite-arm64
rm -rf "$out"
mkdir -p "$out"
cp "$root"/src/build/packages/* "$out/"
# Unpacked, not installed: dpkg would run maintainer scripts of a system that this root is not.
inside "$root" bash -euc '
  rm -rf /root/unpacked
  for package in /src/build/packages/*.deb; do
    [ "$(dpkg-deb -f "$package" Architecture)" = arm64 ] || { echo "$package is not of arm64" >&2; exit 1; }
    dpkg-deb -x "$package" /root/unpacked
  done
  find /root/unpacked -type f -exec file {} + >/root/files
  ! grep "ELF" /root/files | grep -v "ARM aarch64" || { echo "these are not of arm64" >&2; exit 1; }
  export LD_LIBRARY_PATH=/root/unpacked/usr/lib/aarch64-linux-gnu
  # `termgate demo` starts itself again, which the kernel cannot do for another processor.
  termgate() { qemu-aarch64-static /root/unpacked/usr/bin/termgate "$@"; }
  termgate --version
  rm -f /root/app.db*
  export TERMGATE_DB=sqlite:/root/app.db
  termgate init
  termgate exec --scope billing --term 2 "CREATE TABLE accounts (id integer PRIMARY KEY)" "INSERT INTO accounts VALUES (42)"
  status=0
  termgate exec --scope billing --term 1 "DELETE FROM accounts" || status=$?
  [ "$status" = 3 ] || { echo "a stale write ended with $status and not with 3" >&2; exit 1; }
  termgate verify
  lib=/root/unpacked/usr/lib/aarch64-linux-gnu
  aarch64-linux-gnu-readelf -d "$lib/libtermgate.so.0" | grep -q "SONAME.*libtermgate.so.0"'
ls -1 "$out"
