#!/usr/bin/env bash
# Cross-compiles the library for arm64 on Debian 12, in a root of mmdebstrap, and runs the conformance tests on SQLite by emulation (qemu-user-static).
# As root, with mmdebstrap and a network; some twenty minutes on two cores the first time. This machine's own packages are not touched.
#   packaging/arm64.sh [FOLDER]      the root: /var/tmp/termgate-arm64, which is kept for a next run
set -euo pipefail
cd "$(dirname "$0")/.."
source packaging/root.sh
need_tools
root=$(realpath -m "${1:-/var/tmp/termgate-arm64}")
libraries=(libpqxx-dev libsqlite3-dev unixodbc-dev libfmt-dev libboost1.81-dev libboost-program-options1.81-dev libboost-json1.81-dev libpg-query-dev
  libssl-dev libhiredis-dev libzookeeper-mt-dev)
make_root "$root" bookworm amd64,arm64 crossbuild-essential-arm64 cmake ninja-build pkg-config python3 git make file dpkg-dev ccache catch2 \
  qemu-user-static "${libraries[@]/%/:arm64}"
enter "$root"
copy_tree "$root"
inside "$root" bash -euc '
  cd /src
  cmake -S . -B /build --toolchain packaging/arm64.cmake -G Ninja -DCMAKE_INSTALL_LIBDIR=lib/aarch64-linux-gnu -DTERMGATE_PROXY=ON -DTERMGATE_SOURCES=ON \
    -DTERMGATE_UNITY=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DTERMGATE_TESTS=ON >/root/configure.log || { cat /root/configure.log; exit 1; }
  cmake --build /build --target conformance
  for database in sqlite_memory sqlite_wal sqlite_journal; do TERMGATE_CONFORMANCE=$database qemu-aarch64-static /build/tests/conformance; done'
