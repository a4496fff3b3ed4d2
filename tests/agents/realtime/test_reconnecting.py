"""The reasons that a call gets for a service that cannot be reached: the same for each service."""

from __future__ import annotations

import http
import ssl

import pytest
from websockets.asyncio.server import ServerConnection, serve

from cordboard.agent_api.agent import AgentFailed
from cordboard.agent_api.provider import Parts
from cordboard.agent_api.service_protocol import ServiceProtocol
from cordboard.agents.making import make
from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.errors import AgentError
from cordboard.net.service_websocket import Address, ServiceConnection
from cordboard.vendors.openai.config import OpenAILiveProvider
from cordboard_testkit.free_ports import free_port

from .plain_service import Caller
from .stalling_services import WIRES, StallingConnection, StallingService

NAMES = {"openai": "OpenAI", "deepgram": "Deepgram", "gemini": "Gemini", "elevenlabs": "ElevenLabs"}
SECTIONS = [wire.settings for wire in WIRES.values()] + [
    OpenAILiveProvider.model_validate({"type": "openai_live"})
]


def agent_at(section: RealtimeProvider, port: int) -> RealtimeAgent:
    section = section.model_copy(update={"base_url": f"http://127.0.0.1:{port}"})
    parts = RealtimeParts(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), None)
    return RealtimeAgent(make("agent", section, Parts("key")), section, section.type, parts)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.type)
async def test_a_service_that_is_not_there_is_named_once(section: RealtimeProvider) -> None:
    agent = agent_at(section, free_port())
    with pytest.raises(AgentError) as failure:
        await agent.prepare()
    await agent.close()
    assert failure.value.kind == "connect"
    assert str(failure.value) == f"{section.type} cannot be reached (connection refused)"


@pytest.mark.parametrize("name", WIRES)
async def test_a_service_that_does_not_come_back_is_told_as_one_that_never_was(name: str) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    service = StallingService(name, "never", base_url=url, reconnect_attempts=1)
    made: list[StallingConnection | ServiceConnection] = []

    def connect(address: Address, peer: str) -> StallingConnection | ServiceConnection:
        made.append(
            service.connect(address, peer) if not made else ServiceConnection(address, peer)
        )
        return made[-1]

    agent = service.agent(connect)
    caller = Caller("")
    await agent.start(caller.session)
    first = made[0]
    assert isinstance(first, StallingConnection)
    first.lose(1011, "our own fault")
    failed = await caller.until(AgentFailed)
    await agent.close()
    kind = service.wire.settings.type
    assert (failed.kind, failed.reason) == (
        "connect",
        f"{kind} cannot be reached (connection refused)",
    )


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.type)
@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (404, "refused"), (503, "connect")])
async def test_a_refused_handshake_is_told_in_the_words_of_the_service(
    section: RealtimeProvider, status: int, kind: str
) -> None:
    def refuse(connection: ServerConnection, _: object) -> object:
        body = '{"error": {"message": "Not today."}}'
        return connection.respond(http.HTTPStatus(status), body)

    async with serve(_nothing, "127.0.0.1", 0, process_request=refuse) as server:
        agent = agent_at(section, next(iter(server.sockets)).getsockname()[1])
        with pytest.raises(AgentError) as failure:
            await agent.prepare()
        await agent.close()
    vendor = NAMES[section.type.partition("_")[0]]
    reason = str(failure.value)
    assert failure.value.kind == kind
    assert reason.count(vendor) == 1
    assert reason.count(str(status)) == 1
    assert "websocket" not in reason
    assert status == 401 or "Not today." in reason


@pytest.mark.parametrize("name", WIRES)
async def test_a_lost_connection_is_told_with_the_words_of_the_close(name: str) -> None:
    protocol = StallingService(name, "never").agent()
    lost = protocol._protocol.lost(None, 1011, "Deadline expired.")
    assert lost.reason.count(NAMES[name]) == 1
    assert lost.reason.count("Deadline expired.") == 1


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.type)
def test_a_protocol_is_known_as_one_before_its_session_begins(section: RealtimeProvider) -> None:
    """Python 3.11 reads its properties for that."""
    assert isinstance(make("agent", section, Parts("key")), ServiceProtocol)


async def _nothing(_: ServerConnection) -> None: ...
