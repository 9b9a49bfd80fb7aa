#!/usr/bin/env bash
# Builds the library and the command on another release of Debian and runs the conformance tests there, on SQLite and on that release's PostgreSQL.
# As root, with mmdebstrap and a network; some twenty minutes on two cores the first time.
#   packaging/other_release.sh [SUITE] [FOLDER]      trixie (Debian 13), in /var/tmp/termgate-SUITE, which is kept for a next run
set -euo pipefail
cd "$(dirname "$0")/.."
source packaging/root.sh
need_tools
suite=${1:-trixie}
root=$(realpath -m "${2:-/var/tmp/termgate-$suite}")
make_root "$root" "$suite" "$(dpkg --print-architecture)" g++ cmake ninja-build pkg-config libpqxx-dev libsqlite3-dev unixodbc-dev libfmt-dev \
  libboost-dev libboost-program-options-dev libboost-json-dev libpg-query-dev libssl-dev libhiredis-dev libzookeeper-mt-dev ccache git make \
  catch2 sqlite3 postgresql postgresql-client python3 procps util-linux
enter "$root"
copy_tree "$root"
inside "$root" bash -euc '
  cd /src
  dpkg-query -W -f "\${Package} \${Version}\n" g++ cmake libpqxx-dev libboost-dev libfmt-dev catch2 libpg-query-dev libsqlite3-dev libssl-dev postgresql
  cmake -S . -B /build -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DTERMGATE_UNITY=ON -DTERMGATE_PROXY=ON \
    -DTERMGATE_SOURCES=ON >/root/configure.log || { cat /root/configure.log; exit 1; }
  cmake --build /build --target termgate conformance unit_postgres'
# The server listens on loopback, in a network namespace of its own.
unshare --net --pid --mount --fork --kill-child bash -euc "
  ip link set lo up
  mount -t proc proc '$root/proc'
  exec chroot '$root' /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root bash -eu /src/packaging/other_release_tests.sh"
