"""`dragoman translate` at a terminal."""

import json
import os
import pty
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.system.commands import dragoman, dragoman_here
from tests.system.conftest import KEEP_ALIVE, Server, StartServer, free_port
from tests.system.sentences import LONG_TEXT, SENTENCES

_translate, _here = partial(dragoman, "translate"), partial(dragoman_here, "translate")


def test_offline() -> None:
    done = _translate("I see a cat.", "Yes.\nI see a cat.")
    assert done.returncode == 0
    assert done.stdout == "Je vois un chat.\nOui.\nJe vois un chat.\n"
    assert done.stderr == ""


def test_against_a_server_from_standard_input(server: Server) -> None:
    done = _translate("--url", server.url, stdin="I see a cat.\n\nYes.\n")
    assert done.stdout == "Je vois un chat.\n\nOui.\n"


def test_against_a_server_that_keeps_the_stream_alive(server: Server, start_server: StartServer) -> None:
    """Keep-alive comments are no events."""
    text = " ".join(SENTENCES[:40])
    with start_server(constants={KEEP_ALIVE: 0.001}) as busy:
        done = _here("--url", busy.url, text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == server.translated(text, "en", "fr")["translatedText"] + "\n"


def test_a_server_s_refusal_is_shown(server: Server) -> None:
    done = _here("--url", server.url, "--target", "xx", "Yes.")
    assert (done.returncode, done.stderr) == (2, "dragoman: target: xx is not supported; available: fr\n")


def test_a_language_that_the_model_lacks_is_answered_with_the_option_to_give() -> None:
    done = _translate("--target", "de", "Yes.")
    hint = "for another language give --model, for example Helsinki-NLP/opus-mt-en-de"
    assert (done.returncode, done.stderr) == (2, f"dragoman: target: de is not supported; available: fr; {hint}\n")


def test_no_server() -> None:
    done = _here("--url", f"http://127.0.0.1:{free_port()}", "Yes.")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("dragoman: http://127.0.0.1:")
    assert "no server answers there; is `dragoman serve` running?" in line


def test_a_url_with_a_path(server: Server) -> None:
    done = _here("--url", f"{server.url}/translate", "Yes.")
    message = "there is no such path; give the server's address without a path"
    assert (done.returncode, done.stderr) == (2, f"dragoman: {server.url}/translate/translate: {message}\n")


def test_nothing_to_translate(server: Server) -> None:
    """An empty text is no error in a pipeline, but a user who waits must see why nothing comes."""
    for arguments in ((), ("--json", "--url", server.url)):
        done = _here(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "dragoman: nothing to translate\n")


def test_standard_input_that_is_not_utf8() -> None:
    command = [sys.executable, "-m", "service", "translate"]
    done = subprocess.run(command, input=b"caf\xe9", capture_output=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (2, b"dragoman: standard input is not UTF-8\n")


def test_a_reader_that_has_seen_enough(server: Server) -> None:
    command = f"{sys.executable} -m service translate --url {server.url} '{LONG_TEXT}' | head -c 30"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=100, check=False)
    assert len(done.stdout) == 30
    assert done.stderr == ""


def test_files_keep_their_lines(server: Server, tmp_path: Path) -> None:
    """A file of many requests: CRLF, empty lines and a last line without its end stay what they are."""
    lines = ["I see a cat.\r\n", "\r\n", "  Yes.\n"] * 700
    first, second, output = (tmp_path / name for name in ("first", "second", "output"))
    first.write_bytes("".join(lines).encode())
    second.write_text("Yes.")
    done = _here("--url", server.url, "--file", str(first), "-f", str(second), "--output", str(output))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert output.read_bytes().decode() == "Je vois un chat.\r\n\r\n  Oui.\n" * 700 + "Oui."


@pytest.mark.parametrize("remote", [True, False])
def test_json(server: Server, tmp_path: Path, remote: bool) -> None:
    file = tmp_path / "file"
    file.write_text(f"{SENTENCES[1]}\n\n42\n")
    where = ("--url", server.url) if remote else ()
    done = _here(*where, "--json", "--alternatives", "2", "--file", str(file))
    assert done.returncode == 0, done.stderr
    sentence, empty, number = (json.loads(line) for line in done.stdout.splitlines())
    assert sentence["text"] == SENTENCES[1]
    assert sentence["alternatives"][0]["text"] != sentence["translatedText"]
    assert sentence["alternatives"][0]["score"] < sentence["score"] < 0
    assert empty == {"text": "", "translatedText": "", "score": None}
    assert number == {"text": "42", "translatedText": "42", "score": None}


@pytest.mark.parametrize("remote", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_glossary_and_a_language_that_is_not_given(server: Server, tmp_path: Path, remote: bool) -> None:
    glossary = tmp_path / "glossary.csv"
    glossary.write_text('cat,"matou, gros",en,fr\n')
    where = (*(("--url", server.url) if remote else ()), "--glossary", str(glossary), "--source", "auto")
    done = _here(*where, stdin="I have a cat.\n" * 300)
    assert done.returncode == 0
    assert done.stdout.count("matou, gros") == 300
    assert re.fullmatch(r"detected: en \([0-9]+ %\)\n", done.stderr)
    answer = json.loads(_here(*where, "--json", "A cat.").stdout)
    assert "matou, gros" in answer["translatedText"]
    assert answer["detectedLanguage"]["language"] == "en"
    glossary.write_text("cat\n")
    done = _here(*where, "A cat.")
    assert (done.returncode, done.stderr) == (2, f"dragoman: {glossary}: line 1 is not a term and its translation\n")


def test_each_line_is_answered_before_the_next_is_written(server: Server) -> None:
    command = [sys.executable, "-m", "service", "translate", "--url", server.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line, answer in ((b"Yes.\n", b"Oui.\n"), (b"\nI see a cat.\n", b"\nJe vois un chat.\n")):
            process.stdin.write(line)
            process.stdin.flush()
            assert b"".join(process.stdout.readline() for _ in answer.splitlines()) == answer
        process.stdin.write(b"Yes.")
        process.stdin.close()
        assert process.stdout.read() == b"Oui."
    assert process.returncode == 0


def test_a_file_is_overwritten_only_if_somebody_says_so(server: Server, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_text("kept")
    arguments = ("--url", server.url, "--output", str(output), "Yes.")
    done = _here(*arguments)
    assert (done.returncode, done.stderr) == (2, f"dragoman: {output} exists; --force overwrites it\n")
    for answer, status, content in ((b"n\n", 2, "kept"), (b"y\n", 0, "Oui.\n")):
        controller, terminal = pty.openpty()
        os.write(controller, answer)
        command = [sys.executable, "-m", "service", "translate", *arguments]
        done = subprocess.run(command, stdin=terminal, capture_output=True, text=True, timeout=100, check=False)
        os.close(terminal)
        os.close(controller)
        assert done.stderr.startswith(f"{output} exists. Overwrite it? [y/N]:")
        assert (done.returncode, output.read_text()) == (status, content)
    output.write_text("old")
    assert _here("--force", *arguments).returncode == 0
    assert output.read_text() == "Oui.\n"


def test_a_terminal_sees_that_the_engine_starts() -> None:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "service", "translate", "Yes."]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, text=True, timeout=100, check=False)
    os.close(terminal)
    assert (done.returncode, done.stdout) == (0, "Oui.\n")
    assert b"Starting the engine" in os.read(controller, 65536)
    os.close(controller)


def test_a_bar_where_somebody_looks(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("Yes.\n")
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "service", "translate", "--url", server.url, "--file", str(file)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, text=True, timeout=100, check=False)
    os.close(terminal)
    assert (done.returncode, done.stdout) == (0, "Oui.\n")
    assert b"100 %" in os.read(controller, 65536)
    os.close(controller)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--file", "nowhere"), "nowhere: No such file or directory"),
        (("--file", "nowhere", "Yes."), "give texts or files, not both"),
        (("--alternatives", "2", "Yes."), "--alternatives needs --json"),
        (("--output", "/nowhere/file", "Yes."), "/nowhere/file: No such file or directory"),
        (("--json", "--alternatives", "3", "--beam-size", "2", "Yes."), "beam_size: must be at least 4"),
        (("--json", "--alternatives", "99", "Yes."), "alternatives: input should be less than 16"),
    ],
)
@pytest.mark.parametrize("remote", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_what_cannot_be_done_is_reported(
    server: Server, arguments: tuple[str, ...], message: str, remote: bool
) -> None:
    done = _here(*(("--url", server.url) if remote else ()), *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"dragoman: {message}")
    assert done.stdout == ""
