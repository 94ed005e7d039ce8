"""The client against a server with scripted responses."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from service.client import (
    AsyncClient,
    Busy,
    Client,
    Detected,
    Done,
    Event,
    Language,
    Loading,
    NotDragoman,
    Refused,
    Scored,
    Start,
    Token,
    Translation,
    Unreachable,
)

START = 'id: 0\r\nevent: start\r\ndata: {"id":"a","source":"en","target":"fr"}\r\n\r\n'
FIRST = 'id: 1\r\nevent: token\r\ndata: {"segment":0,"index":0,"text":"Je","logprob":-0.1}\r\n\r\n'
SECOND = 'id: 2\r\nevent: token\r\ndata: {"segment":0,"index":1,"text":" suis","logprob":-0.1}\r\n\r\n'
DONE = (
    'id: 3\r\nevent: done\r\ndata: {"translatedText":"Je suis",'
    '"usage":{"segments":1,"source_tokens":2,"generated_tokens":2},"timings":{"time_to_first_token_seconds":0.1,"total_seconds":0.2}}\r\n\r\n'
)


class Answer(NamedTuple):
    status: int
    body: str
    headers: Mapping[str, str] = MappingProxyType({})


class Scripted:
    """A server that sends one scripted response after the other, and records the requests."""

    def __init__(self, answers: list[Answer]) -> None:
        self.asked: list[tuple[dict[str, str], dict[str, Any]]] = []
        script = iter(answers)
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                asked.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self._say(next(script))

            def do_GET(self) -> None:
                self._say(next(script))

            def _say(self, answer: Answer) -> None:
                self.send_response(answer.status)
                for name, value in {"Content-Type": "text/event-stream", **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> "Scripted":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


Serve = Callable[..., Scripted]


@pytest.fixture
def serve() -> Iterator[Serve]:
    running: list[Scripted] = []

    def start(*answers: Answer | str) -> Scripted:
        server = Scripted([Answer(200, each) if isinstance(each, str) else each for each in answers])
        running.append(server.__enter__())
        return server

    yield start
    for server in running:
        server.__exit__()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record how long the client would have slept."""
    seconds: list[float] = []
    monkeypatch.setattr("service.client.clients.time.sleep", seconds.append)
    return seconds


def _stream(server: Scripted, **options: Any) -> list[Event]:
    with Client(server.url, **options) as client:
        return list(client.stream("I am", source="en", target="fr"))


def _texts(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Token)]


def test_events_are_typed_and_what_is_unknown_is_left_out(serve: Serve) -> None:
    server = serve(START + ": keep-alive\r\n\r\n" + FIRST + "id: 9\r\nevent: news\r\ndata: {}\r\n\r\n" + SECOND + DONE)
    start, first, second, done = _stream(server, api_key="secret")
    assert start == Start("a", "en", "fr")
    assert (first, second) == (Token(0, 0, "Je", -0.1), Token(0, 1, " suis", -0.1))
    assert isinstance(done, Done)
    assert done.usage.generated_tokens == 2
    [(_, body)] = server.asked
    assert body == {"q": "I am", "source": "en", "target": "fr", "stream": True, "api_key": "secret"}


@pytest.mark.parametrize("rest", ["", "id: 2\r\nev", SECOND[:-2]], ids=["between", "within", "before its last line"])
def test_a_broken_stream_goes_on_behind_its_last_event(serve: Serve, waits: list[float], rest: str) -> None:
    server = serve(START + FIRST + rest, SECOND + DONE)
    assert _texts(_stream(server)) == ["Je", " suis"]
    first, second = (headers for headers, _ in server.asked)
    assert "last-event-id" not in first
    assert second["last-event-id"] == "1"
    assert len(waits) == 1


async def test_so_does_the_asynchronous_one(serve: Serve) -> None:
    server = serve(START + FIRST, SECOND + DONE, START + FIRST, SECOND + DONE)
    async with AsyncClient(server.url) as client:
        events = [event async for event in client.stream("I am", source="en", target="fr")]
        assert _texts(events) == ["Je", " suis"]
        assert await client.translate("I am", source="en", target="fr") == Translation("Je suis")


def test_a_server_that_drains_is_left_for_another(serve: Serve, waits: list[float]) -> None:
    drained = 'event: error\r\ndata: {"error":"the server is shutting down","code":"not_ready"}\r\n\r\n'
    server = serve(START + FIRST + drained, Answer(503, "no backend", {"Content-Type": "text/plain"}), SECOND + DONE)
    assert _texts(_stream(server)) == ["Je", " suis"]
    assert [headers.get("last-event-id") for headers, _ in server.asked] == [None, "1", "1"]


def test_an_error_ends_the_stream(serve: Serve, waits: list[float]) -> None:
    late = 'event: error\r\ndata: {"error":"the deadline is over","code":"deadline_exceeded"}\r\n\r\n'
    with pytest.raises(Refused, match="the deadline is over") as caught:
        _stream(serve(START + FIRST + late))
    assert (caught.value.code, caught.value.status) == ("deadline_exceeded", None)
    assert not waits


def test_retry_after_is_honoured(serve: Serve, waits: list[float]) -> None:
    full = Answer(429, '{"error":"too many","code":"queue_full"}', {"Retry-After": "7"})
    assert _texts(_stream(serve(full, START + FIRST + SECOND + DONE))) == ["Je", " suis"]
    assert waits == [7]


