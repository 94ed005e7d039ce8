"""The first minutes with `dragoman`: help, typos, and errors of one line."""

import importlib.metadata
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner, Result

from service.cli.doctor import Processor, Report
from service.cli.main import app
from service.errors import InvalidRequest
from service.server.server import listen, url_of
from service.settings import EMBEDDED_MODELS, Settings, default_text, flags
from tests.conftest import one_line


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that `serve` installs would outlive the test's standard error."""
    monkeypatch.setattr("service.process.logs.configure", lambda level, style: None)


def test_the_version() -> None:
    done = _run("--version")
    assert (done.exit_code, done.stdout) == (0, f"dragoman {importlib.metadata.version('dragoman')}\n")


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_the_help_shows_every_setting_whole(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = _run(command, "--help")
    assert done.exit_code == 0
    for group, fields in flags().items():
        assert f" {group} " in done.stdout
        for name, field in fields.items():
            assert f"--{name.replace('_', '-')} " in done.stdout
            assert f"[default: {default_text(field)}]" in one_line(done.stdout) or not default_text(field)
    assert "…" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("serv",), "no such command 'serv'. Did you mean 'serve'? (see `dragoman --help`)"),
        (("serve", "--slotz", "3"), "no such option: --slotz; did you mean --slots? (see `dragoman serve --help`)"),
        (("doctor", "--slotz", "3"), "no such option: --slotz; did you mean --slots? (see `dragoman doctor --help`)"),
        (("translate", "--sorce", "en"), "no such option: --sorce; did you mean --source?"),
        (("keys", "ad"), "no such command 'ad'. Did you mean 'add'? (see `dragoman keys --help`)"),
        (("keys", "add"), "missing argument"),
        (("serve", "--slots"), "option '--slots' requires an argument"),
        (("serve", "en"), "got unexpected extra argument(s) (en)"),
    ],
)
def test_a_typo_is_answered_in_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = _run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.replace("root", "dragoman").startswith(f"dragoman: {message}")


@pytest.mark.parametrize("command", [(), ("serve",), ("translate",), ("keys",), ("keys", "add"), ("pull",)])
def test_h_is_help(command: tuple[str, ...]) -> None:
    assert (_run(*command, "-h").stdout, _run(*command, "-h").exit_code) == (_run(*command, "--help").stdout, 0)


def test_the_shell_completes_commands_and_options() -> None:
    def completed(*words: str) -> list[str]:
        asked = {
            "_DRAGOMAN_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": f"{len(words) - 1}",
        }
        return CliRunner().invoke(app, [], prog_name="dragoman", env=asked).stdout.split()

    assert "translate" in completed("dragoman", "tr")
    assert completed("dragoman", "serve", "--max-wai") == ["--max-waiting"]


def test_a_port_in_use_is_reported_with_the_reason() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = _run("serve", "--port", str(port))
    expected = f"dragoman: host, port: cannot listen on 127.0.0.1, port {port}: address already in use"
    expected += "; another server runs there? Choose another --port\n"
    assert (done.exit_code, done.stderr) == (2, expected)


