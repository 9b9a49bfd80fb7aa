#!/usr/bin/env python3
"""A tarball of the command for Linux other than Debian: the command, and beside it every library that it needs but those of glibc.

  tarball.py PREFIX VERSION ARCHITECTURE OUT_DIR [ROOT]

PREFIX has the unpacked packages termgate and libtermgate0, or usr/bin/termgate alone, linked statically with ours. The
other libraries are those of the Debian in ROOT (default /), unchanged: the command has an RPATH, $ORIGIN/../lib, which
counts for what the libraries load too. Which glibc is needed is read from all of these files. Writes
OUT_DIR/termgate-VERSION-linux-ARCHITECTURE.tar.gz. The same files give the same bytes: SOURCE_DATE_EPOCH, or the
moment of the newest commit. Needs patchelf, readelf (binutils) and dpkg-architecture.
"""
import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
README = """Termgate {version} for Linux, {architecture}.

Needs glibc {glibc} or newer (`ldd --version`). Nothing is installed: bin/termgate finds its libraries in lib/, so keep
the two folders beside each other, wherever you like.

  bin/termgate demo          a stale leader is refused on an SQLite file
  bin/termgate --help

The libraries are those of Debian {debian}, which built this. Updates of your own system do not reach them: take the next
tarball. OpenSSL looks for certificates where Debian has them; elsewhere say where yours are, for example
SSL_CERT_FILE=/etc/pki/tls/certs/ca-bundle.crt. Termgate's licence is LICENSE; those of the libraries are in licenses/, with
the texts that they name in licenses/common/. Their sources are Debian's source packages of these versions:

{libraries}
"""


def moment():
    return int(os.environ.get("SOURCE_DATE_EPOCH") or output("git", "-C", str(HERE), "log", "-1", "--format=%ct"))


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Debian:
    """The packages of the system in a folder, read from its files, for it may be of another architecture."""

    def __init__(self, root):
        self.root, self.owner, self.version, self.status = root, {}, {}, {}
        for path in sorted((root / "var/lib/dpkg/info").glob("*.list")):
            for line in path.read_text(encoding="utf-8").splitlines():
                self.owner[line] = path.stem
        for entry in (root / "var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n"):
            fields = dict(re.findall(r"^(Package|Architecture|Version): (.*)$", entry, re.M))
            if fields:
                named = f"{fields['Package']}:{fields.get('Architecture')}"
                self.version[fields["Package"]] = self.version[named] = fields["Version"]
                self.status[named] = entry
        release = (root / "etc/os-release").read_text(encoding="utf-8")
        self.release = re.search(r'^VERSION_ID="?([^"\n]*)', release, re.M)[1]

    def package_of(self, path):
        real = "/" + str(path.resolve().relative_to(self.root.resolve()))
        return self.owner.get(real) or self.owner.get(real.removeprefix("/usr"))


def dynamic(path, tag):
    return re.findall(rf"\({tag}\).*\[(.*)\]", output("readelf", "-d", "-W", str(path)))


def needed_libraries(programs, folders, debian):
    """{soname: (file, package or nothing for ours)}, without those of glibc."""
    found, waiting = {}, list(programs)
    while waiting:
        for soname in dynamic(waiting.pop(), "NEEDED"):
            if soname in found:
                continue
            path = next((folder / soname for folder in folders if (folder / soname).is_file()), None)
            if path is None:
                sys.exit(f"tarball: {soname} is nowhere in {', '.join(map(str, folders))}")
            package = debian.package_of(path) if path.resolve().is_relative_to(debian.root.resolve()) else None
            found[soname] = (path, package)
            # glibc is the system's own: a second one beside it would not work with its dynamic linker.
            if (package or "").split(":")[0] != "libc6":
                waiting.append(path)
    return {soname: one for soname, one in found.items() if (one[1] or "").split(":")[0] != "libc6"}


def glibc_of(paths):
    text = "".join(output("readelf", "-V", "-W", str(path)) for path in paths)
    versions = {tuple(map(int, one.split("."))) for one in re.findall(r"Name: GLIBC_([\d.]+)", text)}
    return ".".join(map(str, max(versions)))


def write(folder, out, when):
    """Names in order, one owner, one moment: what is in the archive depends on nothing else."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(folder.rglob("*"), key=lambda one: one.relative_to(folder.parent).as_posix()):
            if path.is_dir():
                continue
            info = tarfile.TarInfo(path.relative_to(folder.parent).as_posix())
            info.size, info.mtime, info.mode, info.uname, info.gname = path.stat().st_size, when, 0o644, "root", "root"
            if path.parent.name in ("bin", "lib"):
                info.mode = 0o755
            with path.open("rb") as file:
                tar.addfile(info, file)
    out.write_bytes(gzip.compress(data.getvalue(), 9, mtime=0))


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    prefix, version, architecture, out_dir = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
    debian = Debian(Path(sys.argv[5] if len(sys.argv) == 6 else "/"))
    triplet = output("dpkg-architecture", f"-a{architecture}", "-qDEB_HOST_MULTIARCH").strip()
    ours = sorted((prefix / "usr/lib" / triplet).glob("libtermgate*.so.*"))
    folders = [prefix / "usr/lib" / triplet, debian.root / "usr/lib" / triplet, debian.root / "lib" / triplet]
    libraries = needed_libraries([prefix / "usr/bin/termgate", *ours], folders, debian)
    # The drivers, which libtermgate loads when it needs them, are in no NEEDED.
    libraries |= {path.name: (path, None) for path in ours if path.name == "".join(dynamic(path, "SONAME"))}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / f"termgate-{version}-linux-{architecture}"
        for name in ("bin", "lib", "licenses/common"):
            (folder / name).mkdir(parents=True)
        command = folder / "bin/termgate"
        shutil.copyfile(prefix / "usr/bin/termgate", command)
        subprocess.run(["patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../lib", command], check=True)
        lines = []
        for soname, (path, package) in sorted(libraries.items()):
            # A library with a path of its own would not look in that of the command.
            if dynamic(path, "RUNPATH") or dynamic(path, "RPATH"):
                sys.exit(f"tarball: {soname} has a path of its own")
            shutil.copyfile(path, folder / "lib" / soname)
            lines.append(f"{soname:36}{f'{package.split(chr(58))[0]} {debian.version[package]}' if package else 'Termgate'}")
            if package:
                licence = (debian.root / "usr/share/doc" / package.split(":")[0] / "copyright").resolve()
                shutil.copyfile(licence, folder / "licenses" / package.split(":")[0])
        for licence in (debian.root / "usr/share/common-licenses").iterdir():
            if not licence.is_symlink():
                shutil.copyfile(licence, folder / "licenses/common" / licence.name)
        shutil.copyfile(HERE.parent / "LICENSE", folder / "LICENSE")
        glibc = glibc_of([command, *(folder / "lib").iterdir()])
        text = README.format(version=version, architecture=architecture, glibc=glibc, debian=debian.release, libraries="\n".join(lines))
        (folder / "README.txt").write_text(text, encoding="utf-8")
        out = out_dir / f"{folder.name}.tar.gz"
        write(folder, out, moment())
    print(f"{out}: {len(lines)} libraries, glibc {glibc}")


if __name__ == "__main__":
    main()
