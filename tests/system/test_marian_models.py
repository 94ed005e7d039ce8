"""A server of Marian's own files, as Firefox has them: imported once, streamed, and looked into."""

import shutil
from pathlib import Path
from typing import Any

import httpx
import httpx_sse
import pytest
import sentencepiece

from tests.model.formats.marian_models import MarianModel, sentencepiece_model, size_of
from tests.model.formats.marian_shortlists import FIRST, shortlist_file
from tests.system.caches import make_cache
from tests.system.commands import dragoman
from tests.system.conftest import Server, StartServer

MODEL = "model.enpt.intgemm.alphas.bin"


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One model, and one whose file is cut; an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(make_cache(tmp_path / "cache")))
    vocabulary = sentencepiece_model(120)
    for name in ("tiny", "cut"):
        directory = tmp_path / "models" / name
        directory.mkdir(parents=True)
        MarianModel(size_of(vocabulary), size_of(vocabulary)).write_binary(directory / MODEL, quantised=True)
        (directory / "vocab.enpt.spm").write_bytes(vocabulary)
    content = (tmp_path / "models" / "cut" / MODEL).read_bytes()
    (tmp_path / "models" / "cut" / MODEL).write_bytes(content[:-100])
    return tmp_path / "models"


def _events(server: Server, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    body = {"q": "the cat sat on the mat", "source": "en", "target": "pt", "stream": True, "max_new_tokens": 12}
    with (
        httpx.Client(timeout=60.0) as client,
        httpx_sse.connect_sse(client, "POST", f"{server.url}/translate", json={**body, **options}) as source,
    ):
        return [(event.event, event.json()) for event in source.iter_sse()]


def test_a_model_is_served_from_its_files_and_writes_no_word_that_its_shortlist_lacks(
    models: Path, start_server: StartServer
) -> None:
    size = size_of((models / "tiny" / "vocab.enpt.spm").read_bytes())
    shutil.copytree(models / "tiny", models / "without")  # named after the other, which so has the direction
    (models / "tiny" / "lex.50.50.enpt.s2t.bin").write_bytes(shortlist_file([[]] * size))
    with start_server("--models", str(models), "--shortlist") as server:
        events = _events(server, attention=True, self_attention=True)
        tokens = [data for kind, data in events if kind == "token"]
        assert events[-1][0] == "done", events
        assert tokens, events
        assert all(token["self_attention"] == [] for token in tokens), "there is none to show"
        assert all(sum(token["attention"]) == pytest.approx(1, abs=0.01) for token in tokens)
        assert "".join(token["text"] for token in tokens) == events[-1][1]["translatedText"]
        assert _events(server, beam_size=3)[-1][0] == "done"
        listed = {each["name"]: each for each in httpx.get(f"{server.url}/models").json()}
        assert "ends too early" in listed["cut"]["reason"]
        assert (listed["tiny"]["shortlist"], listed["without"]["shortlist"]) == (True, False)
        assert "self_attention" not in _events(server)[1][1]
        every = [data for kind, data in _events(server, top_candidates=5) if kind == "token"]
    # The first words, the end and the source's own; the unknown word and the beginning are never written.
    own = sentencepiece.SentencePieceProcessor(model_proto=(models / "tiny" / "vocab.enpt.spm").read_bytes())
    words = {*range(FIRST), *own.encode("the cat sat on the mat")}
    texts = {own.id_to_piece(word).replace("\u2581", " ").strip() for word in words}
    candidates = {each["text"].strip() for token in every for each in token["candidates"]}
    assert len(candidates) > 2
    assert candidates <= {*texts, ""}


def test_a_model_that_has_no_shortlist_to_use(models: Path) -> None:
    """One line that names the model and the setting."""
    ended = dragoman("serve", "--model", str(models / "tiny"), "--port", "0", "--shortlist")
    assert ended.returncode != 0
    [line] = [line for line in ended.stderr.splitlines() if "shortlist" in line]
    assert line.startswith("dragoman: ")
    assert "shortlist: the model has none" in line
