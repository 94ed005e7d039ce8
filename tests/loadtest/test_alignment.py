"""Where attention points is counted in words that are spelled alike."""

from pathlib import Path

import typer
from typer.testing import CliRunner

from loadtest import alignment
from loadtest.alignment import alike_tokens
from model.training.evaluate import load_translator
from service.settings import EMBEDDED_MODEL


def _run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(alignment.main)
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


def test_only_words_that_come_once_in_both_count() -> None:
    translator = load_translator(EMBEDDED_MODEL)
    sentence, text = "Paris and Toronto and 1984 or Toronto.", "Paris et Toronto et 1984 ou"
    pieces = [translator.tokenizer.decode([i]) for i in translator.tokenizer.encode_target(text)]
    found = alike_tokens(translator, sentence, text)
    assert "".join(pieces[token] for token, _ in sorted(found)).replace(" ", "") == "Paris1984"
    spans = translator.tokenizer.spans(sentence, "fr", "en")
    for token, source in found:
        word = "".join(sentence[slice(*span)] for number in sorted(source) if (span := spans[number]))
        assert pieces[token].strip() in word
        assert word.strip() in ("Paris", "1984")


def test_the_embedded_model_points_to_its_words(tmp_path: Path) -> None:
    file = tmp_path / "names"
    file.write_text("Tom lives in Boston.\nMary has seen Toronto in 1984.\nI am a cat.\n")
    status, output = _run(str(file), "--count", "3")
    assert status == 0
    rows = [line.split() for line in output.splitlines() if line.startswith("│ ")]
    assert len(rows) == 2
    assert float(rows[1][3].rstrip("%")) > 60  # the layer that the server shows


def test_without_such_words_there_is_nothing_to_count(tmp_path: Path) -> None:
    file = tmp_path / "cats"
    file.write_text("I am a cat.\n")
    assert _run(str(file), "--count", "1")[0] == 2
    assert "200 are needed" in _run(str(file), "--count", "200")[1]
