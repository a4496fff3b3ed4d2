"""Lines without a telephone refuse what they cannot do, each by its name and with the reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cordboard.calls.offer import LineControl, TransferTarget
from cordboard.errors import LineUnsupported
from cordboard.telephony.asterisk.audiosocket_server import BareLine
from cordboard.telephony.browser.source import BrowserLine
from cordboard.telephony.scripted_caller import ScriptedCaller

NOTHING: Any = None
SALES = TransferTarget("sales", "extension", "6001", "internal")
LINES: dict[str, Callable[[], LineControl]] = {
    "a call by AudioSocket()": lambda: BareLine(NOTHING),
    "a call from a browser": lambda: BrowserLine("", NOTHING, {}, lambda: None),
    "a test call": lambda: ScriptedCaller(NOTHING, b""),
}


async def consult(line: LineControl) -> None:
    line.consult(SALES, lambda event: None)


async def invite(line: LineControl) -> None:
    line.invite(SALES, lambda event: None)


ACTS: dict[str, Callable[[LineControl], Awaitable[object]]] = {
    "be transferred": lambda line: line.transfer(SALES, lambda: None),
    "have a consultation": consult,
    "be joined by a third party": invite,
    "see the state of devices": lambda line: line.device_state("PJSIP/6001"),
    "play hold music": lambda line: line.music("default"),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("act", ACTS)
async def test_an_act_is_refused_with_the_line_and_the_reason(name: str, act: str) -> None:
    line = LINES[name]()
    await line.answer()
    reason = "that needs ARI" if name == "a call by AudioSocket()" else "it has no telephone"
    with pytest.raises(LineUnsupported) as refused:
        await ACTS[act](line)
    assert str(refused.value) == f"{name} cannot {act}: {reason}"


async def test_keys_are_refused_where_only_ari_could_send_them() -> None:
    with pytest.raises(LineUnsupported, match="cannot be sent keys: that needs ARI"):
        await BareLine(NOTHING).dtmf("1")


async def test_a_call_without_a_dialplan_has_no_channel_variables() -> None:
    assert await BareLine(NOTHING).variable("AI_CONTEXT") is None
    assert await ScriptedCaller(NOTHING, b"").variable("AI_CONTEXT") is None
