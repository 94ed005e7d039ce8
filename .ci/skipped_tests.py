"""Print what a run of pytest has skipped, a file or a function on each line, from the run's JUnit file."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def main() -> None:
    found = {_id(case) for case in ET.parse(sys.argv[1]).iter("testcase") if case.find("skipped") is not None}
    print(*sorted(found), sep="\n")


def _id(case: ET.Element) -> str:
    """Return a function, with all its parameters, or a file or folder that is skipped as a whole."""
    module, name = case.get("classname", ""), case.get("name", "").partition("[")[0]
    path = (module or name).replace(".", "/")
    if module:
        return f"{path}.py::{name}"
    return f"{path}.py" if Path(f"{path}.py").is_file() else path


if __name__ == "__main__":
    main()
