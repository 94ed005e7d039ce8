"""Browser extensions and tools that are written for other servers: their requests, and answers in their shapes."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.system.conftest import Server

CAT, CHAT = "I see a cat.", "Je vois un chat."


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        (
            "/compat/immersive/translate",
            {"source_lang": "auto", "target_lang": "fr", "text_list": [f"{CAT} Yes.", CHAT, "Wo ist der Bahnhof?"]},
            {
                "translations": [
                    {"detected_source_lang": "en", "text": f"{CHAT} Oui."},
                    {"detected_source_lang": "fr", "text": CHAT},
                    {"detected_source_lang": "de", "text": "Wo ist der Bahnhof?"},
                ]
            },
        ),
        ("/compat/kiss/translate", {"text": CAT, "from": "en", "to": "fr"}, {"text": CHAT, "src": "en"}),
        (
            "/compat/kiss/translate",
            {"texts": [CAT, "Yes."], "from": "en", "to": "fr-CA"},
            [{"text": CHAT, "src": "en"}, {"text": "Oui.", "src": "en"}],
        ),
        (
            "/compat/deeplx/translate",
            {"text": "The <b>black</b> cat.", "source_lang": "EN", "target_lang": "FR", "tag_handling": "html"},
            {
                "code": 200,
                "id": 0,
                "data": "Le chat <b>noir</b>.",
                "alternatives": [],
                "source_lang": "EN",
                "target_lang": "FR",
                "method": "Free",
            },
        ),
        (
            "/compat/google/language/translate/v2",
            {"q": ["The <b>black</b> cat.", "Yes."], "source": "en", "target": "fr", "model": "nmt"},
            {"data": {"translations": [{"translatedText": "Le chat <b>noir</b>."}, {"translatedText": "Oui."}]}},
        ),
        (
            "/compat/google/translate_a/single",
            {"q": CAT, "sl": "en", "tl": "fr", "dj": "1", "client": "gtx"},
            {"sentences": [{"trans": CHAT, "orig": CAT}], "src": "en"},
        ),
    ],
)
def test_a_request_and_its_answer(server: Server, path: str, body: dict[str, Any], answer: object) -> None:
    assert httpx.post(f"{server.url}{path}", json=body).json() == answer


def test_requests_in_urls_and_forms(server: Server) -> None:
    google = {"client": "gtx", "sl": "auto", "tl": "fr", "dt": "t", "q": "Where is the station?"}
    found = httpx.get(f"{server.url}/compat/google/translate_a/single", params=google).json()
    assert found == [[["Où est la gare ?", "Where is the station?", None, None, 1]], None, "en"]
    v2 = {"q": ["Where is the station?", "Yes."], "target": "fr", "format": "text", "key": "any"}
    for answer in (
        httpx.get(f"{server.url}/compat/google/language/translate/v2", params=v2),
        httpx.post(f"{server.url}/compat/google/language/translate/v2", data=v2),
    ):
        first, _ = answer.json()["data"]["translations"]
        assert first == {"translatedText": "Où est la gare ?", "detectedSourceLanguage": "en"}
    nllb = {"source": [CAT, "Yes."], "src_lang": "eng_Latn", "tgt_lang": "fra_Latn"}
    for answer in (
        httpx.get(f"{server.url}/nllb/translate", params=nllb),
        httpx.post(f"{server.url}/nllb/translate", data=nllb),
        httpx.post(f"{server.url}/nllb/translate", json=nllb),
    ):
        found = answer.json()
        assert found.pop("time_taken") >= 0
        assert found == nllb | {"translation": [CHAT, "Oui."], "time_units": "s"}
    assert httpx.head(f"{server.url}/nllb/translate", params=nllb).status_code == 405


def test_a_batch_stays_one(server: Server) -> None:
    """Its characters and its outcome are counted once, as on every route."""
    url, path = server.url, "/compat/kiss/translate"
    before = server.metric("dragoman_requests_total", f'endpoint="{path}",outcome="ok"')
    texts = [f"I have {number} cats." for number in range(30)]
    answer = httpx.post(f"{url}{path}", json={"texts": texts, "from": "en", "to": "fr"}, timeout=60).json()
    assert len(answer) == 30
    assert server.metric("dragoman_requests_total", f'endpoint="{path}",outcome="ok"') == before + 1


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        (
            "/compat/immersive/translate",
            {"text_list": ["a"], "source_lang": "en", "target_lang": "zz"},
            {"error": "target_lang: zz is not supported; available: fr", "code": "invalid_request"},
        ),
        (
            "/compat/kiss/translate",
            {"from": "en", "to": "fr"},
            {"error": "text: field required, or texts", "code": "invalid_request"},
        ),
        ("/compat/deeplx/translate", {"text": "a"}, {"code": 400, "message": "target_lang: field required"}),
        (
            "/compat/google/language/translate/v2",
            {"q": "a", "target": "zz", "source": "en"},
            {
                "error": {
                    "code": 400,
                    "message": "target: zz is not supported; available: fr",
                    "status": "invalid_request",
                }
            },
        ),
    ],
)
def test_an_error_has_the_shape_that_the_client_reads(
    server: Server, path: str, body: dict[str, Any], answer: object
) -> None:
    refused = httpx.post(f"{server.url}{path}", json=body)
    assert (refused.status_code, refused.json()) == (400, answer)


def _chat(text: str, **options: Any) -> dict[str, Any]:
    system = {"role": "system", "content": "You are a translator."}
    return {"model": "dragoman-en-fr", "messages": [system, {"role": "user", "content": text}], **options}


def test_a_chat_is_translated(server: Server) -> None:
    url = f"{server.url}/v1/chat/completions"
    for body in (
        _chat(CAT),
        _chat(CAT, model="dragoman-auto-fr"),
        _chat(CAT, model="dragoman-fr", temperature=0),
        _chat("") | {"messages": [{"role": "user", "content": [{"type": "text", "text": CAT}]}]},
        _chat(CAT, stream=None, seed=-(2**63 - 1)),
    ):
        answer = httpx.post(url, json=body).json()
        [choice] = answer["choices"]
        assert choice["message"] == {"role": "assistant", "content": CHAT}
        assert (answer["object"], answer["model"], choice["finish_reason"]) == (
            "chat.completion",
            body["model"],
            "stop",
        )
        usage = answer["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
    models = httpx.get(f"{server.url}/v1/models").json()["data"]
    assert [model["id"] for model in models] == ["dragoman-en-fr"]
    assert httpx.get(f"{server.url}/v1/models/dragoman-en-fr").json() == models[0]


@pytest.mark.parametrize("name", ["dragoman-fr", "dragoman-auto-fr", "dragoman-EN-fr-CA", "dragoman-fr-fr"])
def test_a_model_that_completes_is_described_by_the_same_name(server: Server, name: str) -> None:
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=_chat(CAT, model=name))
    assert (answer.status_code, answer.json()["model"]) == (200, name)
    described = httpx.get(f"{server.url}/v1/models/{name}").json()
    assert (described["id"], described["object"]) == (name, "model")


@pytest.mark.parametrize("name", ["gpt-4", "en-fr", "dragoman-en-zz", "dragoman-"])
def test_an_unknown_model_is_not_found(server: Server, name: str) -> None:
    for answer in (
        httpx.get(f"{server.url}/v1/models/{name}"),
        httpx.post(f"{server.url}/v1/chat/completions", json=_chat(CAT, model=name)),
        httpx.post(f"{server.url}/v1/chat/completions", json=_chat(CAT, model=name, stream=True)),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


def test_a_model_s_name_is_not_too_long_to_be_unknown(server: Server) -> None:
    answer = httpx.get(f"{server.url}/v1/models/dragoman-en-fr{'-x' * 10_000}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


_SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "batch",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"translations": {"type": "array", "items": {"type": "object"}}},
            "required": ["translations"],
        },
    },
}


@pytest.mark.parametrize(
    ("message", "options", "answer"),
    [
        # Bazarr's OpenAI-compatible translator: the cues of a file, with an instruction beside them.
        ([CAT, "Hello!", "- Yes.\n- No."], {}, [CHAT, "Bonjour !", "- Oui.\n- Non."]),
        # Lingarr's batches, with the format that it asks for, and the fallback without.
        (
            [{"position": 1, "line": CAT}, {"position": 2, "line": ""}],
            {"response_format": _SCHEMA},
            {"translations": [{"position": 1, "line": CHAT}, {"position": 2, "line": ""}]},
        ),
        ([{"position": 1, "line": CAT}], {}, [{"position": 1, "line": CHAT}]),
        ({"0": CAT, "1": "Hello!"}, {}, {"0": CHAT, "1": "Bonjour !"}),
        ([{"id": 7, "content": CAT}], {}, [{"id": 7, "content": CHAT}]),
        ([{"id": "a", "text": CAT}], {"stream": True}, [{"id": "a", "text": CHAT}]),
    ],
)
def test_an_array_of_lines_stays_json(server: Server, message: object, options: dict[str, Any], answer: object) -> None:
    system = {"role": "system", "content": "Translate each element. Answer with JSON alone."}
    body = _chat(json.dumps(message), temperature=0, **options)
    body["messages"].insert(0, system)
    received = httpx.post(f"{server.url}/v1/chat/completions", json=body)
    if options.get("stream"):
        assert received.text.endswith("data: [DONE]\n\n")
        chunks = [json.loads(line[6:]) for line in received.text.split("\n\n")[:-2]]
        content = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    else:
        content = received.json()["choices"][0]["message"]["content"]
    assert json.loads(content) == answer


@pytest.mark.parametrize("message", ["[door opens] I see a cat.", "[]", "[1, 2]", '["a', '[{"a": "b"}]'])
def test_a_message_that_begins_with_a_bracket_is_a_text(server: Server, message: str) -> None:
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=_chat(message)).json()
    assert answer["choices"][0]["message"]["content"][:1] == "["


def test_json_in_a_block_of_code_is_json(server: Server) -> None:
    message = _chat(f"```json\n{json.dumps([CAT])}\n```")
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=message).json()
    assert json.loads(answer["choices"][0]["message"]["content"]) == [CHAT]


def test_bazarr_s_request_to_lingarr(server: Server) -> None:
    lines = [{"position": number, "line": f"{CAT} {number}" if number % 2 else CAT} for number in range(300)]
    body = {"sourceLanguage": "en", "targetLanguage": "fr", "mediaType": "Episode", "lines": lines}
    url = f"{server.url}/compat/lingarr/api/translate/content"
    with ThreadPoolExecutor(8) as jobs:
        answers = [each.json() for each in jobs.map(lambda _: httpx.post(url, json=body, timeout=60), range(8))]
    for answer in answers:
        assert [each["position"] for each in answer] == list(range(300))
        assert answer[0]["line"] == CHAT
        assert all(each["line"].startswith(CHAT) for each in answer)


def test_a_chat_is_streamed(server: Server) -> None:
    body = _chat("I see a cat. Where is the station?", stream=True, stream_options={"include_usage": True})
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    first, *chunks, last, usage = map(json.loads, lines[:-1])
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    deltas = [chunk["choices"][0]["delta"]["content"] for chunk in chunks]
    assert len(deltas) > 3
    assert "".join(deltas) == "Je vois un chat. Où est la gare ?"
    assert last["choices"][0]["finish_reason"] == "stop"
    assert (usage["choices"], usage["usage"]["completion_tokens"] > 3) == ([], True)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 2}, "n: must be 1"),
        ({"seed": 2**63}, f"seed: input should be less than or equal to {2**63 - 1}"),
        ({"seed": -(2**63)}, f"seed: input should be greater than or equal to {1 - 2**63}"),
        *(
            (
                {"messages": [{"role": "user", "content": content}]},
                "messages.0.content: must be a string, or an array of parts with the type text and a text",
            )
            for content in (5, [{"type": "image_url", "image_url": {"url": "x"}}], [{"type": "text"}])
        ),
        ({"tools": [{"type": "function"}]}, "tools: is not available"),
        ({"messages": [{"role": "system", "content": "a"}]}, "messages: there is none of the role user"),
        (
            {"response_format": {"type": "json_object"}},
            "response_format: is available only for a message that is an array of texts in JSON",
        ),
    ],
)
def test_a_chat_that_is_refused(server: Server, options: dict[str, Any], message: str) -> None:
    for stream in (False, True):
        refused = httpx.post(f"{server.url}/v1/chat/completions", json=_chat("a", stream=stream) | options)
        assert refused.status_code == 400
        assert refused.json()["error"]["message"] == message
