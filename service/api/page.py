"""The page at `/`: static files, nothing loaded from elsewhere."""

from pathlib import Path
from typing import Final

from fastapi import APIRouter
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

_FILES: Final = Path(__file__).parent.parent / "web"
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
}

router = APIRouter()
router.mount("/web", StaticFiles(directory=_FILES))


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    return FileResponse(_FILES / "index.html", headers=_HEADERS)
