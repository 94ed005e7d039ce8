"""Compiles the C++ operators: once, into a place of their own, whole or not at all."""

import fcntl
import hashlib
import logging
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import torch

logger = logging.getLogger(__name__)

_SOURCES: Final = Path(__file__).parent
_COMPILER_SECONDS: Final = 600
_SUM: Final = ".sha256"

# What compute.cpp is compiled for, the best first; variants.cpp says which one a processor takes.
_AVX512VNNI: Final = ["-march=x86-64-v4", "-mavx512vnni", "-mprefer-vector-width=512"]
_X86_64: Final = {
    "amx": [*_AVX512VNNI, "-mamx-tile", "-mamx-int8"],
    "avx512vnni": _AVX512VNNI,
    "avxvnni": ["-march=x86-64-v3", "-mavxvnni"],
    "avx2": ["-march=x86-64-v3"],
}
_AARCH64: Final = {"dotprod": ["-march=armv8.2-a+dotprod"]}
_OF_MACHINES: Final = {"x86_64": _X86_64, "aarch64": _AARCH64, "arm64": _AARCH64}
VARIANTS: Final[dict[str, list[str]]] = {**_OF_MACHINES.get(platform.machine(), {}), "baseline": []}

# Nothing for errno and traps. A product and a sum are one operation only where the source says so, and only what is
# marked is summed in another order than it is written in: the same one every time.
_FLAGS: Final = [
    "-std=c++20",
    "-O3",
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-Wno-psabi",
]
# Threads where the compiler brings OpenMP, as PyTorch's own.
_OPENMP: Final = "-fopenmp" if sys.platform == "linux" else "-fopenmp-simd"


def build(directory: Path) -> Path:
    """Compile into `directory`, unless it was done before; returns the library.

    A library that another user may have written, or that is damaged, is compiled again. Of processes that start
    together one compiles, and the others wait. Raises OSError where there is no compiler, or no place to write that is
    this user's own, or where it fails. What the compiler does not accept is remembered, so that an engine that starts
    again does not wait for it; that it was killed or too slow is not.
    """
    built = directory / file_name()
    if _is_sound(built):
        return built
    if not directory.is_absolute():
        raise NotADirectoryError(f"{directory} cannot hold a cache: is there a home directory?")
    compiler = shutil.which("c++")
    if compiler is None:
        raise FileNotFoundError("there is no C++ compiler (c++)")
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not _is_own(directory.stat()):
        raise PermissionError(f"{directory} can be written by others, who could put any code there: chmod go-w it")
    with built.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return built if _is_sound(built) else _build(compiler, built)


def _is_own(status: os.stat_result) -> bool:
    """Return True if only this user and the administrator can write the file with this status."""
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_sound(built: Path) -> bool:
    """Return True for a library that was written here as it is now: loading a damaged one ends the process."""
    try:
        status, expected = built.lstat(), built.with_suffix(_SUM).read_text(encoding="utf-8")
        own = all(map(_is_own, (status, built.parent.stat(), built.with_suffix(_SUM).lstat())))
        return own and stat.S_ISREG(status.st_mode) and _sum(built) == expected
    except (OSError, UnicodeDecodeError):
        return False


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _build(compiler: str, built: Path) -> Path:
    failed = built.with_suffix(".failed")
    if failed.exists():
        raise OSError(f"{failed.read_text(encoding='utf-8')} (to try again, remove {failed})")
    logger.warning("compiling the C++ operators, once, in half a minute to two minutes: %s", built)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            partial = _compile(compiler, Path(scratch))
        except subprocess.TimeoutExpired:
            raise OSError(f"{compiler} took more than {_COMPILER_SECONDS} s") from None
        except subprocess.CalledProcessError as error:
            output = error.stderr.decode(errors="replace")
            problem = next((line for line in output.splitlines() if "error" in line), str(error))
            # GCC's driver says of a part of itself that was killed, as for want of memory: "Killed signal".
            if error.returncode > 0 and "signal" not in problem:
                failed.write_text(f"{compiler}: {problem}", encoding="utf-8")
            raise OSError(f"{compiler}: {problem}") from None
        # Appears whole: another file system's copy would not.
        complete = built.with_suffix(f".{os.getpid()}")
        shutil.copyfile(partial, complete)
        complete.chmod(0o644)
        built.with_suffix(_SUM).write_text(_sum(complete), encoding="utf-8")
        complete.replace(built)
    return built


def file_name() -> str:
    """Return the library's name: a hash of these sources, these flags, this PyTorch and this kind of machine."""
    sources = [path.read_bytes() for path in sorted(_SOURCES.glob("*.[ch]*"))]
    options = [_FLAGS, _OPENMP, VARIANTS, torch.__version__, platform.machine()]
    key = hashlib.sha256(b"".join([*sources, repr(options).encode()]))
    return f"dragoman_kernels_{key.hexdigest()[:16]}.so"


def _compile(compiler: str, scratch: Path) -> Path:
    """Compile every object, then the library; raises SubprocessError."""
    installed = Path(torch.__file__).parent
    listed = " ".join(f"X({variant})" for variant in VARIANTS)
    pytorch = [f"-I{installed / 'include'}", _OPENMP]
    objects = [
        ("operators.cpp", "operators", pytorch),
        ("int8_transformer.cpp", "int8_transformer", pytorch),
        ("int8_steps.cpp", "int8_steps", pytorch),
        ("int8_output.cpp", "int8_output", pytorch),
        ("int8_weights.cpp", "int8_weights", pytorch),
        ("parts.cpp", "parts", pytorch),
        ("beams.cpp", "beams", []),
        ("sampling.cpp", "sampling", []),
        ("variants.cpp", "variants", [f"-DVARIANTS(X)={listed}"]),
        *(
            ("compute.cpp", variant, ["-fopenmp-simd", f"-DVARIANT={variant}", *flags])
            for variant, flags in VARIANTS.items()
        ),
    ]

    def compile_one(source: str, name: str, flags: list[str]) -> str:
        to = str(scratch / f"{name}.o")
        _run([compiler, *_FLAGS, *flags, "-c", str(_SOURCES / source), "-o", to])
        return to

    # Two at a time: each takes up to half a gigabyte.
    with ThreadPoolExecutor(max_workers=2) as executor:
        compiled = list(executor.map(compile_one, *zip(*objects, strict=True)))
    library = scratch / file_name()
    _run(
        [compiler, "-shared", _OPENMP, *compiled, "-o", str(library), f"-L{installed / 'lib'}", "-lc10", "-ltorch_cpu"]
    )
    return library


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMPILER_SECONDS)
