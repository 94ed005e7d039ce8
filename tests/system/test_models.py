"""Several models behind one door."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from model.tokenizer import Tokenizer
from service.settings import EMBEDDED_MODEL
from tests.system.conftest import Server, StartServer, run_server
from tests.system.models import relabel_embedded_model, write_model


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Iterator[Server]:
    """The embedded model, two of German, of which the second is not asked for one direction, and a broken one."""
    directory = tmp_path_factory.mktemp("models")
    (directory / "en-fr").symlink_to(EMBEDDED_MODEL)
    write_model(directory / "a-german", tokenizer, "de-en", seed=1)
    write_model(directory / "b-german", tokenizer, "de-en", "en-de", seed=2)
    relabel_embedded_model(directory / "chinese", "en-zh-Hant")
    (directory / "broken").mkdir()
    (directory / "README.md").write_text("no model")
    with run_server(tmp_path_factory.mktemp("server") / "log", "--models", str(directory)) as server:
        yield server


def test_each_direction_goes_to_its_model(served: Server, server: Server) -> None:
    text = "The cat sat on the mat."
    assert served.translated(text, "en", "fr") == server.translated(text, "en", "fr")
    assert served.metric("dragoman_generated_tokens_total", 'model="a-german"') > 0  # the probe at its start


def test_of_two_models_the_first_by_name_has_a_direction(served: Server) -> None:
    [warning] = [line for line in served.log.read_text().splitlines() if "not used for all directions" in line]
    assert '"model": "b-german", "reason": "1 of its directions' in warning

    def written() -> list[float]:
        return [served.metric("dragoman_generated_tokens_total", f'model="{name}-german"') for name in "ab"]

    before = written()
    served.translated("die Katze", "de", "en", max_new_tokens=5)
    assert [after - earlier for after, earlier in zip(written(), before, strict=True)] == [5, 0]
    served.translated("the cat", "en", "de", max_new_tokens=4)
    assert [after - earlier for after, earlier in zip(written(), before, strict=True)] == [5, 4]


def test_all_languages_are_listed(served: Server) -> None:
    listed = httpx.get(f"{served.url}/languages").json()
    assert {each["code"]: each["targets"] for each in listed} == {
        "de": ["de", "en", "fr", "zh-Hant"],
        "en": ["de", "en", "fr", "zh-Hant"],
        "fr": ["fr"],
        "zh-Hant": ["zh-Hant"],
    }
    sources = httpx.get(f"{served.url}/v2/languages", params={"type": "source"}).json()
    assert [each["language"] for each in sources] == ["DE", "EN"]
    assert httpx.get(f"{served.url}/frontend/settings").json()["language"]["source"]["code"] == "auto"


def test_a_language_in_a_script_has_its_name(served: Server) -> None:
    languages = httpx.get(f"{served.url}/languages").json()
    assert {"code": "zh-Hant", "name": "Chinese (Traditional)", "targets": ["zh-Hant"]} in languages
    targets = httpx.get(f"{served.url}/v2/languages", params={"type": "target"}).json()
    names = {each["language"]: each["name"] for each in targets}
    assert names["ZH-HANT"] == "Chinese (Traditional)"


def test_texts_of_one_request_go_to_different_models(served: Server) -> None:
    texts = ["Where is the station?", "Wo ist der Bahnhof?"]
    answer = served.translated(texts, "auto", "en", max_new_tokens=5)
    assert [each["language"] for each in answer["detectedLanguage"]] == ["en", "de"]
    german = served.translated(texts[1], "de", "en", max_new_tokens=5)["translatedText"]
    assert answer["translatedText"] == [texts[0], german]
    answer = served.translated(texts[0], "auto", "fr")
    assert answer["detectedLanguage"]["language"] == "en"
    assert "pivot" not in answer


def test_what_a_model_cannot_do_is_refused_by_its_limits(served: Server) -> None:
    body = {"q": "die Katze", "source": "de", "target": "en", "max_new_tokens": 97}
    answer = httpx.post(f"{served.url}/translate", json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, "max_new_tokens: the limit is 96")
    assert "dans" in served.translated("We live in a house.", "en", "fr", max_new_tokens=97)["translatedText"]


def test_each_model_says_how_it_is(served: Server) -> None:
    models = {each["name"]: each for each in httpx.get(f"{served.url}/models").json()}
    assert {name: each["state"] for name, each in models.items()} == {
        "a-german": "ready",
        "b-german": "ready",
        "broken": "failed",
        "chinese": "ready",
        "en-fr": "ready",
    }
    assert models["b-german"]["directions"] == ["de-en", "en-de"]
    assert "it has no config.json" in models["broken"]["reason"]


def test_what_is_no_model_is_named_in_the_log(served: Server) -> None:
    assert '"message": "ignored entries, which are no models: README.md"' in served.log.read_text()


def test_without_any_usable_model_there_is_no_start(start_server: StartServer, tmp_path: Path) -> None:
    directory = tmp_path / "models"
    (directory / "broken").mkdir(parents=True)
    with start_server("--models", str(directory), ready=False) as server:
        assert server.process.wait(60) == 2
        assert "it has no config.json" in server.log.read_text()


@pytest.mark.parametrize("made", [pytest.param(False, marks=pytest.mark.slow), True])
def test_without_any_entry_there_is_no_start(start_server: StartServer, tmp_path: Path, made: bool) -> None:
    directory = tmp_path / "models"
    if made:
        directory.mkdir()
    with start_server("--models", str(directory), ready=False) as server:
        assert server.process.wait(60) == 2
        assert f"dragoman: {directory}: " in server.log.read_text()
