#!/usr/bin/env python3
"""The bill of materials of the packages, as SPDX 2.3 JSON, read from the build itself and not from a list.

  sbom.py BUILD_DIR PACKAGES_DIR

What was compiled in: every header that the compiler read (ninja's dependency log), with the Debian package that owns
it. What is loaded at run time: every library that the files of the packages name (NEEDED), with its package. Writes
PACKAGES_DIR/termgate_VERSION_ARCH.spdx.json.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def output(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, check=True, **more).stdout


def owners(paths):
    """{path: Debian package} for those that a package owns, also where /lib is a link to /usr/lib."""
    found, paths = {}, sorted(paths)
    for start in range(0, len(paths), 500):
        some = paths[start : start + 500]
        names = some + [one.removeprefix("/usr") for one in some if one.startswith("/usr/lib")]
        done = subprocess.run(["dpkg-query", "-S", *names], capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            package, _, path = line.rpartition(": ")
            if not package.startswith("diversion "):
                found[path] = found["/usr" + path] = package.split(",")[0]
    return {path: found[path] for path in paths if path in found}


def facts(packages, architecture):
    """{package: (version, source, architecture)} as installed here; where a package is here for two architectures, the one asked for."""
    out = output("dpkg-query", "-W", "-f", "${binary:Package}\t${Version}\t${source:Package}\t${Architecture}\n", *sorted(packages))
    found = {}
    for line in out.splitlines():
        name, *fact = line.split("\t")
        if name.split(":")[0] not in found or fact[2] == architecture:
            found[name.split(":")[0]] = fact
    return found


def compiled_in(build):
    text = output("ninja", "-C", str(build), "-t", "deps")
    headers = {os.path.realpath(line.strip()) for line in text.splitlines() if line.startswith("    /usr/")}
    return set(owners(headers).values())


def loaded(deb):
    """Sonames that the files of a package need and that no file of the same package is."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "-x", str(deb), folder], check=True)
        needed, own = set(), set()
        for path in sorted(Path(folder).rglob("*")):
            if path.is_symlink() or not path.is_file() or path.open("rb").read(4) != b"\x7fELF":
                continue
            dynamic = output("readelf", "-d", str(path))
            needed |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
            own |= set(re.findall(r"\(SONAME\).*\[(.*)\]", dynamic))
        return needed - own


def triplet_of(architecture):
    return output("dpkg-architecture", f"-a{architecture}", "-qDEB_HOST_MULTIARCH").strip()


def where(soname, architecture):
    """The library's file, among those of the packages' architecture: ldconfig knows only this machine's own."""
    triplet = triplet_of(architecture)
    for folder in (f"/usr/lib/{triplet}", f"/lib/{triplet}", "/usr/lib", f"/usr/{triplet}/lib"):
        if os.path.exists(f"{folder}/{soname}"):
            return os.path.realpath(f"{folder}/{soname}")
    return None


def identifier(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, folder = Path(sys.argv[1]), Path(sys.argv[2])
    debs = sorted(folder.glob("*.deb"))
    if not debs:
        sys.exit(f"sbom: there is no package in {folder}: run ./run package")
    fields = {
        deb: dict(line.split(": ", 1) for line in output("dpkg-deb", "-f", str(deb), "Package", "Version", "Architecture").splitlines())
        for deb in debs
    }
    names = {one["Package"] for one in fields.values()}
    needs = {}
    for deb in debs:
        paths = {soname: where(soname, fields[deb]["Architecture"]) for soname in loaded(deb)}
        missing = {soname for soname, path in paths.items() if path is None and not soname.startswith("libtermgate")}
        if missing:
            sys.exit(f"sbom: {deb.name} needs {', '.join(sorted(missing))}, which no package of this system has")
        needs[deb] = {one.split(":")[0] for one in owners({path for path in paths.values() if path}).values()} - names
    architecture = fields[debs[0]]["Architecture"]
    native = architecture == output("dpkg", "--print-architecture").strip()
    triplet = triplet_of(architecture)
    compiler = f"g++-{output(f'{triplet}-g++', '-dumpversion').strip()}" + ("" if native else f"-{triplet.replace('_', '-')}")
    built_with = {one.split(":")[0] for one in compiled_in(build)} | {compiler}
    release = re.search(r'^VERSION_ID="?([^"\n]*)', Path("/etc/os-release").read_text(), re.M)[1]
    known = facts(built_with | set().union(*needs.values()), architecture)

    packages, relations = [], []
    for deb in debs:
        one = fields[deb]
        packages.append(
            {
                "SPDXID": identifier("Package-" + one["Package"]),
                "name": one["Package"],
                "versionInfo": one["Version"],
                "packageFileName": deb.name,
                "supplier": "Organization: Termgate",
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": False,
                "licenseConcluded": "Apache-2.0",
                "licenseDeclared": "Apache-2.0",
                "copyrightText": "NOASSERTION",
                "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(deb.read_bytes()).hexdigest()}],
            }
        )
        relations.append(("SPDXRef-DOCUMENT", "DESCRIBES", identifier("Package-" + one["Package"])))
        relations += [(identifier("Package-" + one["Package"]), "DEPENDS_ON", identifier("Debian-" + need)) for need in sorted(needs[deb])]
    for name, (version, source, built_for) in sorted(known.items()):
        quoted = version.replace("+", "%2B").replace(":", "%3A")
        packages.append(
            {
                "SPDXID": identifier("Debian-" + name),
                "name": name,
                "versionInfo": version,
                "sourceInfo": f"Debian source package {source}",
                "supplier": "Organization: Debian",
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": False,
                "licenseConcluded": "NOASSERTION",
                "licenseDeclared": "NOASSERTION",
                "copyrightText": "NOASSERTION",
                "externalRefs": [
                    {
                        "referenceCategory": "PACKAGE-MANAGER",
                        "referenceType": "purl",
                        "referenceLocator": f"pkg:deb/debian/{name}@{quoted}?arch={built_for}&distro=debian-{release}",
                    }
                ],
            }
        )
        if name in built_with:
            kind = "BUILD_TOOL_OF" if name == compiler else "BUILD_DEPENDENCY_OF"
            relations += [(identifier("Debian-" + name), kind, identifier("Package-" + one)) for one in sorted(names)]
    first = fields[debs[0]]
    title = f"termgate_{first['Version']}_{first['Architecture']}"
    created = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    body = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": title,
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created)), "creators": ["Tool: packaging/sbom.py"]},
        "packages": packages,
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations],
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    body["documentNamespace"] = f"https://spdx.org/spdxdocs/{title}-{digest}"
    (folder / f"{title}.spdx.json").write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
