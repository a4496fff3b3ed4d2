"""GET /tools: every tool of the configuration in force, and what is not offered and why.

GET /tools                       {context: null, tools: [{name, kind, origin, …}]}
GET /tools?context=demo          those that this context lists
GET /tools?provider=gemini       also as that provider is given them: {…, provider: {tools, …}}
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cordboard.agent_api.provider import tool_user
from cordboard.api.answers import JsonAnswer, list_to_json, to_json
from cordboard.config.plugins import installed
from cordboard.errors import NotThere
from cordboard.generation.tool_listing import ToolListing


class ToolLister(Protocol):
    """Who knows the tools."""

    def tools(self, context: str | None = None) -> ToolListing:
        """The tools as of now, at once. Raises `NotThere` for a context that there is not."""
        ...


def tool_list(lister: ToolLister) -> Callable[[Request], Awaitable[Response]]:
    """The handler; who may ask is for others to judge."""

    async def answer(request: Request) -> Response:
        context = request.query_params.get("context") or None
        provider = request.query_params.get("provider") or None
        try:
            listing = lister.tools(context)
            body = await asyncio.to_thread(_written, listing, provider)
        except NotThere as error:
            raise HTTPException(404, str(error)) from None
        return JsonAnswer(body)

    return answer


def _written(listing: ToolListing, provider: str | None) -> bytes:
    """Tool by tool, so that one that cannot be written hides no other."""
    profile = tool_user(installed(), provider).schemas if provider is not None else None
    whole = listing.as_json(provider, profile)
    parts = [b'"context":' + to_json(whole["context"]), list_to_json("tools", whole["tools"])[1:-1]]
    if provider is not None:
        parts.append(b'"provider":' + to_json(whole["provider"]))
    return b"{" + b",".join(parts) + b"}"
