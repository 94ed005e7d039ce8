"""Hatch's build hook: the compiled C++ operators in the wheel, for every processor of one kind of machine.

The compiler is the system's, or PyPI's `ziglang` if DRAGOMAN_TARGET names a row of `PLATFORMS`: then the wheel is for
that platform, and fails without its operators. Else a wheel without them is a wheel, too: they are compiled at the
first start, or PyTorch does their work.
"""

import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

PLATFORMS: Final = {
    "x86_64-linux-gnu.2.28": "manylinux_2_28_x86_64",
    "aarch64-linux-gnu.2.28": "manylinux_2_28_aarch64",
    "aarch64-macos.11.0": "macosx_11_0_arm64",
}


class OperatorsHook(BuildHookInterface[Any]):
    """Adds the library of model/kernels to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # What is editable is compiled again whenever its sources change.
        if self.target_name != "wheel" or version == "editable":
            return
        # By its path: the package imports what is not installed yet.
        path = Path(self.root, "model/kernels/compiler.py")
        spec = importlib.util.spec_from_file_location("compiler", path)
        assert spec is not None
        assert spec.loader is not None
        compiler = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(compiler)
        target = os.environ.get("DRAGOMAN_TARGET")
        found = compiler.find_compiler(target)
        if found is None:
            self.app.display_warning(f"no C++ compiler: {compiler.ADVICE}")
            return
        self._scratch = tempfile.TemporaryDirectory()
        try:
            library = compiler.compile_into(Path(self._scratch.name), found)
        except subprocess.CalledProcessError as error:
            if target is not None:
                raise RuntimeError(error.stderr.decode(errors="replace")) from None
            self.app.display_warning(f"{found.command[0]} cannot compile the operators: {compiler.ADVICE}")
            return
        build_data["force_include"][str(library)] = f"model/kernels/{library.name}"
        build_data["pure_python"] = False
        # The operators know neither torch nor Python, so any version of them will do.
        platform = next(iter(platform_tags())) if target is None else PLATFORMS[target]
        build_data["tag"] = f"py3-none-{platform}"
