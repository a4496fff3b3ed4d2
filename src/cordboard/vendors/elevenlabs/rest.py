"""The part of ElevenLabs' HTTP API that agents need: signed addresses, agents and their tools.

One client per use; nothing is kept between uses. Failures are raised as `AgentError` with their
kind; their messages contain no key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import quote, urlsplit

import orjson

from cordboard.errors import AgentError
from cordboard.net.failures import RequestFailed
from cordboard.net.service_http import ServiceHttp
from cordboard.tools.tool import JsonObject
from cordboard.vendors.elevenlabs.errors import refused

BASE_URL = "https://api.elevenlabs.io"
MAX_ANSWER_BYTES = 8 * 1024 * 1024
PAGE = 100
"""Tools per page, the service's maximum."""
_MOST_PAGES = 100


class ElevenLabsRest:
    """Requests of one account. Use as `async with`."""

    def __init__(
        self,
        base_url: str | None,
        key: str,
        seconds: float,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`seconds`: the timeout of one request. `headers`: those of each request; default: the
        key's."""
        self._base_url = (base_url or BASE_URL).rstrip("/")
        self._seconds = seconds
        self._key = key
        self._http = ServiceHttp(
            "ElevenLabs",
            self._base_url,
            {"xi-api-key": key} if headers is None else headers,
            connect_seconds=seconds,
            silence_seconds=seconds,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def signed_url(self, agent_id: str, more: Mapping[str, str]) -> str:
        """Return a websocket address for one conversation; it contains a signature."""
        subject = f"the agent {agent_id}"
        path = "/v1/convai/conversation/get-signed-url"
        answer = await self._ask("GET", path, subject, {"agent_id": agent_id, **more})
        url = answer.get("signed_url")
        wanted = "wss" if self._base_url.startswith("https:") else "ws"
        if not isinstance(url, str) or urlsplit(url).scheme not in ("wss", wanted):
            raise AgentError("ElevenLabs gave no signed address that can be used", "garbage")
        return url

    async def agent(self, agent_id: str) -> JsonObject:
        """Return an agent with its whole configuration."""
        return await self._ask("GET", _agent_path(agent_id), f"the agent {agent_id}")

    async def patch_agent(self, agent_id: str, changes: JsonObject) -> JsonObject:
        """Merge changes into an agent; return the result."""
        subject = f"the change of agent {agent_id}"
        return await self._ask("PATCH", _agent_path(agent_id), subject, body=changes)

    async def tools(self) -> list[JsonObject]:
        """Return all client tools of the workspace."""
        found: list[JsonObject] = []
        query = {"types": "client", "page_size": str(PAGE)}
        for _ in range(_MOST_PAGES):
            page = await self._ask("GET", "/v1/convai/tools", "the list of tools", query)
            tools = page.get("tools")
            found += [tool for tool in tools or () if isinstance(tool, dict)]
            cursor = page.get("next_cursor")
            if not page.get("has_more") or not isinstance(cursor, str):
                return found
            query = {**query, "cursor": cursor}
        raise AgentError("the list of tools at ElevenLabs does not end", "garbage")

    async def create_tool(self, config: JsonObject) -> str:
        """Create a tool; return its id."""
        subject = f"the tool {config.get('name')}"
        made = await self._ask("POST", "/v1/convai/tools", subject, body={"tool_config": config})
        tool_id = made.get("id")
        if not isinstance(tool_id, str) or not tool_id:
            raise AgentError(f"ElevenLabs gave {subject} no id", "garbage")
        return tool_id

    async def update_tool(self, tool_id: str, config: JsonObject) -> None:
        """Replace a tool's configuration."""
        subject = f"the tool {config.get('name')}"
        await self._ask("PATCH", _tool_path(tool_id), subject, body={"tool_config": config})

    async def delete_tool(self, tool_id: str) -> None:
        await self._ask("DELETE", _tool_path(tool_id), f"the end of tool {tool_id}")

    async def _ask(
        self,
        method: str,
        path: str,
        subject: str,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
    ) -> JsonObject:
        content: dict[str, Any] = {"params": dict(query or {})}
        if body is not None:
            content["content"] = orjson.dumps(body)
            content["headers"] = {"Content-Type": "application/json"}
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._http.request(method, path, any_status=True, **content) as response,
            ):
                told = await response.aread()
        except (TimeoutError, RequestFailed) as error:
            late = isinstance(error, TimeoutError) or error.kind == "stalled"
            reason = f"ElevenLabs did not answer within {self._seconds:g} s" if late else str(error)
            raise AgentError(reason, "connect") from None
        answer = _parsed(told)
        if not response.is_success:
            lost = refused(response.status_code, self._without_key(_said(answer)), subject)
            raise AgentError(lost.reason, lost.kind)
        return answer if isinstance(answer, dict) else {}

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def _agent_path(agent_id: str) -> str:
    return f"/v1/convai/agents/{quote(agent_id, safe='')}"


def _tool_path(tool_id: str) -> str:
    return f"/v1/convai/tools/{quote(tool_id, safe='')}"


def _parsed(content: bytes) -> Any:
    if len(content) > MAX_ANSWER_BYTES:
        raise AgentError("ElevenLabs' answer is too long", "garbage")
    try:
        return orjson.loads(content) if content.strip() else {}
    except orjson.JSONDecodeError:
        return None


def _said(answer: Any) -> str:
    """Return an error's words: `{"detail": {"status", "message"}}`, or the findings of a 422."""
    detail = answer.get("detail") if isinstance(answer, dict) else None
    if isinstance(detail, dict):
        told = (detail.get("status"), detail.get("message"))
        return ": ".join(part for part in told if isinstance(part, str))
    if isinstance(detail, list):
        return "; ".join(_finding(entry) for entry in detail[:5] if isinstance(entry, dict))
    return detail if isinstance(detail, str) else ""


def _finding(entry: JsonObject) -> str:
    place = entry.get("loc")
    where = ".".join(map(str, place)) if isinstance(place, list) else ""
    return f"{where}: {entry.get('msg', '')}" if where else str(entry.get("msg", ""))
