"""A written conversation with a running engine: its `/chat`, read as it comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx2
import orjson

from cordboard.errors import EngineRefused, EngineUnreachable
from cordboard.net.failures import HTTP_ERRORS, kind_of_error
from cordboard.net.proxy import proxy_for
from cordboard.net.server_events import server_events
from cordboard.net.service_http import on_the_way
from cordboard.net.tls import trusted

READ_SECONDS = 60.0
"""Timeout without any data; the engine sends something every 15 s."""


class RemoteChat:
    """One conversation. The first message begins it."""

    def __init__(self, url: str, token: str, context: str | None, model: str | None) -> None:
        """Without a context, the engine's `default_context`. Raises `EngineUnreachable` for a URL
        that cannot belong to an engine."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise EngineUnreachable(
                f"{url!r} is not the URL of an engine, such as http://HOST:15000"
            )
        self._url = url
        self._token = token
        chosen = {"context": context, "model": model}
        self._chosen = {name: value for name, value in chosen.items() if value is not None}
        self.session_id = ""
        self.over = False

    def say(self, message: str | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Send a message (None: begin with the greeting alone); yield the events as they come.

        Raises `EngineUnreachable` or `EngineRefused`.
        """
        body: dict[str, Any] = {"message": message} if message is not None else {}
        if self.session_id:
            body["session_id"] = self.session_id
        else:
            body |= self._chosen
        done = False
        with self._answer("POST", "/chat", orjson.dumps(body)) as answer:
            try:
                for event in server_events(answer):
                    data = orjson.loads(event.data)
                    self.session_id = data.get("session_id", self.session_id)
                    done = event.event == "done"
                    self.over = done and data["state"] == "ended"
                    yield event.event, data
            except HTTP_ERRORS:
                done = False
        if not done:
            raise EngineUnreachable(
                f"the engine at {self._url} broke off in the middle of an answer"
            )

    def end(self) -> None:
        """End the conversation, if it continues. Failures are ignored: it ends by itself later."""
        if not self.session_id or self.over:
            return
        self.over = True
        with (
            suppress(EngineRefused, EngineUnreachable),
            self._answer("DELETE", f"/chat/{self.session_id}", None),
        ):
            pass

    @contextmanager
    def _answer(self, method: str, path: str, body: bytes | None) -> Iterator[httpx2.Response]:
        """Yield a good answer, not read yet. Raises `EngineUnreachable` or `EngineRefused`."""
        if not (self._token.isascii() and self._token.isprintable()):
            message = "CORDBOARD_TOKEN has characters that no HTTP header can have (a line break?)"
            raise EngineUnreachable(message)
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        url = self._url.rstrip("/")
        with ExitStack() as opened:
            try:
                way = on_the_way(url.startswith("https:") and trusted(), proxy_for(url))
                client = opened.enter_context(httpx2.Client(timeout=READ_SECONDS, **way))
                answer = opened.enter_context(
                    client.stream(method, url + path, headers=headers, content=body)
                )
            except (*HTTP_ERRORS, OSError) as error:
                message = f"the engine at {self._url} {kind_of_error(error).words}"
                raise EngineUnreachable(message) from None
            if answer.status_code != 200:
                raise self._refused(answer)
            yield answer

    def _refused(self, answer: httpx2.Response) -> EngineRefused:
        reason = f"HTTP status {answer.status_code}"
        with suppress(orjson.JSONDecodeError, KeyError, TypeError, *HTTP_ERRORS):
            reason = orjson.loads(answer.read())["error"]
        if answer.status_code in (401, 403) and not self._token:
            reason = f"{reason}; set CORDBOARD_TOKEN here to the engine's admin.token"
        words = f"the engine at {self._url} refused: {reason}"
        return EngineRefused(words, answer.status_code)
