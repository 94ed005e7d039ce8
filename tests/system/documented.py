"""The statuses that `/openapi.json` documents, compared with every response of the tests' clients."""

import re
from typing import Any

import httpx


class DocumentedStatuses:
    """A response hook of httpx: fails the test that receives a status that its route does not document.

    It knows the documented paths alone: pages, scripts and unknown paths pass.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._operations = [
            (re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))), operations)
            for path, operations in schema["paths"].items()
        ]

    async def __call__(self, response: httpx.Response) -> None:
        self.check(response.request.method, response.request.url.path, response.status_code)

    def check(self, method: str, path: str, status: int) -> None:
        for pattern, operations in self._operations:
            if not pattern.fullmatch(path.rstrip("/") or "/"):
                continue
            operation = operations.get("get" if method == "HEAD" else method.lower())
            # Another method's only answer is that the path does not have it.
            documented = operation["responses"] if operation else {"405": None}
            assert str(status) in documented, f"{method} {path} answers {status}, which /openapi.json does not list"
            return
