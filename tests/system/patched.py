"""`dragoman` with constants that tests set: `python -m tests.system.patched '{"module.NAME": 1}' serve`."""

import importlib
import json
import sys


def main() -> None:
    for path, value in json.loads(sys.argv.pop(1)).items():
        module, _, name = path.rpartition(".")
        found = importlib.import_module(module)
        assert isinstance(value, type(getattr(found, name))), path
        setattr(found, name, value)
    from service.cli.main import main

    main()


if __name__ == "__main__":
    main()
