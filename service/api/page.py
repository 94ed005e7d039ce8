"""The page at `/`, captions and the API viewer: static files, without anything from other hosts."""

from functools import partial
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles

_FILES: Final = Path(__file__).parent / "web"
_POLICY: Final = (
    "default-src 'none'; connect-src 'self'; img-src 'self'; script-src 'self'; style-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
# Swagger UI has images in its style sheet, and styles in its HTML.
_DOCS_POLICY: Final = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data:; script-src 'self'; "
    "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Browsers revalidate each time, for an empty response: a page and its scripts must have the same version.
_HEADERS: Final = {"Cache-Control": "no-cache", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}


class _Files(StaticFiles):
    """Static files with our headers."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(_HEADERS)
        return response


async def _page(name: str, policy: str) -> FileResponse:
    return FileResponse(_FILES / name, headers={**_HEADERS, "Content-Security-Policy": policy})


router = APIRouter()
router.mount("/web", _Files(directory=_FILES))
router.mount("/docs/viewer", _Files(packages=[("fastapi_offline", "static")]))
for _path, _name, _allowed in (
    ("/", "index.html", _POLICY),
    ("/live", "captions.html", _POLICY),
    ("/docs", "docs.html", _DOCS_POLICY),
):
    router.add_api_route(_path, partial(_page, _name, _allowed), include_in_schema=False)
