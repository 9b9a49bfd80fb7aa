#!/usr/bin/env bash
# Makes a copy of a PostgreSQL installation in which an extension can be installed without being root: the programs are copied, because the
# server looks for its files from where its own program is; everything else is linked.
#
#   pg_home.sh MAJOR DIR FILE …    FILE: *.so goes to the libraries, all others to the extensions; prints the folder of the programs
#
# pg_server.sh starts a server of it where PG_SERVER_BIN names that folder.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,8p' "$0" >&2; exit 2; }
major=$1 dir=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
bin=$("$here/pg_server.sh" bin "$major")

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ "$bin" = "/usr/lib/postgresql/$major/bin" ]; then
  # Debian's places, which are relative to each other.
  libraries=lib/postgresql/$major/lib share=share/postgresql/$major programs=lib/postgresql/$major/bin
  from_libraries=/usr/$libraries from_share=/usr/$share
else
  # npm's: as PostgreSQL installs itself.
  libraries=lib/postgresql share=share/postgresql programs=bin
  from_libraries=$bin/../$libraries from_share=$bin/../$share
fi
mkdir -p "$dir/$programs" "$dir/$libraries" "$dir/$share"
# A second name is as good as a copy, where the system allows one.
cp -flL "$bin"/* "$dir/$programs/" 2>/dev/null || cp -fL "$bin"/* "$dir/$programs/"
from_libraries=$(cd "$from_libraries" && pwd) from_share=$(cd "$from_share" && pwd)
cp -rsf "$from_libraries"/. "$dir/$libraries/"
cp -rsf "$from_share"/. "$dir/$share/"
if [ "$libraries" = lib/postgresql ]; then cp -rsf "$(cd "$bin/../lib" && pwd)"/. "$dir/lib/"; fi
for one in "$@"; do
  case "$one" in
    *.so)
      # The guard's shortcuts, where they were built beside it.
      for library in "$one" "$(dirname "$one")/termgate_shortcuts.so"; do
        [ ! -e "$library" ] || { rm -f "$dir/$libraries/$(basename "$library")"; install -m 755 "$library" "$dir/$libraries/"; }
      done ;;
    *) rm -f "$dir/$share/extension/$(basename "$one")"; install -m 644 "$one" "$dir/$share/extension/" ;;
  esac
done
find "$dir" -type d -exec chmod a+rx {} +
echo "$dir/$programs"
