# !/usr/bin/env bash Removes postinst and postrm from a package. CPack writes both, to call ldconfig; Debian's policy wants only the
# trigger, which the package has. The same input gives the same bytes.   without_ldconfig_scripts.sh PACKAGE.deb
set -euo pipefail
package=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
ar x "$package"
for script in postinst postrm; do
  tar -xOf control.tar.gz "./$script" | grep -q ldconfig || { echo "$0: $script of $package is not the one that CPack writes" >&2; exit 1; }
done
gunzip control.tar.gz
tar --delete -f control.tar ./postinst ./postrm
gzip -9n control.tar
rm "$package"
ar rcD "$package" debian-binary control.tar.gz data.tar.*
