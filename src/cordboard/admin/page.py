"""The files of the interface, which `make admin-ui` builds from `admin-ui/` into `assets/`.

    GET /assets/NAME       a file of the build, compressed if the browser takes it so
    GET /, /calls/ID, ...  index.html with a new nonce; its router reads the path

All files are read at the start. A request only chooses one of them by its name; no path of a
request ever reaches the file system. They hold nothing secret, so they need no session.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.responses import Response

ASSETS = Path(__file__).parent / "assets"
INDEX = "index.html"
NONCE = b"__NONCE__"
"""Stands in index.html for the nonce of the answer's policy."""
NOT_BUILT = (
    b"<!doctype html><html lang=en><meta charset=utf-8><title>Cordboard</title>"
    b"<p>The interface is not built in this checkout: <code>make admin-ui</code>"
    b"<p>The API works: <code>/api/v1</code>"
)
_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{0}'; style-src 'self' 'nonce-{0}'; "
    "img-src 'self' data:; media-src 'self' blob:; connect-src 'self'; worker-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}
"""Served kinds of files. The system's own table of types may say anything."""
_HASHED = "/assets/"
"""Folder of the files that have the hash of their content in their names."""
_FOR_GOOD = "public, max-age=31536000, immutable"
_FOR_AN_HOUR = "public, max-age=3600"
_ENCODINGS = {"br": ".br", "gzip": ".gz"}
"""Compressed twins that the build leaves beside a file, the smallest first."""


@dataclass(frozen=True, slots=True)
class _Asset:
    kind: str
    keep: str
    """Its header Cache-Control."""
    content: bytes
    compressed: Mapping[str, bytes]
    """By content coding; the preferred one first."""

    def answer(self, accepted: str) -> Response:
        """Return the file in the first coding that the header Accept-Encoding allows."""
        headers = {
            "Cache-Control": self.keep,
            "Content-Type": self.kind,
            "Vary": "Accept-Encoding",
        }
        allowed = _codings(accepted)
        for coding, content in self.compressed.items():
            if coding in allowed:
                return Response(content, headers={**headers, "Content-Encoding": coding})
        return Response(self.content, headers=headers)


class Page:
    """The interface of one engine."""

    def __init__(self, index: bytes | None, assets: Mapping[str, _Asset]) -> None:
        self._index = index
        self._assets = assets

    @classmethod
    def read(cls, folder: Path = ASSETS) -> Page:
        """Read the files of a build; without one, pages say how to make it. Blocks."""
        try:
            index = (folder / INDEX).read_bytes()
        except FileNotFoundError:
            return cls(None, {})
        assets = {}
        for file in folder.rglob("*"):
            kind = _KINDS.get(file.suffix)
            if kind is None or not file.is_file():
                continue
            twins = {coding: Path(f"{file}{end}") for coding, end in _ENCODINGS.items()}
            compressed = {
                coding: twin.read_bytes() for coding, twin in twins.items() if twin.is_file()
            }
            path = f"/{file.relative_to(folder).as_posix()}"
            keep = _FOR_GOOD if path.startswith(_HASHED) else _FOR_AN_HOUR
            assets[path] = _Asset(kind, keep, file.read_bytes(), compressed)
        return cls(index, assets)

    def answer(self, path: str, accepted: str) -> Response | None:
        """Return the answer to a GET of `path`; None if there is no such file. `accepted` is the
        header Accept-Encoding."""
        asset = self._assets.get(path)
        if asset is not None:
            return asset.answer(accepted)
        if path.startswith(_HASHED) or "." in path[1:].partition("/")[0]:  # /favicon.ico
            return None
        if self._index is None:
            return Response(NOT_BUILT, 404, media_type="text/html")
        nonce = secrets.token_urlsafe(16)
        headers = {"Content-Security-Policy": _POLICY.format(nonce)}
        content = self._index.replace(NONCE, nonce.encode())
        return Response(content, headers=headers, media_type="text/html")


def _codings(accepted: str) -> set[str]:
    """Return the codings of an Accept-Encoding header, without those of weight 0."""
    found = set()
    for part in accepted.lower().split(","):
        coding, _, weight = part.replace(" ", "").partition(";q=")
        if not weight or weight.strip("0."):
            found.add(coding)
    return found
