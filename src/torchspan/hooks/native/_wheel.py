# SPDX-License-Identifier: Apache-2.0
"""A library as a wheel, for images without a compiler."""

from __future__ import annotations

import base64
import hashlib
import re
import sysconfig
import zipfile
from pathlib import Path

from torchspan.base.version import __version__
from torchspan.hooks.native._manifest import LIBRARY, MANIFEST, PACKAGE, TorchBuild, UnavailableError


def write_wheel(library: Path, target: TorchBuild, folder: Path) -> Path:
    """Write a wheel with a library into a folder, which is made where it is missing. Returns the wheel's path.

    It fits one build of PyTorch, whose version is part of its own, and this version of torchspan. Raises UnavailableError.

    Args:
        library: What `build` returned for `target`.
    """
    release = f"{__version__}+torch{re.sub('[^a-z0-9]+', '.', target.torch.lower())}"
    platform = re.sub("[^a-z0-9_]", "_", sysconfig.get_platform())
    tag, metadata = f"cp310-abi3-{platform}", f"{PACKAGE}-{release}.dist-info"
    content = {
        f"{PACKAGE}/__init__.py": b'"""The library with which torchspan records operators."""\n',
        f"{PACKAGE}/{LIBRARY}": library.read_bytes(),
        f"{PACKAGE}/{MANIFEST}": library.with_name(MANIFEST).read_bytes(),
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE.replace('_', '-')}\nVersion: {release}\n".encode(),
        f"{metadata}/WHEEL": f"Wheel-Version: 1.0\nGenerator: torchspan\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    rows = [f"{name},sha256={_digest(part)},{len(part)}" for name, part in content.items()]
    content[f"{metadata}/RECORD"] = "\n".join([*rows, f"{metadata}/RECORD,,\n"]).encode()
    path = folder / f"{PACKAGE}-{release}-{tag}.whl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, part in content.items():
                file = zipfile.ZipInfo(name)  # of 1980, so that the same library makes the same wheel
                file.external_attr = 0o100644 << 16
                archive.writestr(file, part, zipfile.ZIP_DEFLATED)
    except OSError as error:
        raise UnavailableError(
            f"the wheel cannot be written: {error.strerror}: {error.filename}", "name another folder"
        ) from error
    return path


def _digest(part: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(part).digest()).rstrip(b"=").decode()
