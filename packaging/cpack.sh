# !/usr/bin/env bash After a build in build/package: the Debian packages, their bill of materials and checksums, into build/packages. ./run
# package, arm64.sh and other_release.sh run it, the last two in a root of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf build/packages
cpack --config build/package/CPackConfig.cmake >build/package/cpack.log 2>&1 || { cat build/package/cpack.log >&2; exit 1; }
packaging/debian/without_ldconfig_scripts.sh build/packages/libtermgate0_*.deb
rm -rf build/packages/_CPack_Packages
packaging/sbom.py build/package build/packages
cd build/packages
sha256sum -- *.deb *.spdx.json >SHA256SUMS
