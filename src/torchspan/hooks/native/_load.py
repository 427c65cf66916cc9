# SPDX-License-Identifier: Apache-2.0
"""Loading a library, once everything that it was built for was compared with this process."""

from __future__ import annotations

import os
import re
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from torchspan.base.logs import Log
from torchspan.hooks.native._manifest import TorchBuild, UnavailableError, fitting
from torchspan.words.environment_variables import TORCHSPAN_NATIVE_BUILD

logger = Log("torchspan")

_NAME = "_torchspan_native"


def load() -> Any:
    """The module of the library that fits this process. Imports torch, which the library needs to be loaded.

    Raises UnavailableError.
    """
    target = TorchBuild.imported()
    try:
        path = fitting(target)
    except UnavailableError as error:
        choice = os.environ.get(TORCHSPAN_NATIVE_BUILD, "").strip()
        if choice not in ("", "on", "off"):
            logger.warning("Invalid %s=%r, using default off (expected on or off)", TORCHSPAN_NATIVE_BUILD, choice)
        if choice != "on":
            raise
        from torchspan.hooks.native._build import build

        logger.warning("torchspan builds its library for operators (%s=on): %s", TORCHSPAN_NATIVE_BUILD, error.reason)
        path = build(target)
    spec = spec_from_file_location(_NAME, path, loader=ExtensionFileLoader(_NAME, str(path)))
    if spec is None:
        raise UnavailableError(f"this Python cannot load {path}", "use CPython")
    try:
        module: Any = module_from_spec(spec)
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise UnavailableError(f"the library cannot be loaded ({reason})") from error
    built = module.build()
    release = re.match(r"\d+\.\d+\.\d+", target.torch)
    expected = (release and release[0], target.cxx11_abi, target.source)
    if (built["torch"], bool(built["cxx11_abi"]), built["torchspan"]) != expected:
        raise UnavailableError("the library was built for another PyTorch or torchspan than its manifest says")
    return module
