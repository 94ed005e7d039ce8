"""A request that kills the engine it gets to, for servers whose PYTHONPATH has this folder: Python imports it first.

The request is known by its seed. It kills the engine when its source is to be encoded, which the engine has reported
before. Nothing happens without the variable.
"""

import os
import signal
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

SEED: Final = 666_000_666
VARIABLE: Final = "SOAK_POISONED"
"""Names the file that gets a line for each engine that was killed."""
_MODULE: Final = "service.engine.batching"


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Poisoned(spec.loader)
        return spec


class _Poisoned(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        source_batch = module.source_batch

        def poisoned(admitted: Sequence[Any]) -> Any:
            if any(each.request.search.sampling.seed == SEED for each in admitted):
                with open(os.environ[VARIABLE], "a") as killed:
                    killed.write(f"{os.getpid()}\n")
                os.kill(os.getpid(), signal.SIGKILL)
            return source_batch(admitted)

        vars(module)["source_batch"] = poisoned


if VARIABLE in os.environ:
    sys.meta_path.insert(0, _Finder())
