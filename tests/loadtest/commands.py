"""Load tools as their users call them."""

import subprocess

from service.process.interpreter import python_command
from tests.deploy.conftest import ROOT


def run(module: str, *arguments: str) -> str:
    """Run a module's command from the root of the repository; return its standard output."""
    command = python_command("-m", module, *arguments)
    command.remove("-P")  # the load tools are in the working directory
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
