"""A package index of files for the image's build, and locust's wheels: `python .ci/package_index.py DIRECTORY`.

Writes DIRECTORY/index/PACKAGE/*.whl for everything that the Dockerfile installs, and DIRECTORY/locust/*.whl. pip knows
where packages come from. A second run finds both and writes nothing.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONSTRAINTS = ROOT / "deploy/image/constraints.txt"
TARGET = ["--python-version", "3.11", "--implementation", "cp", "--only-binary", ":all:"]


def image_requirements() -> list[str]:
    """Return what the Dockerfile installs and what builds the wheel."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = content["project"]["optional-dependencies"]
    requirements = [*content["project"]["dependencies"], *extras["otel"], *extras["redis"]]
    # pip judges conditions by the Python that runs it; Debian's is older than 3.11.3, where redis wants async-timeout.
    return [*requirements, *content["build-system"]["requires"], "async-timeout", "uv"]


def download(directory: Path, requirements: list[str], constraints: str = "") -> None:
    """Let pip write the wheels of `requirements` and of all that they need into `directory`."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(constraints)
        file.flush()
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--dest",
            str(directory),
            "--constraint",
            file.name,
        ]
        subprocess.run([*command, *TARGET, *requirements], check=True)


def make_index(directory: Path) -> None:
    pins = CONSTRAINTS.read_text(encoding="utf-8")
    # No triton: torch's CPU build. async-timeout's pin holds whatever Python runs pip.
    constraints = re.sub(r"^(async-timeout==\S+) ;.*", r"\1", pins, flags=re.MULTILINE) + "\ntriton<0\n"
    with tempfile.TemporaryDirectory(dir=directory.parent) as wheels:
        download(Path(wheels), image_requirements(), constraints)
        for wheel in Path(wheels).glob("*.whl"):
            package = directory / re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()
            package.mkdir(parents=True, exist_ok=True)
            shutil.move(wheel, package / wheel.name)


def main(directory: Path) -> None:
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    [locust] = re.findall(r"image: locustio/locust:(.*)", compose)
    wanted = hashlib.sha256(
        "\n".join([*image_requirements(), CONSTRAINTS.read_text("utf-8"), locust]).encode()
    ).hexdigest()
    made = directory / "index-of"
    if made.is_file() and made.read_text(encoding="utf-8") == wanted:
        return
    for name in ("index", "locust"):
        shutil.rmtree(directory / name, ignore_errors=True)
    made.unlink(missing_ok=True)
    make_index(directory / "index")
    download(directory / "locust", [f"locust=={locust}"])
    made.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
