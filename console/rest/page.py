"""The files of the console's page, as they are in the package."""

from __future__ import annotations

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

WEB = Path(__file__).parents[1] / "web"
_NO_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Tidegate</title>
<h1>Tidegate</h1>
<p>This installation came without the page of the console. Its REST API answers: see
<a href="v1/openapi.json">v1/openapi.json</a> and <a href="v1/jobs/overview">v1/jobs/overview</a>.</p>
</html>
"""


class Page:
    """Answers what is no route of the API.

    Args:
        directory: Of the page's files; without an index in it a short page takes its place.
    """

    def __init__(self, directory: Path = WEB) -> None:
        has_page = (directory / "index.html").is_file()
        self._files: ASGIApp | None = StaticFiles(directory=directory, html=True) if has_page else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["path"].startswith("/v1/") or scope["type"] != "http":
            raise HTTPException(404, "there is no such address; see /v1/openapi.json")
        if self._files is not None:
            await self._files(scope, receive, send)
        elif scope["path"] == "/" and scope["method"] in ("GET", "HEAD"):
            await HTMLResponse(_NO_PAGE)(scope, receive, send)
        else:
            raise HTTPException(404, "there is no such address; see /v1/openapi.json")
