#!/usr/bin/env python3
"""Fuzz corpora: seeds are files with names that say what they are; what fuzzers found is packed into one file a target.

  corpus.py pack FOLDER      puts every file of FOLDER that is named by its hash into FOLDER/found.bin and removes it
  corpus.py unpack FOLDER TO the seeds and what was found as single files in TO, for a fuzzer that wants a folder

found.bin is a row of inputs, each behind its length in four bytes, the least significant first; sorted by hash, so
that packing the same inputs again changes nothing. replay_main.cpp reads it as well.
"""
import hashlib
import pathlib
import re
import struct
import sys


def packed(folder):
    """The inputs in found.bin. A file that was cut short ends with an error, not with fewer inputs."""
    path = folder / "found.bin"
    data = path.read_bytes() if path.exists() else b""
    inputs, at = [], 0
    while at < len(data):
        if at + 4 > len(data):
            sys.exit(f"{path}: cut short")
        length = struct.unpack_from("<I", data, at)[0]
        if at + 4 + length > len(data):
            sys.exit(f"{path}: cut short")
        inputs.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return inputs


def hashed(folder):
    """Files as a fuzzer names them."""
    return [path for path in folder.iterdir() if re.fullmatch(r"[0-9a-f]{40}", path.name)]


def pack(folder):
    files = hashed(folder)
    inputs = {hashlib.sha1(one).digest(): one for one in packed(folder) + [path.read_bytes() for path in files]}
    if not inputs:
        return
    (folder / "found.bin").write_bytes(b"".join(struct.pack("<I", len(one)) + one for _, one in sorted(inputs.items())))
    for path in files:
        path.unlink()
    print(f"{folder}: {len(inputs)} inputs in found.bin")


def unpack(folder, to):
    to.mkdir(parents=True, exist_ok=True)
    for one in packed(folder):
        (to / hashlib.sha1(one).hexdigest()).write_bytes(one)
    for path in folder.iterdir():
        if path.name != "found.bin":
            (to / path.name).write_bytes(path.read_bytes())


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "pack":
        pack(pathlib.Path(sys.argv[2]))
    elif len(sys.argv) == 4 and sys.argv[1] == "unpack":
        unpack(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
