"""The dialplan for an installation, as text and in a real Asterisk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cordboard.config.schema import Config
from cordboard.telephony.asterisk.dialplan import dialplan, dialplan_for
from cordboard.telephony.asterisk.instance import SORCERY
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.sip import SipPhone

PAGE = Path(__file__).parents[3] / "docs" / "asterisk.md"
SHARED_PAGE = PAGE.with_name("cluster-asterisk.md")


def config(*contexts: str, **more: Any) -> Config:
    tree = {"contexts": {name: {} for name in contexts}, "asterisk": {"password": "x"}, **more}
    return Config.model_validate(tree)


def test_the_page_shows_the_dialplan_that_is_printed() -> None:
    (block,) = re.findall(
        r"```ini\n(; extensions\.conf\n\[from-internal\].*?)```", PAGE.read_text(), re.S
    )
    first, *lines = block.splitlines()
    shown = [first, *filter(None, (line.partition(";")[0].rstrip() for line in lines))]
    assert shown == dialplan_for(config("demo")).splitlines()


def test_the_page_of_several_engines_shows_the_lines_that_are_used() -> None:
    sorcery, shown = re.findall(r"```ini\n(.*?)\n```", SHARED_PAGE.read_text(), re.S)
    assert sorcery == SORCERY
    lines = (line.partition(" ;")[0].rstrip() for line in shown.splitlines()[1:])
    assert list(lines) == dialplan([], {}, shared=True).strip().splitlines()


def test_numbers_are_those_of_the_routes_and_free_ones_for_the_other_contexts() -> None:
    routes = {"701": "sales", "+4940123": "sales"}
    text = dialplan_for(config("desk", "sales", "late", routes=routes))
    numbers = dict(re.findall(r"^exten => (.+),1,Goto\(cordboard-(\w+),s,1\)$", text, re.M))
    assert numbers == {"701": "sales", "+4940123": "sales", "700": "desk", "702": "late"}
    assert re.findall(r"Set\(AI_CONTEXT=(\w+)\)", text) == ["desk", "sales", "late"]


def test_the_application_is_that_of_the_file() -> None:
    asterisk = {"password": "x", "app": "second.engine"}
    assert "exten => s,1,Stasis(second.engine)\n" in dialplan_for(config("demo", asterisk=asterisk))


def test_freepbx_has_a_file_and_a_context_for_its_numbers() -> None:
    text = dialplan_for(config("demo"), freepbx=True)
    assert text.startswith("; extensions_custom.conf\n[from-internal-custom]\nexten => 700,1,")


@pytest.mark.parametrize("number", ["7,1,System(reboot)", "7\nexten => 8", "", "7;8", "${X}"])
def test_a_route_that_no_dialplan_takes_adds_no_line(number: str) -> None:
    text = dialplan_for(config("demo", routes={number: "demo"}))
    assert text == "; extensions.conf\n" + dialplan_for(config("demo")).partition(",s,1)\n")[2]


@pytest.mark.asterisk
async def test_a_phone_that_dials_the_number_reaches_the_agent(open_board: Any) -> None:
    lines = dialplan_for(config("desk", "sales", routes={"4711": "sales"}))
    async with AsteriskInstance(
        dialplan=f"[from-test-extra]\ninclude => from-internal\n{lines}"
    ) as pbx:
        async with open_board(pbx) as board, SipPhone() as phone:
            for count, (number, context) in enumerate({"700": "desk", "4711": "sales"}.items(), 1):
                call = await phone.call(pbx.sip_uri(number))
                offer = (await board.exchange.next(count)).offer
                assert offer.variables["AI_CONTEXT"] == context
                assert offer.called_number == number
                await call.answered()
                call.hangup()
                await board.exchange.idle()
        async with SipPhone() as phone:
            call = await phone.call(pbx.sip_uri("700"))
            await call.answered()
            await call.hear_speech()  # nobody is available: the dialplan says so
            call.hangup()