def test_nobody_waits_for_an_hour(serve: Serve, waits: list[float]) -> None:
    full = Answer(429, '{"error":"quota","code":"rate_limited"}', {"Retry-After": "3600"})
    with pytest.raises(Busy, match="quota") as caught:
        _stream(serve(full))
    assert (caught.value.status, caught.value.retry_after_seconds) == (429, 3600)
    assert not waits


def test_patience_ends_without_progress_and_begins_again_with_it(serve: Serve, waits: list[float]) -> None:
    with pytest.raises(Unreachable, match="broke off"):
        _stream(serve("", "", ""), retries=2)
    assert len(waits) == 2
    assert _texts(_stream(serve(START, FIRST, SECOND, DONE), retries=1)) == ["Je", " suis"]


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (Answer(400, '{"error":"target: xx is not supported","code":"invalid_request"}'), Refused, "target: xx"),
        (Answer(404, '{"error":"Not Found","code":"not_found"}'), Refused, "/translate: there is no such path; give"),
        (Answer(404, "<html>"), NotDragoman, "is not Dragoman's"),
        (Answer(200, "<html>", {"Content-Type": "text/html"}), NotDragoman, "is not a stream of events"),
        (Answer(200, "event: token\r\ndata: {}\r\n\r\n"), NotDragoman, "required field"),
    ],
)
def test_what_does_not_pass_is_not_tried_again(
    serve: Serve, waits: list[float], answer: Answer, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        _stream(serve(answer))
    assert not waits


def test_translations_have_the_shape_of_the_texts(serve: Serve) -> None:
    end = DONE[DONE.index('"usage"') : -5]
    both = '"translatedText":["A","1"],"alternatives":[["B"],[]],"scores":[-0.5,null],"alternativeScores":[[-0.7],[]],'
    one = '"translatedText":"A","alternatives":["B"],'
    server = serve(*(f"event: done\r\ndata: {{{each}{end}}}\r\n\r\n" for each in (both, one)))
    with Client(server.url) as client:
        several = client.translate(["a", "1"], source="en", target="fr", alternatives=1, scores=True)
        assert several == [Translation("A", -0.5, [Scored("B", -0.7)]), Translation("1")]
        assert client.translate("a", source="en", target="fr") == Translation("A", None, [Scored("B")])


def test_the_language_that_was_detected_is_returned(serve: Serve) -> None:
    one, both = (
        '{"language":"en","confidence":99.5}',
        '[{"language":"en","confidence":99.5},{"language":"de","confidence":7.0}]',
    )
    end = DONE.replace('"translatedText":"Je suis"', f'"translatedText":"Je suis","detectedLanguage":{one}')
    server = serve(START.replace('"source"', f'"detectedLanguage":{one},"source"') + end)
    start, done = _stream(server)
    english = Detected("en", 99.5)
    assert isinstance(start, Start)
    assert isinstance(done, Done)
    assert (start.detectedLanguage, done.detectedLanguage) == (english, english)
    several = DONE.replace('"translatedText":"Je suis"', f'"translatedText":["A","B"],"detectedLanguage":{both}')
    with Client(serve(several).url) as client:
        found = client.translate(["a", "b"], source="auto", target="fr")
    assert [each.detected for each in found] == [english, Detected("de", 7.0)]


def test_the_model_that_is_fetched_and_the_language_between_are_returned(serve: Serve) -> None:
    fetched = 'event: loading\r\ndata: {"model":"argos:de-en","step":"downloading","percent":7}\r\n\r\n'
    one, several = (
        DONE.replace('"translatedText":"Je suis"', f'"translatedText":{texts},"pivot":{pivot}')
        for texts, pivot in (('"A"', '"en"'), ('["A","B"]', '["en",null]'))
    )
    loading, done = _stream(serve(fetched + one))
    assert loading == Loading("argos:de-en", "downloading", 7)
    assert isinstance(done, Done)
    assert done.pivot == "en"
    with Client(serve(several).url) as client:
        found = client.translate(["a", "b"], source="de", target="fr")
    assert found == [Translation("A", pivot="en"), Translation("B")]


async def test_both_clients_detect_and_list_languages(serve: Serve, waits: list[float]) -> None:
    starting = Answer(503, '{"error":"starting","code":"not_ready"}')
    known = Answer(200, '[{"language":"en","confidence":99.5},{"language":"de","confidence":0.1}]')
    listed = Answer(200, '[{"code":"en","name":"English","targets":["fr"]}]')
    expected, english = [Detected("en", 99.5), Detected("de", 0.1)], Language("en", "English", ["fr"])
    server = serve(starting, known, starting, listed)
    with Client(server.url, api_key="k") as client:
        assert client.detect("I am") == expected
        assert client.languages() == [english]
    assert len(waits) == 2
    assert [body for _, body in server.asked] == [{"q": "I am", "api_key": "k"}] * 2
    async with AsyncClient(serve(known, listed).url) as client:
        assert await client.detect("I am") == expected
        assert await client.languages() == [english]


def test_a_url_may_be_a_host_and_a_port() -> None:
    answer = Answer(200, START + FIRST + SECOND + DONE)
    with Scripted([answer]) as server, Client(server.url.removeprefix("http://")) as client:
        assert client.url == server.url
        assert client.translate("I am.", source="en", target="fr").text == "Je suis"


@pytest.mark.parametrize("url", ["", "ftp://127.0.0.1", "http://", "http://[::1", "http://127.0.0.1:port"])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_url_that_leads_to_no_server(url: str, kind: type[Client] | type[AsyncClient]) -> None:
    with pytest.raises(Unreachable):
        kind(url)
