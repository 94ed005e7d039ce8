"""`dragoman translate` at a terminal."""

import subprocess
import sys

from tests.system.conftest import Server, free_port


def _translate(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service", "translate", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=100, check=False)


def test_offline() -> None:
    done = _translate("I am a cat.", "Yes.\nI am a cat.")
    assert done.returncode == 0
    assert done.stdout == "Je suis un chat.\nOui.\nJe suis un chat.\n"
    assert done.stderr == ""


def test_against_a_server_from_standard_input(server: Server) -> None:
    done = _translate("--url", server.url, stdin="I am a cat.\n\nYes.\n")
    assert done.stdout == "Je suis un chat.\n\nOui.\n"


def test_a_server_s_refusal_is_shown(server: Server) -> None:
    done = _translate("--url", server.url, "--target", "xx", "Yes.")
    assert (done.returncode, done.stderr) == (2, "dragoman: target: xx is not supported; available: fr\n")


def test_no_server() -> None:
    done = _translate("--url", f"http://127.0.0.1:{free_port()}", "Yes.")
    assert done.returncode == 2
    assert "127.0.0.1" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_model() -> None:
    done = _translate("--model", "nowhere", "Yes.")
    assert done.returncode == 2
    assert "nowhere" in done.stderr
