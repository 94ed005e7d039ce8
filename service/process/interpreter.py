"""The command line of another Python process. Every module that starts one builds its command here."""

import sys


def python_command(*arguments: str) -> list[str]:
    """Build the command that runs this interpreter with `arguments`.

    `-P` keeps the working directory off the new process' import path: a `service/` or a `torch.py` in the directory
    from which a user starts `dragoman` is never run.
    """
    return [sys.executable, "-P", *arguments]
