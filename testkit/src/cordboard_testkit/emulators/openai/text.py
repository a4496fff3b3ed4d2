"""OpenAI's Chat Completions and Responses, emulated.

Refusals and their words follow OpenAI's OpenAPI description and error messages in public
reports: unknown fields, a wrong key, unknown models, tools with bad names or schemas, results that
are missing or have no call, parameters that reasoning models no longer accept.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cordboard_testkit.emulators.openai.chat_words import ChatWords
from cordboard_testkit.emulators.openai.responses_words import ResponsesWords
from cordboard_testkit.emulators.openai.words import MODELS
from cordboard_testkit.emulators.script import Script
from cordboard_testkit.emulators.text_service import KEY, TextEmulator


class OpenAITextEmulator(TextEmulator):
    """`/v1/chat/completions`, `/v1/responses`, `/v1/models`, `/v1/models/{model}`."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        key: str = KEY,
        port: int = 0,
        models: tuple[str, ...] = MODELS,
        retry_after: float = 1,
    ) -> None:
        chat, responses = ChatWords(key, models), ResponsesWords(key, models)

        async def answer_chat(request: Request) -> Response:
            return await self.answer(request, chat)

        async def answer_responses(request: Request) -> Response:
            return await self.answer(request, responses)

        async def one_model(request: Request) -> Response:
            return self.look(request, chat, request.path_params["model"], _model)

        async def all_models(request: Request) -> Response:
            data = [_model(name) for name in models]
            return self.look(request, chat, models[0], lambda _: {"object": "list", "data": data})

        routes = [
            Route("/v1/chat/completions", answer_chat, methods=["POST"]),
            Route("/v1/responses", answer_responses, methods=["POST"]),
            Route("/v1/models", all_models),
            Route("/v1/models/{model}", one_model),
        ]
        super().__init__(script or Script(), routes, retry_after, port)

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1, "owned_by": "openai"}
