"""The promises of `/openapi.json`, tried by schemathesis on a real server."""

import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from service.access.key_store import KeyLimits, KeyStore
from tests.system.conftest import Server, StartServer

# A request may set itself a deadline that nothing can keep.
_CONFIG = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "504"]
"""
# No schema says which languages a server has, nor which options exclude one another. And a missing key is 400, as
# LibreTranslate answers, where this check wants 401.
_NOT_CHECKED = "positive_data_acceptance,ignored_auth"


# What a server of keys and glossaries answers only to who has one of them, and what it answers once they are used up.
_KEYED = """
[[operations]]
include-path-regex = "glossaries/"
parameters = {{ "path.glossary_id" = "{kept}" }}

[[operations]]
include-name = "DELETE /v2/glossaries/{{glossary_id}}"
parameters = {{ "path.glossary_id" = "{deleted}" }}

[[operations]]
include-name = "POST /v2/translate"
headers = {{ Authorization = "{spent}" }}

[[operations]]
include-name = "GET /v2/usage"
headers = {{ Authorization = "DeepL-Auth-Key wrong" }}
"""


def _try_out(server: Server, directory: Path, config: str, phases: str, examples: int, *flags: str) -> None:
    """No server error, no answer or media type that is not documented, nothing wrong that is accepted."""
    (directory / "schemathesis.toml").write_text(config)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml"]
    command += ["run", f"{server.url}/openapi.json", "--phases", phases, *flags]
    command += ["--checks", "all", "--exclude-checks", _NOT_CHECKED, "--max-failures", "20"]
    command += ["--max-examples", str(examples), "--seed", "1", "--generation-database", "none", "--no-color"]
    # In a directory of its own, for it writes down what it has found.
    ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=250, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "unexpected error" not in server.log.read_text()


@pytest.mark.parametrize("examples", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_schemathesis_finds_nothing(server: Server, tmp_path: Path, examples: int) -> None:
    _try_out(server, tmp_path, _CONFIG, "examples,coverage,fuzzing", examples)


@pytest.mark.slow
def test_schemathesis_finds_nothing_behind_keys_and_in_glossaries(tmp_path: Path, start_server: StartServer) -> None:
    with closing(KeyStore(tmp_path / "keys.db", create=True)) as file:
        key, poor = file.add("rich", KeyLimits()), file.add("poor", KeyLimits(characters_per_month=12))
    flags = ("--keys", str(tmp_path / "keys.db"), "--glossaries", str(tmp_path / "glossaries"))
    rich, spent = ({"Authorization": f"DeepL-Auth-Key {each}"} for each in (key, poor))
    with start_server(*flags) as server, httpx.Client(base_url=f"{server.url}/v2") as client:
        languages = {"source_lang": "EN", "target_lang": "FR"}
        glossary = {**languages, "name": "a", "entries": "cat\tmatou", "entries_format": "tsv"}
        kept, deleted = (
            client.post("/glossaries", json=glossary, headers=rich).json()["glossary_id"] for _ in range(2)
        )
        assert client.post("/translate", json={**languages, "text": "I see a cat."}, headers=spent).status_code == 200
        config = _CONFIG + _KEYED.format(kept=kept, deleted=deleted, spent=spent["Authorization"])
        header = f"Authorization: {rich['Authorization']}"
        _try_out(server, tmp_path, config, "examples,fuzzing", 5, "--header", header)
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    reached = {(line["method"], line["route"], line["status"]) for line in lines if line["message"] == "request"}
    one = "/v2/glossaries/{glossary_id}"
    assert reached >= {
        ("POST", "/v2/translate", 456),
        ("GET", "/v2/usage", 403),
        ("POST", "/v2/glossaries", 201),
        ("GET", "/v2/glossaries", 200),
        ("GET", one, 200),
        ("GET", f"{one}/entries", 200),
        ("DELETE", one, 204),
        ("DELETE", one, 404),
    }


def test_every_answer_is_documented(server: Server) -> None:
    schema = httpx.get(f"{server.url}/openapi.json").json()
    assert {"/translate", "/translate/stream", "/detect", "/languages", "/v2/translate"} <= set(schema["paths"])
    assert set(re.findall(r"#/components/schemas/(\w+)", str(schema))) <= set(schema["components"]["schemas"])
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            responses = operation["responses"]
            assert "default" not in responses, (method, path)
            assert "422" not in responses, (method, path)
            for status, response in responses.items():
                assert "X-Request-ID" in response["headers"], (method, path, status)
                assert ("Retry-After" in response["headers"]) is (status in ("429", "456", "503"))
                assert status == "204" or response["content"], (method, path, status)
    for path in ("/translate", "/detect", "/v2/translate"):
        kinds = schema["paths"][path]["post"]["requestBody"]["content"]
        assert set(kinds) == {"application/json", "application/x-www-form-urlencoded", "multipart/form-data"}
    assert {} in schema["paths"]["/translate"]["post"]["security"]
    assert "security" not in schema["paths"]["/languages"]["get"]


def test_a_path_lists_all_its_methods(server: Server) -> None:
    for path, methods in (("/v2/usage", "GET, POST"), ("/translate", "POST"), ("/languages", "GET"), ("/", "GET")):
        answer = httpx.delete(f"{server.url}{path}")
        assert (answer.status_code, answer.headers["allow"]) == (405, methods)
