"""Compiles the C++ operators: once, into a place of their own, whole or not at all. Imports no PyTorch, nor needs any.

The wheel's build (hatch_build.py) runs this file, too, before anything of the project is installed.
"""

import fcntl
import hashlib
import importlib.util
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

logger = logging.getLogger(__name__)

_SOURCES: Final = Path(__file__).parent
_COMPILER_SECONDS: Final = 600
_SUM: Final = ".sha256"

# What compute.cpp is compiled for, the best first; variants.cpp says which one a processor takes. The flags are GCC's
# and Clang's; Zig has one of its own.
_AVX512VNNI: Final = ["-march=x86-64-v4", "-mavx512vnni", "-mprefer-vector-width=512"]
_X86_64: Final = {
    "amx": [*_AVX512VNNI, "-mamx-tile", "-mamx-int8"],
    "avx512vnni": _AVX512VNNI,
    "avxvnni": ["-march=x86-64-v3", "-mavxvnni"],
    "avx2": ["-march=x86-64-v3"],
}
_AARCH64: Final = {"dotprod": ["-march=armv8.2-a+dotprod"]}
_OF_MACHINES: Final = {"x86_64": _X86_64, "aarch64": _AARCH64, "arm64": _AARCH64}
_OF_ZIG: Final = {
    "amx": ["-mcpu=x86_64_v4+avx512vnni+amx_tile+amx_int8", "-mprefer-vector-width=512"],
    "avx512vnni": ["-mcpu=x86_64_v4+avx512vnni", "-mprefer-vector-width=512"],
    "avxvnni": ["-mcpu=x86_64_v3+avxvnni"],
    "avx2": ["-mcpu=x86_64_v3"],
    "dotprod": ["-mcpu=generic+v8_2a+dotprod"],
}

# Nothing for errno and traps. A product and a sum are one operation only where the source says so, and only what is
# marked is summed in another order than it is written in: the same one every time.
_FLAGS: Final = [
    "-std=c++20",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fopenmp-simd",
    "-Wno-psabi",
]


ADVICE: Final = "install g++ (12 or newer), or PyPI's ziglang beside dragoman, and start again"


class CompilerError(OSError):
    """There is no compiler, or it does not compile the operators: another directory would not help."""


class Compiler(NamedTuple):
    """A C++ compiler, and the kind of machine that it compiles for."""

    command: list[str]
    machine: str = platform.machine()

    def flags(self, variant: str, own: list[str]) -> list[str]:
        """Return the flags of a variant."""
        return _OF_ZIG.get(variant, []) if "ziglang" in self.command else own


def find_compiler(target: str | None = None) -> Compiler | None:
    """Return the compiler of $CXX, else the system's, else the one of PyPI's package `ziglang`; None without any.

    With a target, as aarch64-linux-gnu.2.28, only `ziglang` will do.
    """
    zig = [sys.executable, "-P", "-m", "ziglang", "c++"]
    if target is not None:
        return Compiler([*zig, "-target", target], target.split("-")[0])
    for command in (shlex.split(os.environ.get("CXX", "")), ["c++"], ["g++"], ["clang++"]):
        if command and (found := shutil.which(command[0])):
            return Compiler([found, *command[1:]])
    return Compiler(zig) if importlib.util.find_spec("ziglang") else None


def variants(machine: str = platform.machine()) -> dict[str, list[str]]:
    """Return the variants of a kind of machine, the best first, and what each is compiled with."""
    return {**_OF_MACHINES.get(machine, {}), "baseline": []}


VARIANTS: Final = variants()


