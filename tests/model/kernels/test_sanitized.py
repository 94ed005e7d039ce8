"""The C++ operators under the compiler's sanitizers: programs that check themselves and end with status 0."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from model import kernels
from model.kernels.compiler import VARIANTS

_SOURCES = Path(kernels.__file__).parent


def _run(program: str, sanitizers: str, kernel: Mapping[str, Sequence[str]], directory: Path) -> None:
    """Compile a program of this folder with the operators, and run it.

    `kernel` has the flags of `compute.cpp` for each of its object files.
    """
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    sanitizer = [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    link = ["c++", *sanitizer, "-x", "c++", "-", "-o", str(directory / "empty")]
    linked = subprocess.run(link, check=False, input="int main() {}", capture_output=True, text=True)
    if linked.returncode != 0:
        pytest.skip(f"the compiler comes without its sanitizers: {linked.stderr.strip()}")
    flags = ["-std=c++20", "-O1", "-fopenmp-simd", "-ffp-contract=off", "-Wno-psabi", f"-I{_SOURCES}", *sanitizer]
    listed = " ".join(f"X({variant})" for variant in kernel)
    sources = {
        program: (Path(__file__).with_name(f"{program}.cpp"), []),
        "sampling": (_SOURCES / "sampling.cpp", []),
        "variants": (_SOURCES / "variants.cpp", [f"-DVARIANTS(X)={listed}"]),
        **{name: (_SOURCES / "compute.cpp", [f"-DVARIANT={name}", *own]) for name, own in kernel.items()},
    }

    def compile_one(name: str) -> str:
        source, own = sources[name]
        to = str(directory / f"{name}.o")
        subprocess.run(["c++", *flags, *own, "-c", str(source), "-o", to], check=True)
        return to

    with ThreadPoolExecutor(max_workers=2) as executor:
        objects = list(executor.map(compile_one, sources))
    built = directory / "program"
    subprocess.run(["c++", *sanitizer, *objects, "-o", str(built)], check=True)
    ended = subprocess.run([built], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.slow
def test_products_are_exact(tmp_path: Path) -> None:
    """Every variant's: at the limits of 16 bits, with odd widths, and from rows of any kind."""
    _run("products", "undefined,address", VARIANTS, tmp_path)


def test_numbers_that_are_not_finite(tmp_path: Path) -> None:
    """They are defined input, and are not hidden. The other variants' ways of quantising are in products.cpp."""
    # A cast of what no integer can be is none of those that "undefined" looks for.
    _run("undefined", "undefined,float-cast-overflow", {"baseline": ()}, tmp_path)
