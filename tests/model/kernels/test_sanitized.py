"""C++ programs that check the operators, most under the compiler's sanitizers, and end with status 0."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from model import kernels
from model.kernels.compiler import VARIANTS

_SOURCES = Path(kernels.__file__).parent
_HERE = Path(__file__).parent


def _run(directory: Path, sources: Mapping[str, Sequence[str]], *flags: str) -> None:
    """Compile a program with `flags`, and run it; its files, of this folder or the operators', have flags of their own.

    A file that is compiled several times has a number behind its name.
    """
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")

    def compile_one(name: str) -> str:
        source, to = f"{name.partition(' ')[0]}.cpp", str(directory / f"{name}.o")
        path = next(folder / source for folder in (_HERE, _SOURCES) if (folder / source).exists())
        options = ["-std=c++20", "-O1", f"-I{_SOURCES}", *flags, *sources[name]]
        subprocess.run(["c++", *options, "-c", str(path), "-o", to], check=True)
        return to

    with ThreadPoolExecutor(max_workers=2) as executor:
        objects = list(executor.map(compile_one, sources))
    built = directory / "program"
    subprocess.run(["c++", *flags, *objects, "-o", str(built)], check=True)
    ended = subprocess.run([built], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def _run_sanitized(program: str, sanitizers: str, kernel: Mapping[str, Sequence[str]], directory: Path) -> None:
    """Run a program with the operators; `kernel` has the flags of `compute.cpp` for each of its variants."""
    sanitizer = [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    if shutil.which("c++") is not None:
        link = ["c++", *sanitizer, "-x", "c++", "-", "-o", str(directory / "empty")]
        linked = subprocess.run(link, check=False, input="int main() {}", capture_output=True, text=True)
        if linked.returncode != 0:
            pytest.skip(f"the compiler comes without its sanitizers: {linked.stderr.strip()}")
    listed = " ".join(f"X({variant})" for variant in kernel)
    variants = {f"compute {name}": [f"-DVARIANT={name}", *own] for name, own in kernel.items()}
    sources = {program: [], "sampling": [], "variants": [f"-DVARIANTS(X)={listed}"], **variants}
    _run(directory, sources, "-fopenmp-simd", "-ffp-contract=off", "-Wno-psabi", *sanitizer)


def test_late_threads_are_not_borrowed_for_a_while(tmp_path: Path) -> None:
    """A borrowed thread that loses its core to another program is left alone for a while."""
    _run(tmp_path, {"borrowing": [], "parts": []}, "-pthread")


@pytest.mark.slow
def test_products_are_exact(tmp_path: Path) -> None:
    """Every variant's: at the limits of 16 bits, with odd widths, and from rows of any kind."""
    _run_sanitized("products", "undefined,address", VARIANTS, tmp_path)


def test_numbers_that_are_not_finite(tmp_path: Path) -> None:
    """They are defined input, and are not hidden. The other variants' ways of quantising are in products.cpp."""
    # A cast of what no integer can be is none of those that "undefined" looks for.
    _run_sanitized("undefined", "undefined,float-cast-overflow", {"baseline": ()}, tmp_path)
