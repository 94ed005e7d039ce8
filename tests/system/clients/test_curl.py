"""curl, as the README uses it."""

import shutil
import subprocess

import pytest

from tests.system.conftest import Server

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")


@needs_curl
def test_curl(server: Server) -> None:
    def curl(*arguments: str) -> str:
        command = ["curl", "--silent", "--show-error", "--no-buffer", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    form = ("-d", "source=en", "-d", "target=fr")
    plain = curl(f"{server.url}/translate", "--data-urlencode", "q=I see a cat.", *form)
    assert plain == '{"translatedText":"Je vois un chat."}'
    stream = curl(f"{server.url}/translate", "--data-urlencode", "q=I see a cat.", *form, "-d", "stream=true")
    assert stream.startswith("id: 0\nevent: start\n")
    assert "\nevent: done\n" in stream
    url = f"{server.url}/translate/stream"
    rest = curl("--get", url, "--data-urlencode", "q=I see a cat.", *form, "-H", "Last-Event-ID: 2")
    until_done = stream[stream.index("id: 3\n") : stream.index("event: done")]
    assert rest.startswith(until_done + 'event: done\ndata: {"translatedText":"Je vois un chat."')
