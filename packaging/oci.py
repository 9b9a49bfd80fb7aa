#!/usr/bin/env python3
"""An OCI image of the command: what tarball.py made, the glibc of the Debian that it was made on, and certificates.

  oci.py TARBALL OUT.oci.tar [ROOT]

ROOT is that Debian (default /), which may be of another architecture: nothing of it is run. There is no shell and no
package manager in the image. What it has of Debian is listed where scanners look: etc/os-release, and a file a package in
var/lib/dpkg/status.d. The same tarball and the same Debian give the same bytes: SOURCE_DATE_EPOCH, or the moment of the
newest commit. Needs readelf (binutils), dpkg-architecture and ca-certificates.
"""
import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from tarball import Debian, dynamic, moment, output

USER = 999
FOLDERS = {"tmp": (0o1777, 0), "var/lib/termgate": (0o750, USER)}
WRITTEN = {
    "etc/passwd": f"root:x:0:0:root:/root:/sbin/nologin\ntermgate:x:{USER}:{USER}:Termgate:/var/lib/termgate:/sbin/nologin\n",
    "etc/group": f"root:x:0:\ntermgate:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
# Where the files of the tarball go.
PLACES = (
    (r"(bin/.*)", r"usr/\1"),
    (r"(lib/.*)", r"usr/\1"),
    (r"licenses/common/(.*)", r"usr/share/common-licenses/\1"),
    (r"licenses/(.*)", r"usr/share/doc/\1/copyright"),
    (r"LICENSE", r"usr/share/doc/termgate/copyright"),
)


def unpacked(tarball):
    """{path in the image: bytes}"""
    files = {}
    with tarfile.open(tarball) as tar:
        for member in tar:
            name = member.name.partition("/")[2]
            for pattern, place in PLACES:
                if found := re.fullmatch(pattern, name):
                    files[found.expand(place)] = tar.extractfile(member).read()
                    break
    return files


def glibc(files, folders):
    """What the programs and libraries need and do not bring: {path in the image: bytes}"""
    ours = {Path(name).name for name in files}
    found, waiting = {}, []
    with tempfile.TemporaryDirectory() as scratch:
        for name in files:
            if name.startswith(("usr/bin/", "usr/lib/")):
                waiting.append(Path(scratch) / Path(name).name)
                waiting[-1].write_bytes(files[name])
        loader = re.search(r"interpreter: /(.*)\]", output("readelf", "-l", "-W", str(Path(scratch) / "termgate")))[1]
        while waiting:
            for soname in dynamic(waiting.pop(), "NEEDED"):
                if soname not in ours:
                    ours.add(soname)
                    path = next(folder / soname for folder in folders if (folder / soname).is_file())
                    found[loader if soname == Path(loader).name else f"usr/lib/{soname}"] = path.read_bytes()
                    waiting.append(path)
    return found


def layer(files, when):
    """The tar of the image's files: sorted by name, so that a folder precedes its files."""
    entries = {name: (data, 0o755 if name.startswith(("usr/bin/", "usr/lib/", "lib")) else 0o644, 0) for name, data in files.items()}
    for name in [*files, *FOLDERS]:
        entries |= {str(one): (None, 0o755, 0) for one in Path(name).parents if str(one) != "."}
    entries |= {name: (None, *how) for name, how in FOLDERS.items()}
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (content, mode, user) in sorted(entries.items()):
            info = tarfile.TarInfo(name)
            info.mtime, info.mode, info.uid, info.gid = when, mode, user, user
            if content is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return data.getvalue()


def image(layer_bytes, version, architecture, when):
    """The files of the archive: {path: bytes}"""
    files = {}

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + digest, "size": len(data)}

    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
    labels = {
        f"org.opencontainers.image.{key}": value for key, value in (("title", "termgate"), ("version", version), ("licenses", "Apache-2.0"))
    }
    config = {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            # A number, by which an orchestrator sees that it is not root.
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/usr/bin/termgate"],
            "Cmd": ["--help"],
            "Env": ["PATH=/usr/bin", "LANG=C.UTF-8"],
            "WorkingDir": "/var/lib/termgate",
            "Volumes": {"/var/lib/termgate": {}},
            "StopSignal": "SIGTERM",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer_bytes).hexdigest()]},
        "history": [{"created": created, "created_by": "packaging/oci.py"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), "config.v1+json"),
        "layers": [blob(gzip.compress(layer_bytes, 6, mtime=0), "layer.v1.tar+gzip")],
        "annotations": labels,
    }
    entry = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    # A reference's name knows neither ~ nor +.
    entry["annotations"] = {"org.opencontainers.image.ref.name": version.replace("~", "-").replace("+", "-")}
    entry["platform"] = {"architecture": architecture, "os": "linux"}
    return files | {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(),
    }


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    tarball, out, root = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3] if len(sys.argv) == 4 else "/")
    version, architecture = re.fullmatch(r"termgate-(.*)-linux-(\w+)\.tar\.gz", tarball.name).groups()
    triplet = output("dpkg-architecture", f"-a{architecture}", "-qDEB_HOST_MULTIARCH").strip()
    debian, certificates = Debian(root), Path("/usr/share/ca-certificates/mozilla")
    files = unpacked(tarball)
    packages = {name.split("/")[3] for name in files if name.startswith("usr/share/doc/")} - {"termgate"} | {"libc6"}
    files |= glibc(files, [root / "usr/lib" / triplet, root / "lib" / triplet])
    # Where Debian's OpenSSL looks. Not the system's own file, which may have further certificates.
    files["usr/lib/ssl/cert.pem"] = b"".join(path.read_bytes() for path in sorted(certificates.glob("*.crt")))
    files["etc/os-release"] = (root / "etc/os-release").read_bytes()
    for package, there, of in [*((one, debian, architecture) for one in packages), ("ca-certificates", Debian(Path("/")), "all")]:
        files[f"var/lib/dpkg/status.d/{package}"] = there.status[f"{package}:{of}"].strip().encode() + b"\n"
        files[f"usr/share/doc/{package}/copyright"] = (there.root / "usr/share/doc" / package / "copyright").read_bytes()
    files |= {name: text.encode() for name, text in WRITTEN.items()}
    when, new = moment(), Path(f"{out}.new")
    archive = image(layer(files, when), version, architecture, when)
    with tarfile.open(new, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(archive):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(archive[name]), when, 0o644
            tar.addfile(info, io.BytesIO(archive[name]))
    os.replace(new, out)
    print(f"{out}: {len(files)} files")


if __name__ == "__main__":
    main()
