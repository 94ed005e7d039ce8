"""Sentences end where the splitter says, and a splitter that fails splits no worse than at full stops."""

from itertools import accumulate

import pytest

from service.text.sentences import sentence_ends
from tests.panics import PanicException


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u202f", "\u3000", "\u1680", "\u2028"])
@pytest.mark.parametrize("language", ["en", "fr", "ru", "zh", "de"])
def test_a_capital_a_wide_space_and_a_full_stop(space: str, language: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = f"I take vitamin B{space}. I take it daily. Grade É{space}."
    assert list(sentence_ends(text, language))[-1] == len(text)
    assert "panicked" not in capfd.readouterr().err


def test_a_panic_of_the_splitter_is_not_one_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def panics(language: str, text: str) -> list[str]:
        raise PanicException("not a char boundary")

    monkeypatch.setattr("service.text.sentences.split_sentences", panics)
    sentences = ["A cat.  ", "No? ", "Yes"]
    assert list(sentence_ends("".join(sentences), "en")) == list(accumulate(map(len, sentences)))


def test_the_end_of_the_process_is_not_taken_for_a_panic(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(language: str, text: str) -> list[str]:
        raise SystemExit

    monkeypatch.setattr("service.text.sentences.split_sentences", ends)
    with pytest.raises(SystemExit):
        list(sentence_ends("A cat.", "en"))
