"""The disclosure of a written conversation: with the first answer, and proven in its ledger."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from hashlib import sha256
from typing import Any

import pytest

from .conftest import Parlour, Script, read, say, until

WORDS = "I am an automated assistant."
DEMO = {"greeting": "Good day.", "disclosure": WORDS}


async def answer_all(script: Script, text: str) -> AsyncGenerator[str, None]:
    yield "Yes."


def proofs(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        (line["type"].removeprefix("announcement."), line.get("reason", line.get("audio", "")))
        for line in lines
        if line["type"].startswith("announcement.")
    ]


@pytest.mark.parametrize("first", [None, "hello"])
async def test_it_opens_the_first_answer_and_the_ledger_proves_it(
    parlour: Parlour, first: str | None
) -> None:
    sessions = await parlour.open(answer_all, contexts={"demo": DEMO})
    session, answer = sessions.begin("demo", first)
    events = await read(answer)
    opening = [e.data["text"] for e in events if e.name == "token" and e.data["turn"] == 0]
    assert "".join(opening) == f"{WORDS} Good day."
    assert opening[0] == WORDS
    later = await say(session, "and now?")
    assert WORDS not in str([event.data for event in later])
    assert parlour.script is not None
    assert parlour.script.sessions[0].greeting == f"{WORDS} Good day.", "the model knows"
    await session.end("completed", "caller_hangup")
    lines = parlour.ledger(session.session_id)
    (heard,) = [line for line in lines if line["type"] == "announcement.heard"]
    assert (heard["kind"], heard["text"], heard["audio"]) == ("disclosure", WORDS, "text")
    assert heard["text_sha256"] == sha256(WORDS.encode()).hexdigest()
    assert heard["audio_sha256"] == ""
    said = [line["text"] for line in lines if line["type"] == "agent.text"]
    assert said[:2] == [WORDS, "Good day."]


async def test_a_client_that_stopped_reading_gets_it_again(parlour: Parlour) -> None:
    sessions = await parlour.open(answer_all, contexts={"demo": DEMO})
    session = sessions.open("demo")
    answer = session.take("hello")
    assert (await anext(answer)).name == "session"
    assert (await anext(answer)).data["text"] == WORDS
    answer.leave()  # it was handed out, but nothing says that it reached the client
    await until(lambda: session._answering is None)
    again = await say(session, "are you there?")
    texts = [event.data["text"] for event in again if event.name == "token"]
    assert "".join(texts) == f"{WORDS} Yes."
    assert WORDS not in str(await say(session, "and now?"))
    await session.end("completed", "caller_hangup")
    lines = parlour.ledger(session.session_id)
    assert proofs(lines) == [("unheard", "cut"), ("heard", "text")]


async def test_it_may_have_variables_and_without_a_word_nothing_is_proven(parlour: Parlour) -> None:
    sessions = await parlour.open(answer_all, contexts={"demo": {"disclosure": "{caller_name}?"}})
    session = sessions.open("demo", {"caller_name": "Ada"})
    await say(session, "hello")
    await session.end("completed", "caller_hangup")
    assert proofs(parlour.ledger(session.session_id)) == [("heard", "text")]
    silent = sessions.open("demo")
    await silent.end("completed", "caller_silent")
    assert proofs(parlour.ledger(silent.session_id)) == []


async def test_an_answer_that_ends_the_conversation_is_read_to_its_end(parlour: Parlour) -> None:
    async def goodbye(script: Script, text: str) -> AsyncGenerator[str, None]:
        await script.ask("hangup_call", reason="all said")
        yield "Goodbye."

    contexts = {"demo": {**DEMO, "tools": ["hangup_call"]}}
    sessions = await parlour.open(goodbye, contexts=contexts)
    session, answer = sessions.begin("demo", "bye")
    await until(lambda: session._answering is None)
    await read(answer)  # a slow client
    await session.end("completed", "later")
    assert proofs(parlour.ledger(session.session_id)) == [("heard", "text")]
