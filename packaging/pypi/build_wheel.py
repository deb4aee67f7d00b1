#!/usr/bin/env python3
"""Makes a wheel out of a binary: build_wheel.py BINARY VERSION PLATFORM FOLDER LEVEL.

The binary is a script of the wheel, so pip puts it beside other programs and nothing of Python runs
when it is started. PLATFORM is that of the wheel's name, such as manylinux_2_28_x86_64; LEVEL is
how hard it is compressed, 1 to 9.
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAME = "plexus_agents"
# Within a wheel every file has the same date, so that the same binary gives the same wheel.
DATE = (2020, 1, 1, 0, 0, 0)


def main(binary, version, platform, folder, level):
    info = f"{NAME}-{version}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: plexus-agents\nVersion: {version}\n"
        "Summary: Supervises coding agents: you, a program or another agent answers what they ask.\n"
        "License: MIT OR Apache-2.0\nRequires-Python: >=3.8\n"
        "Project-URL: Source, https://github.com/plexus-agents/plexus\n"
        "Description-Content-Type: text/markdown\n\n" + (ROOT / "README.md").read_text()
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: plexus\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"
    files = {
        f"{NAME}-{version}.data/scripts/plexus": (pathlib.Path(binary).read_bytes(), 0o755),
        f"{info}/licenses/LICENSE-MIT": ((ROOT / "LICENSE-MIT").read_bytes(), 0o644),
        f"{info}/licenses/LICENSE-APACHE": ((ROOT / "LICENSE-APACHE").read_bytes(), 0o644),
        f"{info}/METADATA": (metadata.encode(), 0o644),
        f"{info}/WHEEL": (wheel.encode(), 0o644),
    }
    record = ""
    path = pathlib.Path(folder) / f"{NAME}-{version}-py3-none-{platform}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=int(level)) as archive:
        for name, (content, mode) in files.items():
            add(archive, name, content, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(content)}\n"
        add(archive, f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644)
    print(path)


def add(archive, name, content, mode):
    entry = zipfile.ZipInfo(name, DATE)
    entry.external_attr = (0o100000 | mode) << 16
    archive.writestr(entry, content, archive.compression, archive.compresslevel)


main(*sys.argv[1:])
