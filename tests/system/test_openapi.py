"""What `/openapi.json` promises, tried out by schemathesis on a real server."""

import subprocess
import sys
from pathlib import Path

import httpx

from tests.system.conftest import Server

# A request may set itself a deadline that nothing can keep.
_CONFIG = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "504"]
"""
# No schema says which languages a server has, nor which options exclude one another. And a missing key is 400, as
# LibreTranslate answers, where this check wants 401.
_NOT_CHECKED = "positive_data_acceptance,ignored_auth"


def test_schemathesis_finds_nothing(server: Server, tmp_path: Path) -> None:
    """No server error, no answer or media type that is not documented, nothing wrong that is accepted."""
    config = tmp_path / "schemathesis.toml"
    config.write_text(_CONFIG)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)]
    command += ["run", f"{server.url}/openapi.json", "--phases", "examples,coverage,fuzzing"]
    command += ["--checks", "all", "--exclude-checks", _NOT_CHECKED, "--max-failures", "20"]
    command += ["--max-examples", "20", "--seed", "1", "--generation-database", "none", "--no-color"]
    # In a directory of its own, for it writes down what it has found.
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "unexpected error" not in server.log.read_text()


def test_every_answer_is_documented(server: Server) -> None:
    schema = httpx.get(f"{server.url}/openapi.json").json()
    assert {"/translate", "/translate/stream", "/detect", "/languages", "/v2/translate"} <= set(schema["paths"])
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            responses = operation["responses"]
            assert "default" in responses, (method, path)
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


def test_a_path_tells_all_its_methods(server: Server) -> None:
    for path, methods in (("/v2/usage", "GET, POST"), ("/translate", "POST"), ("/languages", "GET"), ("/", "GET")):
        answer = httpx.delete(f"{server.url}{path}")
        assert (answer.status_code, answer.headers["allow"]) == (405, methods)
