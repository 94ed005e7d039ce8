import sys
from pathlib import Path

from service.process.interpreter import python_command


def test_the_working_directory_is_not_on_the_path_of_another_python() -> None:
    assert python_command("-m", "service", "serve") == [sys.executable, "-P", "-m", "service", "serve"]


def test_nobody_else_builds_the_command_of_a_python() -> None:
    """A command that is built elsewhere would forget -P some day."""
    root = Path(__file__).parents[3]
    files = [path for package in ("model", "service", "loadtest") for path in (root / package).rglob("*.py")]
    builders = [path for path in files if "[sys.executable" in (text := path.read_text()) or "(sys.executable," in text]
    # `model` imports nothing of `service`.
    assert builders == [root / "model/kernels/compiler.py", root / "service/process/interpreter.py"]
    assert all('[sys.executable, "-P", ' in path.read_text() for path in builders)
