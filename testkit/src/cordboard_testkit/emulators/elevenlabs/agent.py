"""ElevenLabs Agents, emulated: HTTP (signed addresses, agents, tools) and conversations.

    async with ElevenLabsEmulator(script) as service:
        settings = ElevenLabsAgentProvider(agent_id=service.agent_id, base_url=service.url, ...)

Written from the service's AsyncAPI document and the types of its SDK. It refuses what the service
refuses: wrong keys, unknown agents, fields and message types, overrides that the agent does not
permit, audio with half samples, results without a call. Where the documents are silent (the words
of a close, the effect of a late result) the behaviour is a guess and marked as one.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request as Handshake

from cordboard.tools.tool import JsonObject
from cordboard_testkit.emulators.elevenlabs.conversation import Conversation, Setting
from cordboard_testkit.emulators.elevenlabs.workspace import VOICE, Workspace, new_agent
from cordboard_testkit.emulators.http_service import Book, HttpService, Refused
from cordboard_testkit.emulators.script import Prompter, Script
from cordboard_testkit.emulators.speech import Beeper, Speaker

KEY = "xi-emulated"
SIGNATURE_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Received:
    """One message of a client."""

    at: float
    """`time.monotonic`."""
    connection: int
    """Counted from 1."""
    message: Any
    """The parsed JSON; None if it was not JSON."""


class ElevenLabsEmulator:
    """The server; a context manager."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        speaker: Speaker | None = None,
        key: str = KEY,
        port: int = 0,
        agent: JsonObject | None = None,
        any_tool: bool = True,
        ping_s: float = 2.0,
        faster: float = 4.0,
        voices: tuple[str, ...] = (VOICE,),
        writes: float = 0.0,
        queue_s: float = 0.0,
        admits: bool = True,
    ) -> None:
        """`agent`: made by `new_agent`; the default permits all overrides and speaks ulaw.
        `any_tool`: the script may request tools that the agent does not have. `faster`: speed of
        the outgoing audio, as a multiple of real time. `writes`: share of an answer's audio that
        is sent before its words. `queue_s`: seconds for which each caller waits in the queue, with
        music; `admits`: False if they wait in vain."""
        self._prompter = Prompter(script or Script())
        self._speaker = speaker or Beeper()
        self._key = key
        self._any_tool = any_tool
        self._ping_s = ping_s
        self._faster = faster
        self._voices = frozenset(voices)
        self._writes, self._queue_s, self._admits = writes, queue_s, admits
        agent = agent or new_agent("agent_emulated")
        self.agent_id = str(agent["agent_id"])
        self.workspace = Workspace()
        self.workspace.agents[self.agent_id] = agent
        self.received: list[Received] = []
        """Messages received by websocket, in order."""
        self.book = Book()
        """Requests received by HTTP."""
        self.violations: list[str] = []
        self.closes: list[tuple[int, str]] = []
        """The codes with which it closed connections, and the reasons."""
        self.open = 0
        """Open conversations."""
        self._signatures: dict[str, float] = {}
        self._news = asyncio.Event()
        routes = [
            Route("/v1/convai/conversation/get-signed-url", self._signed_url),
            Route("/v1/convai/agents/{agent_id}", self._agent, methods=["GET", "PATCH"]),
            Route("/v1/voices/{voice_id}", self._voice),
            Route("/v1/convai/tools", self._tools, methods=["GET", "POST"]),
            Route("/v1/convai/tools/{tool_id}", self._tool, methods=["GET", "PATCH", "DELETE"]),
            WebSocketRoute("/v1/convai/conversation", self._conversation),
        ]
        self._service = HttpService(routes, _Droppable, port=port)

    async def __aenter__(self) -> Self:
        await self._service.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._service.__aexit__(*error)

    @property
    def url(self) -> str:
        """The base URL, for a configuration or an SDK."""
        return self._service.origin

    @property
    def connections(self) -> int:
        """Number of websocket handshakes so far."""
        return self._prompter.connections

    def of(self, kind: str) -> list[Any]:
        """The messages of one type, in order."""
        messages = (one.message for one in self.received if isinstance(one.message, dict))
        return [message for message in messages if message.get("type") == kind]

    async def until(self, condition: Callable[[], bool], seconds: float = 5.0) -> None:
        """Wait until received messages make the condition true."""
        async with asyncio.timeout(seconds):
            while not condition():
                self._news.clear()
                await self._news.wait()

    # HTTP.

    async def _signed_url(self, request: Request) -> Response:
        async def answer(_: Any) -> Any:
            agent_id = request.query_params.get("agent_id", "")
            self.workspace.agent(agent_id)
            signature = f"cvtkn_{len(self._signatures):06d}"
            self._signatures[signature] = time.monotonic() + SIGNATURE_SECONDS
            query = urlencode({"agent_id": agent_id, "conversation_signature": signature})
            origin = self.url.replace("http", "ws", 1)
            return {"signed_url": f"{origin}/v1/convai/conversation?{query}"}

        return await self._answer(request, answer)

    async def _agent(self, request: Request) -> Response:
        async def answer(body: Any) -> Any:
            agent_id = request.path_params["agent_id"]
            if request.method == "PATCH":
                self.workspace.patch_agent(agent_id, body)
            return self.workspace.agent(agent_id)

        return await self._answer(request, answer)

    async def _voice(self, request: Request) -> Response:
        async def answer(_: Any) -> Any:
            voice_id = request.path_params["voice_id"]
            if voice_id not in self._voices:
                raise Refused(400, f"A voice with voice_id {voice_id} was not found.", "voice_id")
            return {"voice_id": voice_id, "name": "Emulated"}

        return await self._answer(request, answer)

    async def _tools(self, request: Request) -> Response:
        async def answer(body: Any) -> Any:
            if request.method == "POST":
                return self.workspace.create_tool(body)
            size = int(request.query_params.get("page_size", 30))
            if size > 100:
                raise Refused(422, "Input should be less than or equal to 100", "page_size")
            start = int(request.query_params.get("cursor") or 0)
            tools = list(self.workspace.tools.values())
            more = start + size < len(tools)
            page = {"tools": tools[start : start + size], "has_more": more}
            return {**page, "next_cursor": str(start + size) if more else None}

        return await self._answer(request, answer)

    async def _tool(self, request: Request) -> Response:
        async def answer(body: Any) -> Any:
            tool_id = request.path_params["tool_id"]
            if request.method == "DELETE":
                self.workspace.delete_tool(tool_id)
                return {}
            if request.method == "PATCH":
                return self.workspace.update_tool(tool_id, body)
            return self.workspace.tool(tool_id)

        return await self._answer(request, answer)

    async def _answer(self, request: Request, answer: Callable[[Any], Awaitable[Any]]) -> Response:
        content = await request.body()
        try:
            body = json.loads(content) if content else None
        except ValueError:
            body = None
        path, headers = request.url.path, dict(request.headers)
        self.book.note(request.method, path, dict(request.query_params), headers, body)
        self._news.set()
        try:
            if headers.get("xi-api-key") != self._key:
                raise Refused(401, "Invalid API key", "invalid_api_key")
            return JSONResponse(await answer(body))
        except Refused as refused:
            self.violations.append(f"{request.method} {path}: {refused.code}: {refused.message}")
            detail: Any = {"status": refused.code, "message": refused.message}
            if refused.status == 422:
                detail = [{"loc": [refused.code], "msg": refused.message, "type": "value_error"}]
            return JSONResponse({"detail": detail}, refused.status)

    # Conversations.

    async def _conversation(self, socket: WebSocket) -> None:
        self._prompter.connections += 1
        number = self._prompter.connections
        fault = self._prompter.fault("connect")
        if fault is not None and fault.do == "refuse":
            status = int(fault.code) or 503
            detail = {"detail": {"status": "refused", "message": "No."}}
            await socket.send_denial_response(JSONResponse(detail, status))
            return
        if fault is not None and fault.do == "drop":
            socket.scope["extensions"]["drop"]["abort"]()
            return
        if fault is not None and fault.do == "stall":
            await socket.receive()
            await socket.receive()  # until it gives up
            return
        await socket.accept()
        self._news.set()
        refused = self._why_not(socket.query_params)
        if refused:  # the code and the words are a guess
            self.violations.append(refused)
            self.closes.append((1008, refused))
            await socket.close(1008, refused)
            return
        setting = self._setting(socket.query_params["agent_id"], number)
        self.open += 1
        try:
            await Conversation(socket, setting).run()
        finally:
            self.open -= 1
            self._news.set()

    def _why_not(self, query: Mapping[str, str]) -> str:
        agent = self.workspace.agents.get(query.get("agent_id", ""))
        if agent is None:
            return "The AI agent you are trying to reach does not exist."
        if agent["platform_settings"]["auth"]["enable_auth"]:
            good_until = self._signatures.get(query.get("conversation_signature", ""), 0.0)
            if good_until < time.monotonic():
                return "Could not authorize the conversation."
        return ""

    def _setting(self, agent_id: str, number: int) -> Setting:
        def note(message: Any) -> None:
            self.received.append(Received(time.monotonic(), number, message))
            self._news.set()

        return Setting(
            agent=self.workspace.agents[agent_id],
            tools=self.workspace.client_tools(agent_id),
            any_tool=self._any_tool,
            prompter=self._prompter,
            speaker=self._speaker,
            ping_s=self._ping_s,
            faster=self._faster,
            voices=self._voices,
            writes=self._writes,
            queue_s=self._queue_s,
            admits=self._admits,
            note=note,
            violate=self.violations.append,
            closed=lambda code, reason: self.closes.append((code, reason)),
        )


class _Droppable(WebSocketsSansIOProtocol):
    """A websocket whose connection the application can reset (`extensions.drop.abort`)."""

    def handle_connect(self, event: Handshake) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):
            extensions: dict[Any, Any] = self.scope["extensions"]
            extensions["drop"] = {"abort": self.transport.abort}
