"""Which sentences and terms the measurement of glossaries takes, and what it counts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadtest import glossary
from loadtest.glossary import app

TEST = "The cat eats.\tLe chat mange.\nMy cat eats a tart.\tMon félin mange une tarte.\nYou eat the pie.\tTu manges.\n"
DICTIONARY = "cat\tchat\neats\tmange\ntart\ttarte\npie\ttarte\n"


def test_terms_are_nouns_that_the_reference_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test.tsv").write_text(TEST)
    (tmp_path / "dictionary.tsv").write_text(DICTIONARY)
    asked: list[glossary.Line] = []

    async def both(server: object, lines: list[glossary.Line], body: object) -> tuple[list[str], list[str]]:
        asked.extend(sorted(lines))
        without = {"The cat eats.": "Le félin mange.", "My cat eats a tart.": "Mon chat mange une tarte."}
        return [without[line.source] for line in lines], [line.reference for line in lines]

    monkeypatch.setattr(glossary, "_both", both)
    monkeypatch.setattr(glossary, "run_server", lambda flags: memoryview(b""))  # a context that does nothing
    done = CliRunner().invoke(app, [str(tmp_path / "test.tsv"), str(tmp_path / "dictionary.tsv"), "--examples", "3"])
    assert [line.entries for line in asked] == [{"tart": "tarte"}, {"cat": "chat"}]
    rows = [line.split(" | ") for line in done.output.splitlines() if "%" in line]
    assert [row[:3] for row in rows] == [
        ["| all with a term: 2", "without", "1 of 2 (50.0 %)"],
        ["| all with a term: 2", "with", "2 of 2 (100.0 %)"],
        ["| where the model missed one: 1", "without", "0 of 1 (0.0 %)"],
        ["| where the model missed one: 1", "with", "1 of 1 (100.0 %)"],
    ]
    assert rows[1][3:5] == ["0", "100.0"]
    assert "{'cat': 'chat'}\nLe félin mange.\nLe chat mange." in done.output


@pytest.mark.parametrize(
    ("translation", "expected"),
    [("Le chat. Il dort.", 0), ("Il dort. chat.", 1), ("« Il dort » Chat", 1), ("Un chat.", 0)],
)
def test_terms_that_found_no_place_are_counted(translation: str, expected: int) -> None:
    line = glossary.Line("", "", {"cat": "chat", "dog": "chien"})
    assert glossary._behind_the_end(line, translation) == expected
