"""The server that a newcomer starts: both embedded models, and what holds if one of them is damaged."""

import shutil
from pathlib import Path

import httpx
import pytest

from model.checkpoint_config import load_config
from service.settings import EMBEDDED_MODELS, Settings
from tests.conftest import forget_sums
from tests.system.commands import dragoman
from tests.system.conftest import Server, StartServer, shared_server
from tests.system.models import relabel_embedded_model

both = shared_server("--models", ",".join(map(str, EMBEDDED_MODELS)))


def _translated(server: Server, **fields: object) -> dict[str, object]:
    answer = httpx.post(f"{server.url}/translate", json=fields, timeout=60)
    found: dict[str, object] = answer.json()
    return found


def test_a_server_without_settings_has_both_models() -> None:
    assert (Settings().model, Settings().models) == (None, EMBEDDED_MODELS)


def test_both_directions(both: Server) -> None:
    there = _translated(both, q=["I see a cat.", "Où est la gare ?"], source="auto", target="fr")
    back = _translated(both, q=["I see a cat.", "Où est la gare ?"], source="auto", target="en")
    assert there["translatedText"] == ["Je vois un chat.", "Où est la gare ?"]
    assert back["translatedText"] == ["I see a cat.", "Where is the station?"]
    listed = httpx.get(f"{both.url}/languages").json()
    assert {each["code"]: each["targets"] for each in listed} == {"en": ["en", "fr"], "fr": ["en", "fr"]}


@pytest.mark.parametrize(
    ("source", "text", "target", "expected"),
    [
        ("fr", "« %s » n'est pas un nombre.", "en", '"%s" is not a number.'),
        ("fr", "Écrivez à « aide@example.org ».", "en", 'Write to "aide@example.org".'),
        ("en", '"%s" is not a number.', "fr", "« %s » n'est pas un nombre."),
        ("en", "Delete “{0}”?", "fr", "Supprimer « {0} » ?"),
    ],
)
def test_quotes_around_what_is_copied(both: Server, source: str, text: str, target: str, expected: str) -> None:
    """French writes spaces within its quotation marks, English none."""
    assert _translated(both, q=text, source=source, target=target)["translatedText"] == expected


@pytest.mark.parametrize(
    ("source", "text", "target", "expected"),
    [
        ("en", "WHAT???", "fr", "QUOI ???"),
        ("fr", "Pourquoi ???", "en", "Why???"),
        (
            "en",
            r"Delete this file?\nThis cannot be undone.",
            "fr",
            r"Supprimer ce fichier ?\nCela ne peut pas être annulé.",
        ),
        ("en", "{0} <{1}> wrote:", "fr", "{0} <{1}> écrit :"),
        ("en", "%s (%s) replied:", "fr", "%s (%s) a répondu :"),
        ("en", "So funny 😂", "fr", "Si drôle 😂"),
    ],
)
def test_signs_that_a_model_would_multiply_or_move(
    both: Server, source: str, text: str, target: str, expected: str
) -> None:
    assert _translated(both, q=text, source=source, target=target)["translatedText"] == expected


def test_a_term_that_ends_with_a_sign_is_written_once(both: Server) -> None:
    found = _translated(both, q="I like C++.", source="en", target="fr", glossary={"C++": "C plus plus"})
    assert found["translatedText"] == "J'aime C plus plus."


def test_sentences_are_cut_where_the_models_begin_to_lose_words() -> None:
    """They have read few that are longer."""
    assert [load_config(path).max_sentence_tokens for path in EMBEDDED_MODELS] == [64, 64]


def test_a_quotation_may_begin_in_the_target_prefix(both: Server) -> None:
    asked = {"q": "Il a dit « va » et il est parti.", "source": "fr", "target": "en"}
    found = _translated(both, **asked, target_prefix='He said "go')
    assert 'He said "go" ' in str(found["translatedText"])


def test_html_into_english(both: Server) -> None:
    found = _translated(
        both, q="<p>Cliquez sur le bouton <b>Enregistrer</b>.</p>", source="fr", target="en", format="html"
    )
    assert found["translatedText"] == "<p>Click the <b>Save</b> button.</p>"


def test_a_language_that_neither_knows_is_named(both: Server) -> None:
    text = "Der Zug nach Hamburg fährt heute nicht, weil es zu viel geschneit hat."
    found = _translated(both, q=text, source="auto", target="en")
    assert found["error"] == "source: the text is in de, which cannot be translated into en"


def test_damaged_models_do_not_stop_another(start_server: StartServer, tmp_path: Path) -> None:
    for each in EMBEDDED_MODELS:
        shutil.copytree(each, tmp_path / each.name)
    weights = tmp_path / "fr-en" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    relabel_embedded_model(tmp_path / "en-it", "en-it")
    forget_sums(tmp_path / "en-it")
    (tmp_path / "en-it" / "tokenizer.model").unlink()
    (tmp_path / "en-it" / "tokenizer.model").write_bytes(b"no tokenizer")
    with start_server("--models", ",".join(str(tmp_path / each) for each in ("en-fr", "fr-en", "en-it"))) as server:
        assert server.translated("I see a cat.", "en", "fr") == {"translatedText": "Je vois un chat."}
        assert server.ask("Bonjour", "fr", "en").status_code == 503
        assert server.ask("I see a cat.", "en", "it").status_code == 400, "without a tokenizer it has no directions"
        reasons = {each["name"]: each.get("reason") for each in httpx.get(f"{server.url}/models").json()}
        assert "fr-en" in reasons["fr-en"]
        assert "en-it" in reasons["en-it"]


def test_the_command_line_finds_the_direction() -> None:
    done = dragoman("translate", "--target", "en", "Où est la gare ?")
    assert (done.returncode, done.stdout) == (0, "Where is the station?\n"), done.stderr
