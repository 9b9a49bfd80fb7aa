#!/usr/bin/env bash
# Makes an OCI image of the command from a Debian root and termgate_*.deb, without a daemon. As root, with mmdebstrap and a network.
#   packaging/oci.sh [OUT.oci.tar [PACKAGES]]      PACKAGES: build/packages; those of another architecture need qemu-user-static and binfmt
# The same packages and the same Debian give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=$(realpath -m "${2:-build/packages}")
package=$(ls "$packages"/termgate_*.deb 2>/dev/null | head -1)
[ -n "$package" ] || { echo "oci.sh: there is no package in $packages: run ./run package first" >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo "oci.sh: mmdebstrap is not installed: apt-get install mmdebstrap" >&2; exit 1; }
version=$(dpkg-deb -f "$package" Version) architecture=$(dpkg-deb -f "$package" Architecture)
out=$(realpath -m "${1:-$packages/termgate_${version}_$architecture.oci.tar}")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/termgate-oci.XXXXXX")
trap 'rm -rf --one-file-system "$scratch"' EXIT
# What a service in a container never reads stays out; the licences stay in. The package has the same path on every machine, because
# mmdebstrap makes the folders of that path in the image.
unshare --mount sh -euc 'mount -t tmpfs none /mnt; cat >/mnt/termgate.deb; exec mmdebstrap "$@" </dev/null' sh <"$package" \
  --quiet --variant=apt --architectures="$architecture" --include=/mnt/termgate.deb --include=ca-certificates,systemd-standalone-sysusers \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount \
  --customize-hook='rm "$1"/mnt/termgate.deb' \
  --customize-hook='chroot "$1" install -d -o termgate -g termgate -m 750 /var/lib/termgate' \
  --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/* "$1"/var/log/* "$1"/etc/resolv.conf "$1"/etc/hostname' \
  bookworm "$scratch/root.tar"
python3 - "$scratch" "$out" "$version" "$architecture" <<'PYTHON'
import gzip, hashlib, io, json, os, sys, tarfile, time
scratch, out, version, architecture = sys.argv[1:]
moment = int(os.environ["SOURCE_DATE_EPOCH"])
created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
blobs = {}


def blob(data, kind):
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {"mediaType": kind, "digest": "sha256:" + digest, "size": len(data)}


layer_bytes = open(scratch + "/root.tar", "rb").read()
layer = blob(gzip.compress(layer_bytes, 6, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
labels = {"org.opencontainers.image.title": "termgate", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"}
config = {
    "created": created,
    "architecture": architecture,
    "os": "linux",
    "config": {
        "User": "termgate",
        "Entrypoint": ["/usr/bin/termgate"],
        "Cmd": ["--help"],
        "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
        "WorkingDir": "/var/lib/termgate",
        "Volumes": {"/var/lib/termgate": {}},
        "StopSignal": "SIGTERM",
        "Labels": labels,
    },
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer_bytes).hexdigest()]},
    "history": [{"created": created, "created_by": "packaging/oci.sh"}],
}
manifest = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
    "layers": [layer],
    "annotations": labels,
}
entry = blob(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
# A reference's name knows neither ~ nor +.
entry["annotations"] = {"org.opencontainers.image.ref.name": version.replace("~", "-").replace("+", "-")}
entry["platform"] = {"architecture": architecture, "os": "linux"}
files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()}
files |= {f"blobs/sha256/{digest}": data for digest, data in blobs.items()}
with tarfile.open(out + ".new", "w", format=tarfile.USTAR_FORMAT) as tar:
    for name in sorted(files):
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = len(files[name]), moment, 0o644
        tar.addfile(info, io.BytesIO(files[name]))
os.replace(out + ".new", out)
PYTHON
echo "$out"
