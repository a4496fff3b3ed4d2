"""A call that a killed engine was placing, through Asterisk: its number is not called again."""

from __future__ import annotations

import signal

import pytest
from ruamel.yaml import YAML

from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.patience import until
from cordboard_testkit.sip import SipPhone

from .conftest import Program, wait_ready
from .test_outbound import http

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_a_request_that_is_sent_again_to_a_killed_engine_calls_nobody_twice(
    program: Program, asterisk: AsteriskInstance
) -> None:
    yaml = YAML(typ="safe")
    tree = yaml.load(program.config)
    tree["outbound"] = {
        "enabled": True,
        "endpoint": "PJSIP/phone-{digits}",
        "campaigns": str(program.folder / "campaigns.db"),
    }
    tree["firewall"] = {"country": "NO"}
    tree["contexts"]["survey"] = {"greeting": "Good morning.", "rules": {}}
    yaml.dump(tree, program.config)
    call_id = "0f0e0d0c-0b0a-4908-8706-050403020101"
    wanted = {"number": "+4790000004", "context": "survey", "call_id": call_id}
    async with SipPhone("4790000004", answers=False, ring_seconds=0.3) as phone:
        await asterisk.connect_phone("4790000004", phone.address)
        await program.run()
        await program.ready()
        port = program.http_port
        assert await http(port, "/calls", wanted) == (202, {"call_id": call_id})
        there = await phone.incoming()
        program.send(signal.SIGKILL)
        await program.ended()
        await program.run()
        await wait_ready(port)
        assert (await there.ended()).status == 487, "it still rings"
        assert await http(port, "/calls", wanted) == (202, {"call_id": call_id})
        _, state = await http(port, f"/calls/{call_id}")
        assert (state["state"], state["outcome"]) == ("ended", "interrupted")
        status, _ = await http(port, "/calls", {**wanted, "call_id": call_id[:-1] + "2"})
        assert status == 202
        (await phone.incoming()).reject()  # the next call: there was none in between
        await until(lambda: len(program.ledgers()) == 2)
