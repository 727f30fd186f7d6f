"""The console page's files.

In: GET / and GET /console/{name}. Out: the files of the folder `console` beside this module. Invariant:
only plain names of known kinds are served, under a policy that lets the page load and call nothing else.
"""

import re
from pathlib import Path

from aiohttp import web

_FOLDER = Path(__file__).parent / "console"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}(\.[a-z]{2,4})")
_TYPES = (
    (".html", "text/html"),
    (".js", "text/javascript"),
    (".css", "text/css"),
    (".svg", "image/svg+xml"),
    (".png", "image/png"),
)
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Permissions-Policy", "microphone=(self), camera=(), geolocation=()"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-cache"),
)


async def index(request: web.Request) -> web.StreamResponse:
    """GET /."""
    del request
    return _file("index.html")


async def asset(request: web.Request) -> web.StreamResponse:
    """GET /console/{name}."""
    return _file(request.match_info["name"])


def _file(name: str) -> web.FileResponse:
    found = _NAME.fullmatch(name)
    kind = next((kind for ending, kind in _TYPES if found and found[1] == ending), None)
    path = _FOLDER / name
    if kind is None or not path.is_file():
        raise web.HTTPNotFound
    return web.FileResponse(path, headers={"Content-Type": f"{kind}; charset=utf-8", **dict(_HEADERS)})
