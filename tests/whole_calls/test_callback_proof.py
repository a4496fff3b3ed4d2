"""A caller who proves who they are at the telephone that is known of them; with real SIP phones."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest

from cordboard.calls.events import Answering, CallerVerified, ToolAnswered
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import until
from cordboard_testkit.sip import SipPhone

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]
NUMBER = "4790000003"
OURS = "4722000000"


def proven(tree: dict[str, Any]) -> None:
    """Orders are for those who prove who they are."""
    tree["contexts"]["orders"] = deepcopy(tree["contexts"]["orders"])
    tree["outbound"] = {
        "enabled": True,
        "endpoint": "PJSIP/phone-{digits}",
        "caller_id": f"+{OURS}",
        "caller_name": "Bicycle shop",
    }
    tree["firewall"] = {
        "country": "NO",
        "tools": {"place_order": {"step_up": "callback", "tainted": "allow"}},
        "callback": {"from": "variables.KNOWN_NUMBER"},
    }


async def code_of(caller, count: int) -> str:
    """The code that the agent tells the caller for the `count`-th time."""
    call_id = await caller.call_id()

    def codes() -> list[str]:
        texts = [each.text for each in caller.hotline.of(call_id) if isinstance(each, Answering)]
        return [code for text in texts for code in re.findall(r"\d, \d, \d, \d", text)]

    await until(lambda: len(codes()) >= count)
    return codes()[count - 1].replace(", ", "")


async def test_only_the_right_code_from_the_known_telephone_is_a_proof(open_hotline, asterisk):
    async with (
        open_hotline(proven) as hotline,
        SipPhone("known", answers=False, ring_seconds=0.3) as known,
    ):
        await asterisk.connect_phone(NUMBER, known.address)
        caller = await hotline.dial("known")
        await caller.greeted_to_the_end()

        # The telephone hangs up: nothing is ordered, and the call goes on.
        await caller.say("Please place my order.")
        there = await known.incoming()
        assert there.caller.user.endswith(OURS)
        there.answer()
        await there.hear_speech()
        there.hangup()
        refused = await caller.event(ToolAnswered)
        assert refused.status == "refused"
        assert (await caller.event(CallerVerified)).ok is False
        await caller.told_after(ToolAnswered)

        asked = await caller.say("Please place my order.")
        code = await code_of(caller, 2)
        there = await known.incoming()
        there.answer()
        await there.hear_speech()
        there.press(code)
        verified = await caller.event(CallerVerified, count=2)
        assert (verified.proof, verified.ok) == ("callback", True)
        await there.ended()
        done = await caller.event(ToolAnswered, count=2)
        assert (done.status, done.message) == ("ok", "At last.")
        await caller.told_after(ToolAnswered, 2)
        assert "at last" in await caller.heard(since=asked)
        caller.line.hangup()
        assert (await caller.history()).outcome == "completed"
        await hotline.idle()
        await assert_line_clean(asterisk)
