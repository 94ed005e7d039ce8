"""Requests that nobody should send. Whatever comes, the answer is never the server's own failure."""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from loadtest.soak.wire import new_id, post

_VALUES: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 1 << 70, 1e308, float("nan"), float("inf"), "", " ", "\0", "\ud800", "é" * 3000,
    "𝕏\u202e\u0301" * 50, [], [[]], [""] * 2000, ["a", 1], {}, {"a": {}}, "<p>&amp;</p>", "A" * 20_000,
    "word " * 3000, "." * 3000,
)  # fmt: skip
_FIELDS: Final = (
    "q", "source", "target", "stream", "format", "alternatives", "api_key", "beam_size", "temperature", "top_k",
    "top_p", "seed", "length_penalty", "repetition_penalty", "no_repeat_ngram_size", "max_new_tokens", "target_prefix",
    "scores", "alignment", "top_candidates", "timeout_seconds", "nobody_knows",
)  # fmt: skip
_HEADERS: Final = (
    "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999999999999", "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip", "Host:", "Host: a\r\nHost: b", "Content-Type: text/plain", "Content-Type: ;;;",
    "Content-Type: application/x-www-form-urlencoded", "Content-Type: multipart/form-data; boundary=x", "Accept: \xff",
    "Expect: 100-continue",
    "Last-Event-ID: -1", "Last-Event-ID: 99999999999999999999", "Last-Event-ID: a\x00b", "Last-Event-ID: 1-",
    "Last-Event-ID: 1-00c0ffee", "X-Request-ID: " + "x" * 5000,
    "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings", "Upgrade: websocket\r\nConnection: Upgrade", "Bad Header: x",
    "X: " + "y" * 60_000, "Content-Encoding: gzip", " folded: x",
)  # fmt: skip
_TARGETS: Final = (
    "/", "/translate", "/translate/stream", "/translate/stream?q=a", "/languages", "/web/../../../etc/passwd",
    "/web/%2e%2e/", "/%00", "//", "*", "http://elsewhere/translate", "/" + "a" * 9000, "/translate?" + "q=a&" * 2000,
    "/openapi.json", "/\xff",
)  # fmt: skip
_METHODS: Final = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "G\x00T", "")
_VALID: Final[Mapping[str, Any]] = {"q": "I see a cat.", "source": "en", "target": "fr"}
_MANY: Final = 120_000
_BLANK_ENTRIES: Final = {str(number): " " for number in range(_MANY)}
_MANY_MISTAKES: Final = (
    json.dumps({**_VALID, **{f"f{number}": 1 for number in range(_MANY)}}).encode(),
    json.dumps({**_VALID, "glossary": _BLANK_ENTRIES}).encode(),
    json.dumps({**_VALID, "q": [[]] * (4 * _MANY)}).encode(),
    b'{"q": [' + b",".join([b"[" * 190 + b"]" * 190] * 5000) + b"]}",
    json.dumps({**_VALID, "q": [str(number) for number in range(_MANY)]}).encode(),
)
"""A megabyte and more each: by default a body may have two."""
_MANY_IN_A_FORM: Final = urlencode({**_VALID, "glossary": json.dumps(_BLANK_ENTRIES)}).encode()


def request(rng: random.Random) -> bytes:
    """Return a random request; a timeout keeps those short that happen to be valid."""
    return rng.choice(_KINDS)(rng)


def _noise(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(1, 3000))


def _wrong_fields(rng: random.Random) -> bytes:
    wrong = {rng.choice(_FIELDS): rng.choice(_VALUES) for _ in range(rng.randrange(1, 4))}
    return post({**_VALID, "timeout_seconds": 1, **wrong}, new_id())


def _wrong_json(rng: random.Random) -> bytes:
    good = json.dumps(_VALID).encode()
    at = rng.randrange(len(good))
    content = rng.choice(
        [
            good[:at],
            good[:at] + rng.randbytes(3) + good[at:],
            b"[" * 100_000,
            b'{"q":' * 5000,
            b'{"q": "a", "q": "b", "source": "en", "target": "fr"}',
            b"\xef\xbb\xbf" + good,
            good.decode().encode("utf-16"),
            b'{"q": "\\ud800", "source": "en", "target": "fr"}',
            b"null",
            b"",
            *_MANY_MISTAKES,
        ]
    )
    return _with(content, "Content-Type: application/json")


def _wrong_form(rng: random.Random) -> bytes:
    content = rng.choice(
        [
            b"q=%ff%fe",
            b"q=a&" * 11_000,
            b"q=a&source=en&target=fr&temperature=x",
            b"=&=&",
            b"%",
            rng.randbytes(99),
            _MANY_IN_A_FORM,
        ]
    )
    return _with(content, "Content-Type: application/x-www-form-urlencoded")


def _wrong_header(rng: random.Random) -> bytes:
    return _with(json.dumps(_VALID).encode(), *rng.sample(_HEADERS, rng.randrange(1, 3)))


def _wrong_line(rng: random.Random) -> bytes:
    version = rng.choice(["HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "", "HTTP/1.1 extra"])
    line = f"{rng.choice(_METHODS)} {rng.choice(_TARGETS)} {version}\r\nHost: a\r\nConnection: close\r\n\r\n"
    return line.encode("latin-1")


def _with(content: bytes, *headers: str) -> bytes:
    lines = ["POST /translate HTTP/1.1", "Host: a", "Connection: close", *headers]
    if not any(line.startswith(("Content-Length", "Transfer-Encoding")) for line in lines):
        lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


_KINDS: Final[tuple[Callable[[random.Random], bytes], ...]] = (
    _noise, _wrong_fields, _wrong_fields, _wrong_fields, _wrong_json, _wrong_form, _wrong_header, _wrong_line,
)  # fmt: skip