def test_a_unix_socket_in_use_is_reported_and_one_left_behind_is_not(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(str(path))
        taken.listen()
        done = _run("serve", "--uds", str(path))
    assert (done.exit_code, done.stderr) == (
        2,
        f"dragoman: uds: cannot listen at {path}: another server runs there\n",
    )
    with listen(Settings(uds=path)) as listening:
        assert url_of(listening) == f"unix:{path}"
        assert stat.filemode(path.stat().st_mode) == "srw-rw-rw-"
    file = tmp_path / "file"
    file.write_text("kept")
    done = _run("serve", "--uds", str(file))
    assert (done.exit_code, file.read_text()) == (2, "kept")


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"), ("::", "[::1]")]
)
def test_the_address_to_open_is_one_of_this_machine(host: str, url: str) -> None:
    with listen(Settings(host=host, port=0)) as listening:
        assert url_of(listening) == f"http://{url}:{listening.getsockname()[1]}"


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize(("command", "variable"), [("models", "XDG_CACHE_HOME"), ("serve", "TMPDIR")])
def test_who_has_no_place_is_told_what_to_set(command: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/none"])
    done = _run(command)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert f": set {variable} to a directory that this user can write" in done.stderr


@pytest.mark.parametrize("command", [("serve",), ("doctor",)])
@pytest.mark.parametrize(
    ("gpus", "device", "problem"),
    [
        (0, "cuda", "no GPUs here; use --device cpu, or is this torch a CUDA build?"),
        (0, "cuda:0", "no GPUs here; use --device cpu, or is this torch a CUDA build?"),
        (1, "cuda:1", "1 GPU here"),
    ],
)
def test_a_device_that_is_not_here_is_reported_with_the_reason(
    command: tuple[str, ...], gpus: int, device: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.process.hardware.visible_gpus", lambda: gpus)
    expected = 2, f"dragoman: device: {device} cannot be used: PyTorch finds {problem}\n"
    done = _run(*command, "--device", device)
    assert (done.exit_code, done.stderr) == expected
    monkeypatch.setenv("DRAGOMAN_DEVICE", device)
    done = _run("translate", "Yes.")
    assert (done.exit_code, done.stderr) == expected


@pytest.mark.parametrize("command", [("serve",), ("doctor", "--seconds", "0.1"), ("translate", "Yes.")])
def test_a_model_that_cannot_be_read_is_reported_with_the_reason(command: tuple[str, ...], tmp_path: Path) -> None:
    done = _run(*command, "--model", str(tmp_path))
    assert done.exit_code == 2
    assert done.stderr == f"dragoman: {tmp_path} is not a checkpoint: it has no config.json\n"
    done = _run(*command, "--model", str(tmp_path / "nothing"))
    assert (done.exit_code, done.stderr) == (2, f"dragoman: {tmp_path}/nothing: there is no such file or directory\n")


def test_options_win_over_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags of both kinds reach the settings; a wrong variable is named like a wrong option."""
    seen: list[Settings] = []

    def examine(settings: Settings, seconds: float) -> Report:
        seen.append(settings)
        return Report("", "", "", Processor("", 1, None), [], settings.model_dump(mode="json"), [])

    monkeypatch.setattr("service.cli.doctor.examine", examine)
    monkeypatch.setenv("DRAGOMAN_SLOTS", "7")
    monkeypatch.setenv("DRAGOMAN_THREADS", "2")
    assert _run("doctor", "--slots", "8", "--no-traces", "--cors-origins", "http://a, http://b").exit_code == 0
    assert _run("doctor", "--cors-origins", "http://a", "--cors-origins", "http://b").exit_code == 0
    settings, repeated = seen
    assert repeated.cors_origins == settings.cors_origins
    assert (settings.slots, settings.threads, settings.traces) == (8, 2, False)
    assert settings.cors_origins == ("http://a", "http://b")
    assert (settings.model, settings.models) == (None, EMBEDDED_MODELS)
    monkeypatch.setenv("DRAGOMAN_THREADS", "many")
    done = _run("doctor")
    assert done.exit_code == 2
    assert done.stderr.startswith("dragoman: threads: ")


def test_a_command_does_not_wait_for_what_others_import() -> None:
    names = "torch", "fastapi", "service.documents", "service.registry.registry", "model.training"
    program = f"import sys, service.cli.main; print([name for name in {names} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], check=True, text=True, capture_output=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "loaded"),
    [
        ((), ["en-fr"]),
        (("--target", "en"), ["fr-en"]),
        (("--target", "en-GB"), ["fr-en"]),
        (("--target", "de"), ["en-fr", "fr-en"]),  # whose languages the refusal lists
    ],
)
def test_translate_loads_the_embedded_model_that_it_needs(
    arguments: tuple[str, ...], loaded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def local_engine(settings: Settings, job: object) -> NoReturn:
        assert isinstance(settings.models, tuple)
        raise InvalidRequest("models", " ".join(path.name for path in settings.models if isinstance(path, Path)))

    monkeypatch.setattr("service.cli.translate.local_engine", local_engine)
    assert _run("translate", *arguments, "Yes.").stderr == f"dragoman: models: {' '.join(loaded)}\n"
