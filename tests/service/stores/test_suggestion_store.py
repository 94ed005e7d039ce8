"""Suggestions: a line of JSON each, in a file of its owner, and a clear error where there is no room."""

import json
import stat
from pathlib import Path

import pytest

from service.errors import InsufficientStorage, SuggestionsDisabled
from service.stores import suggestion_store
from service.stores.suggestion_store import Suggestion, SuggestionStore

CAT = Suggestion("I see a\ncat.", "Je vois une chatte.", "en", "fr")


def test_suggestions_are_appended(tmp_path: Path) -> None:
    file = tmp_path / "suggestions.jsonl"
    first, second = SuggestionStore(file), SuggestionStore(file)
    assert first.is_enabled
    first.add(CAT)
    second.add(CAT)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [{name: line[name] for name in ("q", "s", "source", "target")} for line in lines] == 2 * [
        {"q": "I see a\ncat.", "s": "Je vois une chatte.", "source": "en", "target": "fr"}
    ]
    assert all(line["sent_at"].endswith("Z") for line in lines)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_a_file_none_are_taken() -> None:
    store = SuggestionStore(None)
    assert not store.is_enabled
    with pytest.raises(SuggestionsDisabled):
        store.add(CAT)


def test_a_full_file_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "suggestions.jsonl"
    store = SuggestionStore(file)
    store.add(CAT)
    size = file.stat().st_size
    monkeypatch.setattr(suggestion_store, "MOST_BYTES", size)
    with pytest.raises(InsufficientStorage, match=rf"^suggestions: the server's file has {size} bytes, the limit$"):
        store.add(CAT)
    assert file.stat().st_size == size


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        SuggestionStore(tmp_path / "missing" / "file")
    store = SuggestionStore(tmp_path / "file")
    (tmp_path / "file").unlink()
    (tmp_path / "file").mkdir()
    with pytest.raises(InsufficientStorage, match=r"^suggestions: the server's disk is full"):
        store.add(CAT)
