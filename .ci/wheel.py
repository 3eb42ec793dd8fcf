#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Packs the folder that .ci/dist unpacks to (program, libraries, Python hook) as a Python wheel, so that `pip install` puts tacho
# beside the programs it profiles.
#
#   .ci/wheel.py FOLDER VERSION EPOCH OUT     writes OUT/tacho-VERSION-py3-none-manylinux_2_28_x86_64.whl and prints its path
#
# The command `tacho` is a script that replaces itself by the program. The same input gives the same file.
import base64
import hashlib
import os
import sys
import time
import zipfile

folder, version, epoch, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profiler", "python", "tacho", "__init__.py")
tag = "py3-none-manylinux_2_28_x86_64"
info = f"tacho-{version}.dist-info"
MAIN = '''"""Replaces this process by the program tacho of this package."""
import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tacho")
    os.execv(program, ["tacho"] + sys.argv[1:])


if __name__ == "__main__":
    main()
'''
METADATA = f"""Metadata-Version: 2.1
Name: tacho
Version: {version}
Summary: Profiling and performance analysis of training runs
License: Apache-2.0
Requires-Python: >=3.8
"""

files = {
    "tacho/__init__.py": (open(MODULE, "rb").read(), 0o644),
    "tacho/__main__.py": (MAIN.encode(), 0o644),
    f"{info}/METADATA": (METADATA.encode(), 0o644),
    f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: tacho\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644),
    f"{info}/entry_points.txt": (b"[console_scripts]\ntacho = tacho.__main__:main\n", 0o644),
}
for root, _, names in os.walk(folder):
    for name in names:
        path = os.path.join(root, name)
        with open(path, "rb") as file:
            files["tacho/bin/" + os.path.relpath(path, folder)] = (file.read(), os.stat(path).st_mode & 0o777)


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


record = [f"{name},sha256={digest(data)},{len(data)}" for name, (data, _) in sorted(files.items())]
files[f"{info}/RECORD"] = (("\n".join(record) + f"\n{info}/RECORD,,\n").encode(), 0o644)
wheel = os.path.join(out, f"tacho-{version}-{tag}.whl")
date = time.gmtime(max(epoch, 315532800))[:6]  # a zip file knows no time before 1980
with zipfile.ZipFile(wheel + ".new", "w", zipfile.ZIP_DEFLATED) as archive:
    for name, (data, mode) in sorted(files.items(), key=lambda item: (item[0].startswith(info), item[0])):
        entry = zipfile.ZipInfo(name, date)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100000 | mode) << 16
        archive.writestr(entry, data)
os.rename(wheel + ".new", wheel)
print(wheel)
