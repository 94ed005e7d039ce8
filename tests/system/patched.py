"""`dragoman` with constants that tests set: `python -m tests.system.patched '{"module.NAME": 1}' serve`."""

import importlib
import json
import sys
from collections.abc import Mapping


def set_constants(constants: Mapping[str, float]) -> None:
    for path, value in constants.items():
        module, _, name = path.rpartition(".")
        found = importlib.import_module(module)
        assert isinstance(value, type(getattr(found, name))), path
        setattr(found, name, value)


def main() -> None:
    set_constants(json.loads(sys.argv.pop(1)))
    from service.cli.main import main

    main()


if __name__ == "__main__":
    main()
