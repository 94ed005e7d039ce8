"""Numbers that are not finite are defined input of the C++ operators, and are not hidden."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from model import kernels

_SOURCES: Final = Path(kernels.__file__).parent
# A cast of what no integer can be is none of those that "undefined" looks for.
_SANITIZER: Final = ["-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all"]


def test_numbers_that_are_not_finite(tmp_path: Path) -> None:
    """Run the variant for any processor; test_products.py has the others' ways of quantising."""
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    link = ["c++", *_SANITIZER, "-x", "c++", "-", "-o", str(tmp_path / "empty")]
    linked = subprocess.run(link, check=False, input="int main() {}", capture_output=True, text=True)
    if linked.returncode != 0:
        pytest.skip(f"the compiler comes without its sanitizer: {linked.stderr.strip()}")
    flags = ["-std=c++20", "-O1", "-fopenmp-simd", "-ffp-contract=off", "-Wno-psabi", f"-I{_SOURCES}", *_SANITIZER]
    flags += ["-DVARIANT=baseline", "-DVARIANTS(X)=X(baseline)"]
    sources = [
        *(_SOURCES / name for name in ("compute.cpp", "sampling.cpp", "variants.cpp")),
        Path(__file__).with_name("undefined.cpp"),
    ]

    def compile_one(source: Path) -> str:
        to = str(tmp_path / f"{source.stem}.o")
        subprocess.run(["c++", *flags, "-c", str(source), "-o", to], check=True)
        return to

    with ThreadPoolExecutor(max_workers=2) as executor:
        objects = list(executor.map(compile_one, sources))
    program = tmp_path / "undefined"
    subprocess.run(["c++", *_SANITIZER, *objects, "-o", str(program)], check=True)
    ended = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
