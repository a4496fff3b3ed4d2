"""The MCP side: two read-only tools over stdio.

``get_atis`` returns structured content (and the same as JSON text, for older clients). A report
that may not be spoken is a tool error whose text is one or two speakable sentences; the
machine-readable reason is in ``_meta``.
"""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from .model import AerodromeList, Atis, ReportUnavailableError
from .service import ICAO_PATTERN, AtisService

logger = logging.getLogger(__name__)

REASON_META = "cordboard.atis/reason"

# The pattern is published but the SDK does not enforce it: its own refusal is not speakable.
Icao = Annotated[
    str,
    Field(
        description="Four-letter ICAO code, for example ENGM; case does not matter",
        json_schema_extra={"pattern": ICAO_PATTERN},
    ),
]


def build_server(service: AtisService) -> MCPServer:
    """Return the server with its tools, not yet running."""
    server: MCPServer = MCPServer(
        "aviation-atis",
        version=version("cordboard"),
        instructions="Current aerodrome weather in spoken ATIS form. Speak atis_text as it is.",
    )
    read_only = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=True)

    @server.tool(
        title="Aerodrome weather (ATIS)",
        description="Current weather and runway information of an aerodrome, ready to be spoken.",
        annotations=read_only,
    )
    async def get_atis(icao: Icao) -> Annotated[CallToolResult, Atis]:
        try:
            answer = await service.atis(icao)
        except ReportUnavailableError as error:
            logger.info("get_atis icao=%r reason=%s %s", icao, error.reason, error.detail)
            return CallToolResult(
                content=[TextContent(type="text", text=error.because)],
                is_error=True,
                _meta={REASON_META: error.reason},
            )
        logger.info("get_atis icao=%s age_minutes=%d", answer.icao, answer.age_minutes)
        return CallToolResult(
            content=[TextContent(type="text", text=answer.model_dump_json())],
            structured_content=answer.model_dump(mode="json"),
        )

    @server.tool(
        title="Configured aerodromes",
        description="Names, aliases and ICAO codes of the aerodromes this server is set up for.",
        annotations=read_only,
    )
    async def list_aerodromes() -> AerodromeList:
        return service.aerodromes()

    return server
