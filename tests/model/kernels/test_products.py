"""Every variant's products are exact: at the limits of 16 bits, with odd widths, and from rows of any kind."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from model import kernels
from model.kernels.compiler import VARIANTS

_SOURCES: Final = Path(kernels.__file__).parent
_SANITIZER: Final = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all"]


def test_products_are_exact(tmp_path: Path) -> None:
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    link = ["c++", *_SANITIZER, "-x", "c++", "-", "-o", str(tmp_path / "empty")]
    linked = subprocess.run(link, check=False, input="int main() {}", capture_output=True, text=True)
    if linked.returncode != 0:
        pytest.skip(f"the compiler comes without its sanitizers: {linked.stderr.strip()}")
    flags = ["-std=c++20", "-O1", "-fopenmp-simd", "-ffp-contract=off", "-Wno-psabi", f"-I{_SOURCES}", *_SANITIZER]
    listed = " ".join(f"X({variant})" for variant in VARIANTS)
    sources = {
        "products": (Path(__file__).with_name("products.cpp"), []),
        "sampling": (_SOURCES / "sampling.cpp", []),
        "variants": (_SOURCES / "variants.cpp", [f"-DVARIANTS(X)={listed}"]),
        **{
            name: (_SOURCES / "compute.cpp", [f"-DVARIANT={name}", *of_processor])
            for name, of_processor in VARIANTS.items()
        },
    }

    def compile_one(name: str) -> str:
        source, own = sources[name]
        to = str(tmp_path / f"{name}.o")
        subprocess.run(["c++", *flags, *own, "-c", str(source), "-o", to], check=True)
        return to

    with ThreadPoolExecutor(max_workers=2) as executor:
        objects = list(executor.map(compile_one, sources))
    program = tmp_path / "program"
    subprocess.run(["c++", *_SANITIZER, *objects, "-o", str(program)], check=True)
    ended = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
