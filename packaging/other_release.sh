#!/usr/bin/env bash
# Builds everything on another release of Debian and runs the tests of the library and the command there, on SQLite and on that release's PostgreSQL.
# As root, with mmdebstrap and a network; some forty minutes on two cores the first time.
#   packaging/other_release.sh [SUITE] [FOLDER]              trixie (Debian 13), in /var/tmp/termgate-SUITE, which is kept for a next run
#   packaging/other_release.sh --packages [SUITE] [FOLDER]   that release's packages, into build/packages-SUITE; the command in them refuses a stale leader
set -euo pipefail
cd "$(dirname "$0")/.."
source packaging/root.sh
packages=
if [ "${1:-}" = --packages ]; then packages=1; shift; fi
need_tools
suite=${1:-trixie}
root=$(realpath -m "${2:-/var/tmp/termgate-$suite}")
make_root "$root" "$suite" "$(dpkg --print-architecture)" g++ cmake ninja-build pkg-config libpqxx-dev libsqlite3-dev unixodbc-dev libfmt-dev \
  libboost-dev libboost-program-options-dev libboost-json-dev libpg-query-dev libssl-dev libhiredis-dev libzookeeper-mt-dev ccache git make \
  catch2 sqlite3 postgresql postgresql-client python3 procps util-linux curl openssl libfaketime python3-pytest python3-pytest-subtests python3-psycopg2 \
  python3-psycopg odbc-postgresql libsqliteodbc tdsodbc
enter "$root"
copy_tree "$root"

if [ -n "$packages" ]; then
  build_packages "$root" bash -euc '
    umask 022
    major=$(basename "$(echo /usr/lib/postgresql/*)")
    apt-get -qq update
    apt-get -qq -y --no-install-recommends install "postgresql-server-dev-$major" dpkg-dev file >/dev/null
    cd /src
    cmake --preset package -DTERMGATE_GUARD_MAJOR="$major" >/root/configure.log || { cat /root/configure.log; exit 1; }
    rm -f build/package/package_files/stamp
    cmake --build build/package
    packaging/cpack.sh
    # Unpacked, not installed: the next run builds in the root as it is.
    rm -rf /root/unpacked
    for package in build/packages/*.deb; do dpkg-deb -x "$package" /root/unpacked; done
    cd /root
    export LD_LIBRARY_PATH=/root/unpacked/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    unpacked/usr/bin/termgate demo'
  rm -rf "build/packages-$suite"
  cp -r "$root/src/build/packages" "build/packages-$suite"
  ls -1 "build/packages-$suite"
  exit
fi

inside "$root" bash -euc '
  cd /src
  dpkg-query -W -f "\${Package} \${Version}\n" g++ cmake libpqxx-dev libboost-dev libfmt-dev catch2 libpg-query-dev libsqlite3-dev libssl-dev postgresql
  cmake -S . -B /build -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DTERMGATE_UNITY=ON -DTERMGATE_PROXY=ON \
    -DTERMGATE_SOURCES=ON >/root/configure.log || { cat /root/configure.log; exit 1; }
  cmake --build /build'
# The server listens on loopback, in a network namespace of its own. The root is a mount by itself, or `unshare --mount-proc` of a test fails in it.
unshare --net --pid --mount --fork --kill-child bash -euc "
  ip link set lo up
  mount --rbind '$root' '$root'
  mount -t proc proc '$root/proc'
  exec chroot '$root' /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root bash -eu /src/packaging/other_release_tests.sh"
