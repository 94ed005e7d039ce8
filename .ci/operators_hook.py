"""Hatch's build hook that puts the compiled C++ operators into the wheel; `.ci/release` enables it.

The hook is off by default: an installation from source needs no compiler. It needs torch, as in the environment of
.ci/run, and the operators fit that build of torch only.
"""

import sys
from typing import Any

import platformdirs
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags


class OperatorsHook(BuildHookInterface[Any]):
    """Adds model/kernels' library for every processor of this architecture, compiled where the engine compiles it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        from model.kernels.compiler import build

        library = build(platformdirs.user_cache_path("dragoman"))
        build_data["force_include"][str(library)] = f"model/kernels/{library.name}"
        build_data["pure_python"] = False
        # The operators know torch but not Python, so any version of Python loads them.
        build_data["tag"] = f"py3-none-{next(iter(platform_tags()))}"
