"""Hatch's build hook that puts the compiled C++ operators into the wheel; `.ci/release` enables it.

Off by default: whoever installs from source needs no compiler to do so.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags


class OperatorsHook(BuildHookInterface[Any]):
    """Compiles model/kernels for every processor of this architecture, with the torch of this environment."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        from model.kernels.compiler import build

        self._directory = tempfile.TemporaryDirectory()
        library = build(Path(self._directory.name))
        build_data["force_include"][str(library)] = f"model/kernels/{library.name}"
        build_data["pure_python"] = False
        # The operators know torch but not Python, so any version of Python loads them.
        build_data["tag"] = f"py3-none-{next(iter(platform_tags()))}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._directory.cleanup()
