"""The command `dragoman`, run to its end."""

import subprocess
import sys

from typer.testing import CliRunner

from service.cli.main import app


def dragoman(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own."""
    command = [sys.executable, "-m", "service", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=100, check=False)


def dragoman_here(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run it in this process, which has imported what it needs."""
    done = CliRunner().invoke(app, arguments, input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return subprocess.CompletedProcess([], done.exit_code, done.stdout, done.stderr)
