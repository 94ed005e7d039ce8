"""`dragoman memory export`: files of several formats become one TMX."""

from pathlib import Path

from typer.testing import CliRunner

from service.cli.main import app
from service.documents.units import UnitReport, read_units


def test_memories_become_one(tmp_path: Path) -> None:
    table, suggested, output = tmp_path / "a.en-fr.tsv", tmp_path / "s.jsonl", tmp_path / "all.tmx"
    table.write_text("A <b>cat</b> & {name}\tUn <b>chat</b> & {name}\nOK\tOK\n")
    suggested.write_text('{"q": "A dog", "s": "Un chien", "source": "en", "target": "fr"}\n' * 2)

    def export(*options: str) -> tuple[int, str]:
        command = ["memory", "export", str(table), str(suggested), "-o", str(output), *options]
        done = CliRunner().invoke(app, command)
        return done.exit_code, done.output

    status, printed = export()
    assert status == 0
    assert printed.splitlines() == [
        "2 units",
        "1 left out: not translated: equal in all languages",
        "1 left out: written already",
    ]
    assert [*read_units(output, UnitReport())] == [
        {"en": "A <b>cat</b> & {name}", "fr": "Un <b>chat</b> & {name}"},
        {"en": "A dog", "fr": "Un chien"},
    ]
    whole = output.read_bytes()
    assert export()[0] == 2
    table.write_bytes(b"\xff")
    status, printed = export("--force")
    assert (status, "a.en-fr.tsv: " in printed) == (2, True)
    assert output.read_bytes() == whole
    assert not [*tmp_path.glob("*.part")]
