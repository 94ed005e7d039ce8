"""Translation memories: what is found, how it is adjusted, whose it is, and files that change."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.documents.units import UnitReport, read_units
from service.errors import InvalidRequest
from service.stores.translation_memory import Memory, TranslationMemory, Unit
from service.text.segment import Mark, Segment

UNITS = [
    {"en": "Click <b>Save</b> now.", "fr": "Maintenant, <b>Enregistrer</b>."},
    {"en": "Delete {name} in %s?", "fr": "Dans %s, supprimer {name} ?"},
    {"en": "Good & new", "fr": "Bon & neuf"},
    {"en": "Send {a} to {a}", "fr": "Envoyer {a}"},
]


def _found(sentence: str, **fields: object) -> str | None:
    return Memory(UNITS).translation(Segment("", sentence, "")._replace(**fields), "en", "fr")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Good & new", "Bon & neuf"),
        ("Good  &\nnew", "Bon & neuf"),
        ("good & new", None),
        ("Click Save now.", "Maintenant, Enregistrer."),
        ("Click <i>Save</i> now.", "Maintenant, <i>Enregistrer</i>."),
        ("<i>Click Save now.</i>", "<i>Maintenant, Enregistrer.</i>"),
        ("Click Save <i>now</i>.", None),
        ("Delete {user} in %d?", "Dans %d, supprimer {user} ?"),
        ("Send {a} to {a}", "Envoyer {a}"),
        ("Send {b} to {c}", None),
        ("Send {b} to {b}", None),
    ],
)
def test_tags_and_placeholders_are_those_of_the_sentence(sentence: str, expected: str | None) -> None:
    assert _found(sentence) == expected


def test_html_has_its_own_tags_and_references() -> None:
    inner = [Mark(6, 10, '<a href="x">', "</a>")]
    assert _found("Click Save now.", marks=inner, encoding="html") == 'Maintenant, <a href="x">Enregistrer</a>.'
    assert _found("Good & new", encoding="html") == "Bon &amp; neuf"
    assert _found("Good & new", marks=[Mark(0, 4, "<b>", "</b>")], encoding="html") is None


def test_near_matches_come_with_their_score() -> None:
    memory = Memory(UNITS)
    [match] = memory.matches(Segment("", "Click Save nowt.", ""), "en", "fr")
    assert (match.source, match.target) == (UNITS[0]["en"], UNITS[0]["fr"])
    assert 90 < match.score < 100
    assert not memory.matches(Segment("", "Something else entirely.", ""), "en", "fr")
    assert not memory.matches(Segment("", "Click Save now.", ""), "en", "de")


def _read(path: Path) -> Iterator[Unit]:
    return read_units(path, UnitReport())


def test_a_key_has_a_memory_of_its_own(tmp_path: Path) -> None:
    shared, own = tmp_path / "a.en-fr.tsv", tmp_path / "b.en-fr.tsv"
    shared.write_text("A cat\tUn chat\nA dog\tUn chien\n")
    own.write_text("A cat\tUn matou\n")
    memory = TranslationMemory({"": [shared], "0123abcd": [own]}, _read)
    memory.load()
    cat, dog = Segment("", "A cat", ""), Segment("", "A dog", "")
    found = [memory.translation(caller, "en", "fr-CA", cat) for caller in ("key:0123abcd", "key:ffffffff", "address:0")]
    assert found == ["Un matou", "Un chat", "Un chat"]
    assert memory.translation("key:0123abcd", "en-GB", "fr", dog) == "Un chien"
    assert [each.target for each in memory.matches("key:0123abcd", "en", "fr", cat)] == ["Un matou", "Un chat"]
    assert not TranslationMemory({"0123abcd": [own]}, _read).has("address:0")


def test_a_changed_file_is_read_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.en-fr.tsv"
    with pytest.raises(FileNotFoundError):
        TranslationMemory({"": [file]}, _read).load()
    file.write_text("A cat\tUn chat\n")
    memory = TranslationMemory({"": [file]}, _read)
    memory.load()
    cat = Segment("", "A cat", "")

    def after(content: bytes, looks: int) -> str | None:
        file.write_bytes(content)
        for _ in range(looks):
            memory.reload()
        return memory.translation("", "en", "fr", cat)

    assert after(b"A cat\tUn matou\n", looks=1) == "Un chat"  # it may still be written
    assert after(b"A cat\tUn matou\n", looks=2) == "Un matou"
    assert after(b"A cat\t\xff\n", looks=3) == "Un matou"
    assert after(b"A cat\tUne chatte\n", looks=2) == "Une chatte"
    file.write_bytes(b"\xff")
    with pytest.raises(InvalidRequest):
        TranslationMemory({"": [file]}, _read).load()
