"""A scripted caller talks to an agent that answers after a pause."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from cordboard_testkit.media_thread import MediaThread
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.scenario import Conversation, ConversationRecord, ScriptLine
from cordboard_testkit.sip import PhoneCall, SipPhone
from cordboard_testkit.timeline import Samples

Bursts = Callable[..., Samples]


async def _agent(call: PhoneCall, sound: Samples, answers: int, *, hangs_up: bool) -> None:
    """Greet, then answer each thing that is said, like an agent."""
    for turn in range(answers + 1):
        call.say(sound)
        said = await call.said()
        if turn < answers:
            await call.hear_speech(after=said)
            await call.hear_silence()
    if hangs_up:
        call.hangup()


async def _talk(bursts: Bursts, lines: list[str], *, hangs_up: bool) -> ConversationRecord:
    media = MediaThread()
    agent, phone = SipPhone("agent", media=media), SipPhone(media=media)
    async with media, agent, phone:
        host, port = agent.address
        line = await phone.call(f"sip:agent@{host}:{port}")
        await line.answered()
        other_end = await agent.incoming()
        serving = asyncio.create_task(_agent(other_end, bursts(2), len(lines), hangs_up=hangs_up))
        started: list[str] = []
        conversation = Conversation(line, pause_ms=1000, patience=PATIENCE, on_line=started.append)
        script = [ScriptLine(text, bursts(1)) for text in lines]
        record = await conversation.run(script, wait_for_hangup=PATIENCE if hangs_up else 0)
        await serving
    assert started == lines
    assert len(line.turn_latencies(join=0.65)) == len(lines)
    return record


async def test_each_line_waits_for_the_agent(bursts: Bursts) -> None:
    """Side by side: an agent that stays on the line, and one that hangs up."""
    stays, leaves = await asyncio.gather(
        _talk(bursts, ["one", "two"], hangs_up=False),
        _talk(bursts, ["one", "two"], hangs_up=True),
    )
    assert (stays.hung_up_by_agent, leaves.hung_up_by_agent) == (False, True)
    for record in (stays, leaves):
        assert record.greeted_at is not None
        assert [exchange.text for exchange in record.exchanges] == ["one", "two"]
        first, second = record.exchanges
        assert first.answered_at is not None
        assert second.answered_at is not None
        assert first.said_at < first.answered_at < second.said_at < second.answered_at


async def test_a_silent_agent_is_waited_for_no_longer_than_patience(bursts: Bursts) -> None:
    async with SipPhone("agent") as agent, SipPhone() as phone:
        host, port = agent.address
        line = await phone.call(f"sip:agent@{host}:{port}")
        await line.answered()
        record = await Conversation(line, patience=0.3).run([ScriptLine("hello", bursts(1))])
    assert record.greeted_at is None
    assert record.exchanges[0].answered_at is None


async def test_a_filler_is_not_the_answer(bursts: Bursts) -> None:
    """The agent says a filler, is silent for longer than a pause, and then answers."""
    owed = [True, False, False]

    async def answer_owed() -> bool:
        return owed.pop(0)

    async with SipPhone("agent") as agent, SipPhone() as phone:
        host, port = agent.address
        line = await phone.call(f"sip:agent@{host}:{port}")
        await line.answered()
        other_end = await agent.incoming()

        async def serve() -> float:
            await other_end.hear_speech()
            await other_end.hear_silence(300)
            other_end.say(bursts(1))
            await other_end.said()
            await other_end.hear_silence(3000)  # it is the caller's: nothing is said meanwhile
            answered = time.monotonic()
            other_end.say(bursts(1))
            await other_end.said()
            said = await other_end.hear_speech(after=answered)
            await other_end.hear_silence(300)
            other_end.say(bursts(1))
            await other_end.said()
            return answered if said > answered else 0.0

        serving = asyncio.create_task(serve())
        conversation = Conversation(line, pause_ms=600, patience=PATIENCE, owed=answer_owed)
        script = [ScriptLine("one", bursts(1)), ScriptLine("two", bursts(1))]
        record = await conversation.run(script, wait_for_greeting=False)
        answered = await serving
    assert owed == []
    first, second = record.exchanges
    assert first.answered_at is not None
    assert first.answered_at >= answered, "the filler is not taken for the answer"
    assert second.answered_at is not None
