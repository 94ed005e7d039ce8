"""`dragoman translate` at a terminal."""

import subprocess
import sys

import pytest

from tests.system.conftest import Server, StartServer, free_port
from tests.system.sentences import LONG_TEXT, SENTENCES


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


def test_against_a_server_that_keeps_the_stream_alive(start_server: StartServer) -> None:
    """Its comments are no events."""
    text = " ".join(SENTENCES[:40])
    with start_server("--keep-alive-seconds", "0.001") as server:
        done = _translate("--url", server.url, text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == _translate(text).stdout


def test_a_server_s_refusal_is_shown(server: Server) -> None:
    done = _translate("--url", server.url, "--target", "xx", "Yes.")
    assert (done.returncode, done.stderr) == (2, "dragoman: target: xx is not supported; available: fr\n")


def test_no_server() -> None:
    done = _translate("--url", f"http://127.0.0.1:{free_port()}", "Yes.")
    assert done.returncode == 2
    assert "127.0.0.1" in done.stderr
    assert "Traceback" not in done.stderr


def test_standard_input_that_is_not_utf8() -> None:
    command = [sys.executable, "-m", "service", "translate"]
    done = subprocess.run(command, input=b"caf\xe9", capture_output=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (2, b"dragoman: standard input is not UTF-8\n")


def test_a_reader_that_has_seen_enough(server: Server) -> None:
    command = f"{sys.executable} -m service translate --url {server.url} '{LONG_TEXT}' | head -c 30"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=100, check=False)
    assert len(done.stdout) == 30
    assert done.stderr == ""


def test_wrong_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_SLOTS", "0")
    done = _translate("Yes.")
    assert done.returncode == 2
    assert done.stderr.startswith("dragoman: slots: ")


def test_no_model() -> None:
    done = _translate("--model", "nowhere", "Yes.")
    assert done.returncode == 2
    assert "nowhere" in done.stderr
