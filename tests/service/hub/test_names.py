"""Names of public models, and paths."""

from pathlib import Path

import pytest

from service.hub.names import HubName, hidden_name, parse_model, parse_models, parse_name

OPUS = HubName("hf", "Helsinki-NLP/opus-mt-en-de")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Helsinki-NLP/opus-mt-en-de", OPUS),
        ("hf:Helsinki-NLP/opus-mt-en-de", OPUS),
        ("Helsinki-NLP/opus-mt-en-de@v1.0", HubName("hf", "Helsinki-NLP/opus-mt-en-de", "v1.0")),
        ("hf:a/b@refs/pr/1", HubName("hf", "a/b", "refs/pr/1")),
        ("argos:en-de", HubName("argos", "en-de")),
        ("argos:en-de@1.9", HubName("argos", "en-de", "1.9")),
        ("firefox:en-zh-Hans@base-memory", HubName("firefox", "en-zh-Hans", "base-memory")),
    ],
)
def test_names(text: str, expected: HubName) -> None:
    assert parse_model(text) == expected
    assert parse_name(text) == expected
    assert parse_name(str(expected)) == expected


@pytest.mark.parametrize(
    "text", ["model", "./a/b", "../b", "/a/b", "a/b/c", "a/b.argosmodel", "C:en-de", "http://a/b", ""]
)
def test_paths(text: str) -> None:
    assert parse_model(text) == Path(text)


@pytest.mark.parametrize(
    "text", ["argos:en", "firefox:", "hf:a", "argos:en-de@", "hf:../b", "firefox:EN-DE", "hf:a/b@-x"]
)
def test_a_wrong_name_is_an_error_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=f"the name of a model; names look like {text.partition(':')[0]}:"):
        parse_model(text)


def test_a_path_on_disk_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_model("models/en-de") == HubName("hf", "models/en-de")
    (tmp_path / "models" / "en-de").mkdir(parents=True)
    (tmp_path / "argos:en-de").touch()
    assert parse_model("models/en-de") == Path("models/en-de")
    assert parse_model("hf:models/en-de") == HubName("hf", "models/en-de")
    assert parse_model("argos:en-de") == Path("argos:en-de")


def test_a_name_that_is_a_path_too_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "en-de").mkdir(parents=True)
    assert hidden_name(Path("models/en-de")) == HubName("hf", "models/en-de")
    assert hidden_name(tmp_path / "models" / "en-de") is None
    assert hidden_name(Path("models")) is None
    assert hidden_name(Path("models/none")) is None


def test_lists_of_models(tmp_path: Path) -> None:
    both = (HubName("argos", "en-de"), OPUS)
    assert parse_models("argos:en-de, Helsinki-NLP/opus-mt-en-de,") == both
    assert parse_models("argos:en-de") == both[:1]
    listed = tmp_path / "models.txt"
    listed.write_text(f"# ours\n\nargos:en-de\n  hf:{OPUS.model}\n")
    assert parse_models(str(listed)) == both
    package = tmp_path / "a.argosmodel"
    package.touch()
    assert parse_models(f"{package},argos:en-de") == (package, both[0])


def test_directories_are_no_lists(tmp_path: Path) -> None:
    assert parse_models(str(tmp_path)) == tmp_path
    assert parse_models(str(tmp_path / "none")) == tmp_path / "none"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# nothing\n", "names no model"),
        (b"argos:en-de\nargos:en-de\n", "argos:en-de: named twice"),
        (b"\xff", "cannot be read as a list of models"),
        (b"argos:en\n", "'argos:en' is not the name of a model"),
    ],
)
def test_a_list_that_is_none(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        parse_models(str(tmp_path / "list"))


def test_a_text_too_long_for_a_file(tmp_path: Path) -> None:
    assert parse_model("x" * 5000) == Path("x" * 5000)
