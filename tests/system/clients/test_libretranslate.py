"""LibreTranslate's client, unmodified, and what its page and its other users send."""

import json
import urllib.error
from pathlib import Path

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from tests.system.conftest import Server, StartServer
from tests.system.sentences import SENTENCES


def test_libretranslatepy(server: Server) -> None:
    client = LibreTranslateAPI(server.url, api_key="ignored")
    assert client.translate("I see a cat.", "en", "fr") == "Je vois un chat."
    assert client.translate("Je vois un chat.", "fr", "fr") == "Je vois un chat."
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["en", "fr"]},
        {"code": "fr", "name": "French", "targets": ["fr"]},
    ]
    with pytest.raises(urllib.error.HTTPError) as caught:
        client.translate("I see a cat.", "en", "xx")
    with caught.value as answer:
        assert answer.code == 400
        assert json.load(answer)["error"] == "xx is not supported"


def test_a_form_is_answered_as_json_is(server: Server) -> None:
    fields = {"q": SENTENCES[1], "source": "en", "target": "fr", "format": "text", "api_key": "", "alternatives": 2}
    form, body = httpx.post(f"{server.url}/translate", data=fields), httpx.post(f"{server.url}/translate", json=fields)
    assert form.status_code == 200
    assert set(form.json()) == {"translatedText", "alternatives"}
    assert form.json() == body.json()
    fields["q"] = [SENTENCES[1], "Yes."]
    several = httpx.post(f"{server.url}/translate", data=fields).json()
    assert several["translatedText"] == [form.json()["translatedText"], "Oui."]
    refused = httpx.post(f"{server.url}/translate", data={"source": "en", "target": "fr"})
    assert refused.status_code == 400
    assert refused.json() == {
        "error": "Invalid request: missing q parameter",
        "code": "invalid_request",
        "field": "q",
        "detail": "q: field required",
    }


def test_a_multipart_form_is_answered_as_json_is(server: Server) -> None:
    """A browser's `FormData` is multipart; LibreTranslate takes both kinds of form."""
    url = f"{server.url}/translate"
    fields = {"q": f"{SENTENCES[1]}\n{SENTENCES[2]} é", "source": "en", "target": "fr", "alternatives": 1}
    parts = [(name, (None, str(value))) for name, value in fields.items()]
    form, body = httpx.post(url, files=parts), httpx.post(url, json=fields)
    assert form.status_code == 200
    assert form.json() == body.json()
    several = httpx.post(url, files=[*parts[1:3], ("q", (None, "Yes.")), ("q", (None, "No."))])
    assert several.json() == {"translatedText": ["Oui.", "Non."]}
    streamed = httpx.post(url, files=[*parts, ("stream", (None, "true"))])
    assert "event: done" in streamed.text


def test_a_form_may_be_in_the_url(server: Server) -> None:
    fields = {"q": "I see a cat.", "source": "en", "target": "fr", "format": "", "secret": "x"}
    for url, body in ((fields, {}), ({"q": "I see a cat."}, fields), (fields, {"target": "xx"})):
        answer = httpx.post(f"{server.url}/translate", params=url, data=body)
        assert answer.json() == {"translatedText": "Je vois un chat."}
    assert httpx.post(f"{server.url}/detect", params={"q": "I see a cat."}).json()[0]["language"] == "en"
    for wrong, problem in (("q=a&source=en&target=fr&beams=4", "beams: "), ("q=%ff", "URL: is not valid UTF-8")):
        refused = httpx.post(f"{server.url}/translate?{wrong}")
        assert (refused.status_code, refused.json()["error"][: len(problem)]) == (400, problem)
    assert httpx.post(f"{server.url}/translate", params=fields, json={"q": "a"}).status_code == 400, "JSON is whole"
    body = {"q": "I see a cat.", "source": "en", "target": "fr"}
    assert httpx.post(f"{server.url}/translate?x=%ff", json=body).json() == {"translatedText": "Je vois un chat."}
    assert httpx.post(f"{server.url}/translate?x=%ff", data=body).json()["error"] == "URL: is not valid UTF-8"
    assert httpx.post(f"{server.url}/v2/translate", params={"text": "a", "target_lang": "FR"}).status_code == 400


def test_what_is_no_multipart_form(server: Server) -> None:
    url = f"{server.url}/translate"
    for answer, problem in (
        (httpx.post(url, files={"q": ("text.txt", b"Yes.")}), "q: must be text, not a file"),
        (httpx.post(url, content=b"q=Yes.", headers={"Content-Type": "multipart/form-data"}), "body: "),
        (httpx.post(url, content=b"x", headers={"Content-Type": "multipart/form-data; boundary=a"}), "body: "),
        (httpx.post(url, content=b"x", headers={"Content-Type": "text/plain"}), "Content-Type: must be "),
    ):
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(problem)


def test_what_libretranslate_s_page_asks(server: Server) -> None:
    settings = httpx.get(f"{server.url}/frontend/settings").json()
    assert {".docx", ".odt", ".srt"} < set(settings.pop("supportedFilesFormat"))
    assert settings == {
        "apiKeys": False,
        "charLimit": 50_000,
        "filesTranslation": True,
        "frontendTimeout": 300,
        "keyRequired": False,
        "language": {"source": {"code": "en", "name": "English"}, "target": {"code": "fr", "name": "French"}},
        "suggestions": False,
    }
    assert httpx.get(f"{server.url}/health").json() == {"status": "ok"}


def test_other_clients_of_libretranslate(server: Server) -> None:
    """One of npm sends `apiKey`; a misspelt option of ours stays refused."""
    fields = {"q": "I see a cat.", "source": "en", "target": "fr", "apiKey": ""}
    assert httpx.post(f"{server.url}/translate", json=fields).json() == {"translatedText": "Je vois un chat."}
    assert httpx.post(f"{server.url}/detect", data={"q": "I see a cat.", "apiKey": "x"}).status_code == 200
    refused = httpx.post(f"{server.url}/translate", json=fields | {"beamSize": 2})
    assert refused.json() == {"error": "beamSize: no such field; did you mean beam_size?", "code": "invalid_request"}
    spec = httpx.get(f"{server.url}/spec")
    assert "/translate" in spec.json()["paths"]
    assert httpx.post(f"{server.url}/spec").status_code == 405


def test_suggestions(server: Server, start_server: StartServer, tmp_path: Path) -> None:
    fields = {"q": "I see a cat.", "s": "Je vois une chatte.", "source": "en", "target": "fr"}
    disabled = httpx.post(f"{server.url}/suggest", data=fields)
    assert (disabled.status_code, disabled.json()["code"]) == (403, "suggestions_disabled")
    file = tmp_path / "suggestions.jsonl"
    with start_server("--suggestions", str(file)) as storing:
        assert httpx.get(f"{storing.url}/frontend/settings").json()["suggestions"] is True
        address = f"{storing.url}/suggest"
        for answer in (httpx.post(address, data=fields), httpx.post(address, json=fields)):
            assert answer.json() == {"success": True}
        for wrong, error in (
            ({"s": ""}, "s: string should have at least 1 character"),
            ({"target": "zz"}, "zz is not supported"),
            ({"s": "x" * 50_001}, "q: 50013 characters, the limit is 50000"),
        ):
            refused = httpx.post(f"{storing.url}/suggest", json=fields | wrong)
            assert refused.json()["error"] == error
        missing = httpx.post(f"{storing.url}/suggest", json={"q": "a"}).json()
        assert missing["error"] == "Invalid request: missing s parameter"
    assert [json.loads(line)["s"] for line in file.read_text().splitlines()] == ["Je vois une chatte."] * 2