def build(directory: Path, *, private: bool = False) -> Path:
    """Compile into `directory`, unless it was done before; returns the library.

    A private directory stands among files of others. A library that another user may have written, or that is damaged,
    is compiled again. Of processes that start together one compiles, and the others wait. Raises `CompilerError`, and
    OSError where the directory cannot be written, or by others, too. What the compiler does not accept is remembered,
    so that an engine that starts again does not wait for it; that it was killed or too slow is not.
    """
    built = directory / file_name()
    if private and directory.is_symlink():
        raise PermissionError(f"{directory} is a link, which others may have made")
    if _is_sound(built):
        return built
    compiler = find_compiler()
    if compiler is None:
        raise CompilerError("there is no C++ compiler")
    directory.mkdir(mode=0o700 if private else 0o755, parents=True, exist_ok=True)
    if not _is_own(status := directory.stat()):
        why, advice = "can be written by others", "chmod go-w it"
        if status.st_uid not in (os.getuid(), 0):
            why, advice = f"belongs to user {status.st_uid}", "chown it, or set XDG_CACHE_HOME"
        raise PermissionError(f"{directory} {why}, who could put any code there: {advice}")
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


def _build(compiler: Compiler, built: Path) -> Path:
    failed = built.with_suffix(".failed")
    if failed.exists():
        raise CompilerError(f"{failed.read_text(encoding='utf-8')} (to try again, remove {failed})")
    logger.warning("compiling the C++ operators, once, which takes ten seconds to a minute: %s", built)
    name = shlex.join(compiler.command)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            partial = compile_into(Path(scratch), compiler)
        except subprocess.TimeoutExpired:
            raise CompilerError(f"{name} took more than {_COMPILER_SECONDS} s") from None
        except subprocess.CalledProcessError as error:
            output = error.stderr.decode(errors="replace")
            problem = next((line for line in output.splitlines() if "error" in line), str(error))
            # GCC's driver says of a part of itself that was killed, as for want of memory: "Killed signal".
            if error.returncode > 0 and "signal" not in problem:
                failed.write_text(f"{name}: {problem}", encoding="utf-8")
            raise CompilerError(f"{name}: {problem}") from None
        # Appears whole: another file system's copy would not.
        complete = built.with_suffix(f".{os.getpid()}")
        shutil.copyfile(partial, complete)
        complete.chmod(0o644)
        built.with_suffix(_SUM).write_text(_sum(complete), encoding="utf-8")
        complete.replace(built)
    return built


def file_name(machine: str = platform.machine()) -> str:
    """Return the library's name: a hash of these sources, these flags and this kind of machine."""
    sources = [path.read_bytes() for path in sorted(_SOURCES.glob("*.[ch]*"))]
    options = [_FLAGS, variants(machine), machine]
    key = hashlib.sha256(b"".join([*sources, repr(options).encode()]))
    return f"dragoman_kernels_{key.hexdigest()[:16]}.so"


def compile_into(directory: Path, compiler: Compiler) -> Path:
    """Compile every object, then the library; raises SubprocessError."""
    of_machine = variants(compiler.machine)
    listed = " ".join(f"X({variant})" for variant in of_machine)
    objects: list[tuple[str, str, list[str]]] = [
        *(
            ("compute", variant, [f"-DVARIANT={variant}", *compiler.flags(variant, flags)])
            for variant, flags in of_machine.items()
        ),
        *((path.stem, path.stem, []) for path in sorted(_SOURCES.glob("*.cpp")) if path.stem not in _OF_VARIANTS),
        ("variants", "variants", [f"-DVARIANTS(X)={listed}"]),
    ]

    def compile_one(source: str, name: str, flags: list[str]) -> str:
        to = str(directory / f"{name}.o")
        _run([*compiler.command, *_FLAGS, *flags, "-c", str(_SOURCES / f"{source}.cpp"), "-o", to])
        return to

    # Two at a time: each takes up to a third of a gigabyte.
    with ThreadPoolExecutor(max_workers=2) as executor:
        compiled = list(executor.map(compile_one, *zip(*objects, strict=True)))
    library = directory / file_name(compiler.machine)
    _run([*compiler.command, "-shared", "-pthread", *compiled, "-o", str(library)])
    return library


_OF_VARIANTS: Final = ("compute", "variants")
"""Sources that are compiled with the names of variants."""


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMPILER_SECONDS)
