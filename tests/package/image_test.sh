#!/usr/bin/env bash
# An OCI image: every blob is what its digest says, and in its root, where nothing else is, a stale write is refused on SQLite. An image of another
# architecture is played by emulation: that takes arch-test, qemu-user-static and binfmt_misc. The playing needs root, for a chroot.
#   image_test.sh IMAGE.oci.tar [FOLDER]      FOLDER: the root is unpacked there and kept
set -euo pipefail
image=$(realpath "$1")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/termgate-image.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
fail() { echo "image_test: $*" >&2; exit 1; }
root=$(realpath -m "${2:-$scratch/root}")
mkdir -p "$scratch/image" "$root"
tar -xf "$image" -C "$scratch/image"
python3 - "$scratch/image" >"$scratch/said" <<'PYTHON'
import gzip, hashlib, json, pathlib, sys
root = pathlib.Path(sys.argv[1])
def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()
def blob(entry):
    data = (root / "blobs" / entry["digest"].replace(":", "/")).read_bytes()
    assert digest(data) == entry["digest"] and len(data) == entry["size"], entry
    return data
[entry] = json.loads((root / "index.json").read_text())["manifests"]
manifest = json.loads(blob(entry))
config, [layer] = json.loads(blob(manifest["config"])), manifest["layers"]
assert config["config"]["User"] == "999:999" and config["architecture"] == entry["platform"]["architecture"]
assert config["rootfs"]["diff_ids"] == [digest(gzip.decompress(blob(layer)))]
assert len(list(root.glob("blobs/sha256/*"))) == 3
print(config["architecture"], "blobs/" + layer["digest"].replace(":", "/"))
PYTHON
read -r architecture layer <"$scratch/said"
tar -xzf "$scratch/image/$layer" -C "$root"
if [ "$(id -u)" != 0 ]; then echo "image_test: passed; not played, for a chroot needs root"; exit; fi
if [ "$architecture" != "$(dpkg --print-architecture)" ]; then
  arch-test "$architecture" >/dev/null || fail "this machine cannot run $architecture: apt-get install arch-test qemu-user-static"
fi
inside() { env -i PATH=/usr/sbin:/usr/bin TERMGATE_DB=sqlite:/var/lib/termgate/image_test.db chroot --userspec=999:999 "$root" /usr/bin/termgate "$@"; }
inside --version
inside init
inside exec --scope billing --term 2 'CREATE TABLE accounts (id integer)'
status=0; inside exec --scope billing --term 1 'DELETE FROM accounts' 2>"$scratch/error" || status=$?
[ "$status" = 3 ] && grep -q TG001 "$scratch/error" || { cat "$scratch/error"; fail "in the image's root a stale write ended with $status"; }
rm "$root"/var/lib/termgate/image_test.db*
echo "image_test: passed, $architecture"
