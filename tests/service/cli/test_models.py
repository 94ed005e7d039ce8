"""`dragoman pull | models | remove | import` with public names, against small servers."""

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from model.checkpoint_config import LanguageHint, load_config
from model.tokenizer import Tokenizer
from service.cli import pulling
from service.cli.main import app
from tests.service.hub.servers import FileServer, argos_entry, file_server, publish_firefox
from tests.system.models import write_model


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture(autouse=True)
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tokenizer: Tokenizer) -> Iterator[FileServer]:
    """Argos' index with two packages; the importer makes a small model of each."""

    def imported(path: Path, max_megabytes: int, *, languages: LanguageHint) -> Path:
        made = tmp_path / "made"
        write_model(made, tokenizer, path.read_text())
        return made

    monkeypatch.setattr(pulling, "ensure_imported", imported)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with file_server() as server:
        entries = [argos_entry(*pair, "1.9", f"{server.url}/{'-'.join(pair)}") for pair in (("en", "de"), ("de", "en"))]
        monkeypatch.setenv("DRAGOMAN_ARGOS_INDEX", server.put_json("/index.json", entries))
        server.put("/en-de", b"en-de")
        server.put("/de-en", b"de-en")
        yield server


def test_a_model_is_pulled_listed_and_removed() -> None:
    done = _run("pull", "argos:en-de", "argos:de-en@1.9")
    assert done.exit_code == 0
    assert [line.partition(": ")[0] for line in done.stdout.splitlines()] == ["argos:en-de", "argos:de-en@1.9"]
    path = Path(done.stdout.splitlines()[0].partition(": ")[2])
    assert str(load_config(path).directions[0]) == "en-de"

    heading, *rows = _run("models").stdout.splitlines()
    assert heading.split() == ["NAME", "REVISION", "DIRECTIONS", "MB", "LICENCE", "SOURCE"]
    assert [row.split()[:3] for row in rows] == [["argos:de-en", "1.9", "de-en"], ["argos:en-de", "1.9", "en-de"]]
    assert all("not stated" in row and "http://127.0.0.1" in row for row in rows)
    [row] = json.loads(_run("models", "--from", "en", "--to", "de", "--json").stdout)
    assert (row["name"], row["path"], row["directions"]) == ("argos:en-de", str(path), [["en", "de"]])

    done = _run("remove", "argos:en-de")
    assert (done.exit_code, done.stdout.partition(", ")[0]) == (0, "argos:en-de@1.9: removed")
    assert not path.exists()
    assert "argos:en-de" not in _run("models").stdout


def test_a_model_that_cannot_be_removed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    _run("pull", "argos:en-de")
    monkeypatch.setattr("service.hub.store.Store.remove", refuse)
    done = _run("remove", "argos:en-de")
    assert (done.exit_code, done.stderr) == (2, "dragoman: argos:en-de: [Errno 13] Permission denied\n")


def test_what_can_be_had_is_listed(index: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [line.split()[0] for line in _run("models", "--available", "argos").stdout.splitlines()[1:]]
    assert names == ["argos:de-en", "argos:en-de"]
    assert len(_run("models", "--available", "argos", "--to", "de").stdout.splitlines()) == 2
    done = _run("models", "--available", "argos", "--from", "xx")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "the index has no such model" in done.stderr
    monkeypatch.setenv("DRAGOMAN_FIREFOX_INDEX", publish_firefox(index, []))
    done = _run("models", "--available", "firefox")
    assert (done.exit_code, done.stdout) == (0, "")


def test_nothing_is_here_at_first() -> None:
    done = _run("models")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "no public model is here; `dragoman models --available firefox` lists what can be pulled\n"


def test_each_name_that_cannot_be_had_is_one_line_and_the_others_are_pulled() -> None:
    done = _run("pull", "argos:xx-yy", "argos:en-de", "argos:en-de@7")
    assert done.exit_code == 2
    assert done.stdout.startswith("argos:en-de: ")
    assert done.stderr.splitlines() == [
        "dragoman: argos:xx-yy: Argos' index has no such direction; `dragoman models --available argos` lists all",
        "dragoman: argos:en-de@7: Argos' index has no such version, but 1.9",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pull", "en-de"), "'en-de' is not the name of a model; names look like hf:"),
        (("remove", "firefox:en"), "'firefox:en' is not the name of a model; names look like firefox:en-de"),
        (
            ("remove", "argos:en-de", "argos:de-en"),
            "argos:en-de, argos:de-en: not here; `dragoman models` lists what is",
        ),
        (("pull", "--offline", "argos:en-de"), "argos:en-de: is not here, and offline nothing is downloaded"),
        (("models", "--available", "argos", "--offline"), "the index of argos is not read offline"),
        (("translate", "--model", "argos:xx-yy", "a"), "argos:xx-yy: Argos' index has no such direction"),
        (("translate", "--model", "argos:", "a"), "model: 'argos:' is not the name of a model"),
        (("import", "argos:xx-yy", "--output", "out"), "argos:xx-yy: Argos' index has no such direction"),
        (("evaluate", "x.tsv", "--model", "argos:xx-yy"), "argos:xx-yy: Argos' index has no such direction"),
        (("serve", "--models", "argos:en-de,argos:en-de"), "models: argos:en-de: named twice"),
        (("serve", "--model", "firefox:"), "model: 'firefox:' is not the name of a model"),
    ],
)
def test_an_error_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = _run(*arguments)
    assert done.exit_code == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"dragoman: {message}")


def test_lines_of_json_report_progress_and_the_end() -> None:
    done = _run("pull", "--json", "argos:en-de", "argos:xx-yy")
    *progress, path, error = map(json.loads, done.stdout.splitlines())
    assert progress[0]["step"] == "downloading"
    assert progress[-1]["step"] == "importing"
    assert Path(path["path"]).is_dir()
    assert error["name"] == "argos:xx-yy"
    assert "no such direction" in error["error"]
    assert "temporary" not in error


def test_if_missing_asks_no_index(index: FileServer) -> None:
    first = _run("pull", "argos:en-de").stdout
    index.requests.clear()
    assert _run("pull", "--if-missing", "argos:en-de").stdout == first
    assert not index.requests


def test_a_name_is_imported_into_a_directory(tmp_path: Path) -> None:
    done = _run("import", "argos:en-de", "--output", str(tmp_path / "out"))
    assert done.exit_code == 0, done.stderr
    origin = load_config(tmp_path / "out").origin
    assert origin is not None
    assert origin.name == "argos:en-de"
    assert not list(tmp_path.glob("made"))


def test_an_import_has_memory_for_the_size_of_its_files() -> None:
    pulling.confine(None)
    pulling.confine_memory(10 << 30)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    assert soft == 44 << 30 or hard != resource.RLIM_INFINITY


def test_a_path_that_is_a_name_too_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme" / "en-de").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    done = _run("import", "acme/en-de", "--output", "out")
    assert "acme/en-de is the directory here; hf:acme/en-de is the public model" in done.stderr
