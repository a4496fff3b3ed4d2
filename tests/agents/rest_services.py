"""The REST endpoints of all services by which keys, models and voices are verified, as strict as
the services: another path, a missing header or a wrong key is refused as the vendor refuses it.
Their realtime sessions take everything: who is strict about them are the emulators.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from cordboard.vendors.anthropic.messages import VERSION
from cordboard_testkit.emulators.http_service import HttpService

KEY = "right-key-000"


class RestServices(HttpService):
    """All vendors at one port, each below a path of its own."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.teams: list[str | None] = []
        """The header `X-Team` of each request."""
        self.trouble: int | None = None
        """Answer everything with this status."""
        get = ["GET"]
        super().__init__(
            [
                Route("/openai/v1/models", self._list, methods=get),
                Route("/openai/v1/models/{name}", self._openai, methods=get),
                Route("/anthropic/v1/models/{name}", self._anthropic, methods=get),
                Route("/gemini/v1beta/models/{name}", self._gemini, methods=get),
                Route("/deepgram/v1/auth/token", self._deepgram_key, methods=get),
                Route("/deepgram/v1/models", self._deepgram_models, methods=get),
                Route("/elevenlabs/v1/convai/agents/{name}", self._agent, methods=get),
                Route("/elevenlabs/v1/voices/{name}", self._voice, methods=get),
                Route("/elevenlabs/v1/models", self._elevenlabs_models, methods=get),
                WebSocketRoute("/openai/v1/realtime", self._session),
                WebSocketRoute("/deepgram/v1/agent/converse", self._session),
                WebSocketRoute("/gemini/ws/{method}", self._session),
            ],
            WebSocketsSansIOProtocol,
        )

    def url(self, vendor: str) -> str:
        return f"{self.origin}/{vendor}"

    def _note(self, request: Request) -> Response | None:
        self.asked.append(request.url.path)
        self.teams.append(request.headers.get("x-team"))
        if self.trouble is not None:
            return JSONResponse({"error": {"message": "no"}}, self.trouble)
        return None

    async def _session(self, socket: WebSocket) -> None:
        self.asked.append(socket.url.path)
        self.teams.append(socket.headers.get("x-team"))
        await socket.accept()
        await socket.send_json({"type": "Welcome", "request_id": "r"})
        await socket.receive()
        for accepted in ({"type": "session.updated", "session": {}}, {"type": "SettingsApplied"}):
            await socket.send_json(accepted)
        await socket.send_json({"setupComplete": {}})
        await socket.receive()

    async def _list(self, request: Request) -> Response:
        """As of a service that only speaks like OpenAI, without keys."""
        listed = [{"id": "llama3.2", "object": "model"}, {"id": "qwen3", "object": "model"}]
        return self._note(request) or JSONResponse({"object": "list", "data": listed})

    async def _openai(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            error = {"message": "Incorrect API key provided", "code": "invalid_api_key"}
            return self._note(request) or JSONResponse({"error": error}, 401)
        name = request.path_params["name"]
        if name not in ("gpt-realtime-2.1", "gpt-transcribe", "gpt-5.4-mini", "gpt-4o-mini-tts"):
            error = {"message": f"The model '{name}' does not exist", "code": "model_not_found"}
            return self._note(request) or JSONResponse({"error": error}, 404)
        return self._note(request) or JSONResponse({"id": name, "object": "model"})

    async def _anthropic(self, request: Request) -> Response:
        noted = self._note(request)
        if noted is not None:
            return noted
        if request.headers.get("anthropic-version") != VERSION:
            return JSONResponse({"type": "error"}, 400)
        if request.headers.get("authorization") != f"Bearer {KEY}":
            error = {"type": "authentication_error", "message": "API key is invalid."}
            return JSONResponse({"type": "error", "error": error}, 401)
        name = request.path_params["name"]
        return JSONResponse({"type": "model", "id": name}, 200 if "claude" in name else 404)

    async def _gemini(self, request: Request) -> Response:
        noted = self._note(request)
        if noted is not None:
            return noted
        if request.headers.get("x-goog-api-key") != KEY or request.query_params:
            details = [{"reason": "API_KEY_INVALID", "domain": "googleapis.com"}]
            error = {"code": 400, "status": "INVALID_ARGUMENT", "details": details}
            return JSONResponse({"error": error}, 400)
        methods = {"live": ["bidiGenerateContent"], "text": ["generateContent"]}
        name = request.path_params["name"]
        if name not in methods:
            return JSONResponse({"error": {"code": 404, "status": "NOT_FOUND"}}, 404)
        found = {"name": f"models/{name}", "supportedGenerationMethods": methods[name]}
        return JSONResponse(found)

    async def _deepgram_key(self, request: Request) -> Response:
        noted = self._note(request)
        if noted is not None:
            return noted
        if request.headers.get("authorization") != f"Token {KEY}":
            return JSONResponse({"err_code": "INVALID_AUTH", "err_msg": "Invalid."}, 401)
        return JSONResponse({"api_key_id": "x", "scopes": []})

    async def _deepgram_models(self, request: Request) -> Response:
        listed = {
            "stt": [{"name": "nova-3", "canonical_name": "nova-3", "architecture": "base"}],
            "tts": [{"name": "thalia", "canonical_name": "aura-2-thalia-en"}],
        }
        return self._note(request) or JSONResponse(listed)

    def _elevenlabs(self, request: Request) -> Response | None:
        noted = self._note(request)
        if noted is not None:
            return noted
        key = request.headers.get("xi-api-key")
        if key == "limited":
            detail = {"status": "missing_permissions", "message": "The API key is limited"}
            return JSONResponse({"detail": detail}, 401)
        if key != KEY:
            return JSONResponse({"detail": {"status": "invalid_api_key"}}, 401)
        return None

    async def _agent(self, request: Request) -> Response:
        refused = self._elevenlabs(request)
        if refused is not None:
            return refused
        name = request.path_params["name"]
        return JSONResponse({"agent_id": name}, 200 if name == "agent_1" else 404)

    async def _voice(self, request: Request) -> Response:
        refused = self._elevenlabs(request)
        if refused is not None:
            return refused
        if request.path_params["name"] != "voice1":
            return JSONResponse({"detail": {"status": "voice_not_found"}}, 400)
        return JSONResponse({"voice_id": "voice1"})

    async def _elevenlabs_models(self, request: Request) -> Response:
        return self._elevenlabs(request) or JSONResponse([{"model_id": "eleven_flash_v2_5"}])
