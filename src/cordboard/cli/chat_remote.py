"""A conversation in writing with a running engine: its `/chat`, read as it comes."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from cordboard.errors import EngineRefused, EngineUnreachable

READ_SECONDS = 60.0
"""Without a word; the engine says something every 15 s."""
_MOST_BYTES = 1024 * 1024


class RemoteChat:
    """One conversation. The first message begins it."""

    def __init__(self, url: str, token: str, context: str) -> None:
        """Raises `EngineUnreachable` for a URL that cannot be one of an engine."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise EngineUnreachable(f"{url!r} is no URL of an engine, such as http://HOST:15000")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else None
        self._connect = kind or http.client.HTTPConnection
        self._host, self._port, self._path = parts.hostname, port, parts.path.rstrip("/")
        self._url = url
        self._token = token
        self._context = context
        self.session_id = ""
        self.over = False

    def say(self, message: str | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Send a message (None: begin with the greeting alone); the events as they come.

        Raises `EngineUnreachable` or `EngineRefused`.
        """
        body: dict[str, Any] = {"message": message} if message is not None else {}
        if self.session_id:
            body["session_id"] = self.session_id
        else:
            body["context"] = self._context
        connection = self._connect(self._host, self._port, timeout=READ_SECONDS)
        try:
            response = self._request(connection, "POST", "/chat", orjson.dumps(body))
            done = False
            for name, data in events(iter(response.readline, b"")):
                self.session_id = data.get("session_id", self.session_id)
                done = name == "done"
                self.over = done and data["state"] == "ended"
                yield name, data
            if not done:  # a cut answer is no error to `readline`
                raise EngineUnreachable(
                    f"the engine at {self._url} broke off in the middle of an answer"
                )
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        finally:
            connection.close()

    def end(self) -> None:
        """End the conversation, if it goes on. Whatever fails: it ends by itself, some time."""
        if not self.session_id or self.over:
            return
        self.over = True
        connection = self._connect(self._host, self._port, timeout=READ_SECONDS)
        try:
            self._request(connection, "DELETE", f"/chat/{self.session_id}", None)
        except (OSError, http.client.HTTPException, EngineRefused):
            pass
        finally:
            connection.close()

    def _request(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        try:
            connection.request(method, self._path + path, body, headers)
        except ValueError:  # http.client's word for a header that cannot be sent
            message = "CORDBOARD_TOKEN has characters that no HTTP header can have (a line break?)"
            raise EngineUnreachable(message) from None
        response = connection.getresponse()
        if response.status == 200:
            return response
        content = response.read(_MOST_BYTES)
        try:
            reason = orjson.loads(content)["error"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            reason = f"HTTP status {response.status}"
        if response.status in (401, 403) and not self._token:
            reason = f"{reason}; set CORDBOARD_TOKEN here as in the engine's environment"
        words = f"the engine at {self._url} refused: {reason}"
        raise EngineRefused(words, response.status)

    def _unreachable(self, error: Exception) -> EngineUnreachable:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return EngineUnreachable(f"the engine at {self._url} cannot be reached: {reason}")


def events(lines: Iterator[bytes]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The events of a stream (WHATWG HTML, section 9.2.6); comments are passed over."""
    name, data = "", b""
    for line in lines:
        field, _, value = line.rstrip(b"\r\n").partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value.decode()
        elif field == b"data":
            data += value
        elif not line.strip() and data:
            yield name, orjson.loads(data)
            name, data = "", b""
