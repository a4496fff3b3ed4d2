"""Whole dialogues: what is asked, done and said."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from tests.agents.rules.conftest import Talk

from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agents.rules import RulesBrain
from cordboard.config.rules import Rules
from cordboard.config.schema import Config
from cordboard.config.tools.entry import TransferDestination
from cordboard.tools.builtin import CollectDigits, HangupCall, Transfer
from cordboard.tools.tool import JsonObject, Status, ToolReply, ToolSpec

from .conftest import TODAY

OFFER = (
    "I did not get that."
    " Shall I put you through to ticket sales, technical support or a human operator?"
)
ATIS = "mcp_aviation_atis_get_atis"


@pytest.mark.parametrize(
    "words",
    ["Thank you very much. Goodbye.", "Okay, thanks, bye.", "Goodbye and thank you so much."],
)
async def test_thanks_with_a_goodbye_end_the_call(demo: Talk, words: str) -> None:
    assert await demo.say(words) == "Goodbye."
    assert [name for name, _ in demo.asked] == ["hangup_call"]


async def test_thanks_alone_do_not_end_the_call(demo: Talk) -> None:
    assert await demo.say("Thanks for your help.") == "You are welcome."
    assert demo.asked == []


async def test_a_question_is_looked_up_and_the_reply_spoken_sentence_by_sentence(
    demo: Talk,
) -> None:
    demo.replies[ATIS] = (Status.OK, "Oslo information B. Wind calm. QNH 1013.", {})
    said = [s async for s in demo.dialogue.respond("What's the ATIS for Oslo Gardermoen?")]
    assert said == [
        "Oslo information B.",
        "Wind calm.",
        "QNH 1013.",
        "Would you like another aerodrome?",
    ]
    assert demo.asked == [(ATIS, {"icao": "ENGM"})]


async def test_a_missing_slot_is_asked_for(demo: Talk) -> None:
    assert await demo.say("What's the weather?") == "Which aerodrome?"
    await demo.say("Bergen")
    assert demo.asked == [(ATIS, {"icao": "ENBR"})]


async def test_an_unknown_value_is_named_as_such_and_asked_again_until_the_way_out(
    demo: Talk,
) -> None:
    assert (await demo.say("weather in Madrid")).startswith("I do not know that aerodrome.")
    assert (await demo.say("Dusseldorf")).startswith("I do not know that aerodrome.")
    assert (await demo.say("Brussels")).startswith("I do not know that aerodrome.")
    assert await demo.say("Dusseldorf") == OFFER
    assert demo.asked == []


async def test_a_doubtful_value_is_asked_about_and_never_acted_on_unasked(demo: Talk) -> None:
    assert await demo.say("weather for London Gatwick") == "Did you mean London Heathrow?"
    assert demo.asked == []
    assert await demo.say("no") == "Which aerodrome?"
    assert await demo.say("information for Orlando") == "Did you mean Stockholm Arlanda?"
    await demo.say("yes")
    assert demo.asked == [(ATIS, {"icao": "ESSA"})]


async def test_of_two_guesses_one_is_chosen(demo: Talk) -> None:
    question = "Did you mean Bergen Flesland or E M B R?"
    assert await demo.say("EMBR") == question
    assert await demo.say("yes") == question
    await demo.say("the first one")
    await demo.say("EMBR")
    await demo.say("Bergen Flesland")
    await demo.say("EMBR")
    await demo.say("the second one")
    assert [arguments["icao"] for _, arguments in demo.asked] == ["ENBR", "ENBR", "EMBR"]


async def test_the_offer_afterwards_is_taken_or_declined(demo: Talk) -> None:
    await demo.say("Boston weather")
    assert await demo.say("yes please") == "Which aerodrome?"
    await demo.say("Oslo")
    assert await demo.say("no thank you") == "Goodbye."
    assert demo.asked[-1] == ("hangup_call", {"reason": "caller said goodbye"})


async def test_a_failed_tool_is_said_in_the_words_for_that_failure(demo: Talk) -> None:
    demo.replies[ATIS] = (Status.TIMEOUT, "ignored", {})
    assert (await demo.say("Boston weather")).startswith("The weather service is not answering")
    demo.replies[ATIS] = (Status.ERROR, "No METAR for Boston.", {})
    assert (await demo.say("Boston weather")).startswith("No METAR for Boston.")
    demo.replies[ATIS] = (Status.CANCELLED, "", {})
    assert (await demo.say("Boston weather")).startswith("I am sorry, that did not work.")


async def test_confirmation_takes_yes_no_and_a_correction(reception: Talk) -> None:
    await reception.say("call me back tomorrow")
    assert "Sunday the twenty second of November" in await reception.say("John Smith")
    assert "Friday the twenty seventh of November" in await reception.say("no, Friday")
    assert await reception.say("no") == "All right. What should I change?"
    assert "Mary Jones" in await reception.say("no, Mary Jones")
    assert (await reception.say("that's right")).startswith("Thank you, Mary Jones.")


async def test_what_was_confirmed_is_asked_for_as_confirmed(demo: Talk) -> None:
    await demo.say("I want to buy a ticket")
    await demo.say("yes")
    await demo.say("Boston weather")
    assert demo.confirmed == [True, False]


@pytest.mark.parametrize("words", ["mhm", "by all means"])
async def test_a_yes_in_other_words_confirms(demo: Talk, words: str) -> None:
    await demo.say("I want to buy a ticket")
    assert (await demo.say(words)).startswith("I am putting you through to ticket sales.")


@pytest.mark.parametrize(("heard", "asked"), [("", 0), ("One moment.", 0), ("Shall I put you", 1)])
async def test_a_yes_before_the_question_was_heard_is_none(
    demo: Talk, heard: str, asked: int
) -> None:
    question = await demo.say("I want to buy a ticket")
    assert question == "Shall I put you through to sales?"
    demo.dialogue.interrupted(heard)
    again = await demo.say("yes please")
    assert len(demo.asked) == asked
    if not asked:
        assert again == question
        await demo.say("yes please")
        assert len(demo.asked) == 1


async def test_a_no_in_other_words_does_not(demo: Talk) -> None:
    await demo.say("I want to buy a ticket")
    assert demo.dialogue.is_complete("I'd rather not")
    assert not demo.dialogue.is_complete("mm-hmm"), "over the question it is only a murmur"
    await demo.say("I'd rather not")
    assert demo.asked == []


async def test_who_says_no_to_the_desk_is_not_told_what_a_model_would_be(demo: Talk) -> None:
    def declined(name: str, arguments: JsonObject) -> ToolReply:
        message = "The caller said no. It was not done. Do not ask for it again."
        return ToolReply("1", name, Status.REFUSED, message, refused="approval")

    demo.reply = declined
    answer = await demo.say("Boston weather")
    assert answer == "All right, never mind. Is there anything else I can do?"


async def test_nor_who_wants_what_is_over_a_limit() -> None:
    rules = Rules.model_validate({"intents": {"look": {"sentences": ["look"], "tool": "look"}}})
    talk = Talk(rules, ())
    message = "look may be used 2 times in a conversation, and was. Answer the caller."
    talk.replies["look"] = (Status.REFUSED, message, {})
    assert await talk.say("look") == "I am sorry, that did not work."
    talk.replies["look"] = (Status.ERROR, "The kitchen is closed.", {})
    assert await talk.say("look") == "The kitchen is closed."


async def test_where_there_are_no_examples_none_are_announced() -> None:
    hours = {"sentences": ["are you open"], "say": "Yes."}
    talk = Talk(Rules.model_validate({"intents": {"hours": hours}}), ())
    assert await talk.say("xyzzy plugh") == "I did not get that."
    assert await talk.say("xyzzy plugh") == "I still did not get that."


async def test_a_slot_out_of_bounds_is_refused(reception: Talk) -> None:
    answer = await reception.say("we want to visit with twenty people tomorrow")
    assert answer == "We can take one to twelve. How many people will come?"
    assert "A visit for 12 on Sunday" in await reception.say("twelve people")


async def test_transfer_speaks_first_and_goes_on_when_it_fails(demo: Talk) -> None:
    demo.replies["transfer"] = (Status.ERROR, "Sorry, I could not transfer you to sales.", {})
    answer = await demo.say("I want to buy a ticket")
    assert answer == "Shall I put you through to sales?"
    answer = await demo.say("yes")
    assert answer.startswith(
        "I am putting you through to ticket sales. Sorry, I could not transfer"
    )
    assert demo.asked == [("transfer", {"destination": "sales"})]
    await demo.say("transfer me")
    assert await demo.say(
        "support"
    ) == "I am putting you through to technical support. Reply of transfer." or (
        demo.asked[-1] == ("transfer", {"destination": "support"})
    )


async def test_say_again_repeats_the_whole_last_answer_even_when_it_was_cut(demo: Talk) -> None:
    demo.replies[ATIS] = (Status.OK, "One. Two. Three.", {})
    async with aclosing(demo.dialogue.respond("Boston weather")) as sentences:  # type: ignore[type-var]
        assert await anext(sentences) == "One."
    demo.dialogue.interrupted("One.")
    whole = "One. Two. Three. Would you like another aerodrome?"
    assert await demo.say("say again") == whole
    assert await demo.say("pardon") == whole
    assert len(demo.asked) == 1


@pytest.mark.parametrize("murmur", ["Uh-huh.", "Uh huh.", "Mm-hmm.", "Uh-huh, uh-huh."])
async def test_a_listeners_murmur_cuts_nothing_off_and_repeats_nothing(
    demo: Talk, murmur: str
) -> None:
    answer = await demo.say("What's the ATIS for Oslo Gardermoen?")
    assert not demo.dialogue.is_complete(murmur)
    assert await demo.say(murmur) != answer


async def test_the_greeting_can_be_repeated(demo: Talk) -> None:
    assert await demo.say("pardon?") == (
        "Flight information desk. Which aerodrome would you like the weather for?"
    )


async def test_not_understood_three_times_leads_to_the_way_out(demo: Talk) -> None:
    assert await demo.say("xyzzy plugh") == "I did not get that."
    second = await demo.say("")
    assert second.startswith("I still did not get that. You can say, for example: What is the ATIS")
    assert await demo.say("qwerty") == OFFER
    assert (await demo.say("")).endswith(OFFER)
    await demo.say("technical support then")
    assert demo.asked == [("transfer", {"destination": "support"})]


async def test_an_offer_that_is_not_taken_twice_becomes_a_transfer(demo: Talk) -> None:
    for words in ("xyzzy", "plugh", "qwerty", "help"):
        await demo.say(words)
    answer = await demo.say("yes")
    assert answer.startswith("Where may I put you through to? I can offer ticket sales,")
    answer = await demo.say("yes")
    assert answer == "I am putting you through to a human operator."
    assert demo.asked == [("transfer", {"destination": "operator"})]


@pytest.mark.parametrize(
    ("way_out", "chosen"), [({}, "sales"), ({"transfer": "support"}, "support")]
)
async def test_the_last_resort_is_the_way_out_else_the_first_destination(
    way_out: JsonObject, chosen: str
) -> None:
    desks = {
        name: TransferDestination(type="extension", target="1") for name in ("sales", "support")
    }
    rules = Rules.model_validate({"fallback": {"way_out": way_out}})
    talk = Talk(rules, (HangupCall().spec, Transfer(desks).spec))
    assert "I can offer sales or support" in await talk.say("put me through")
    await talk.say("qwerty")
    assert talk.asked == []
    await talk.say("qwerty")
    assert talk.asked == [("transfer", {"destination": chosen})]


@pytest.mark.parametrize(("key", "chosen"), [("2", "support"), ("9", "operator")])
async def test_where_keys_can_be_collected_the_caller_chooses_by_one(
    config: Config, key: str, chosen: str
) -> None:
    talk = Talk(Rules(), (Transfer(config.destinations).spec, CollectDigits().spec))
    talk.replies["collect_digits"] = (Status.OK, "Thank you.", {"digits": key})
    for _ in range(4):
        await talk.say("qwerty")
    assert talk.asked == []
    answer = await talk.say("qwerty")
    assert "Press 1 for ticket sales. Press 2 for technical support. Press 3 for a" in answer
    assert [name for name, _ in talk.asked] == ["collect_digits", "transfer"]
    assert talk.asked[1] == ("transfer", {"destination": chosen})
    assert await talk.say("hello") == "How can I help you?"


async def test_a_question_that_is_never_answered_leads_to_one_offer() -> None:
    intent = {"sentences": ["book"], "slots": {"day": {"list": "date", "retries": 0}}, "say": "So."}
    desk = TransferDestination(type="extension", target="1", description="Front desk")
    rules = Rules.model_validate({"intents": {"book": intent}})
    talk = Talk(rules, (Transfer({"desk": desk}).spec,))
    assert await talk.say("book") == "What is the day?"
    answer = await talk.say("qwerty")
    assert answer == "I did not get that. Shall I put you through to front desk?"


async def test_who_declines_is_not_put_through(demo: Talk) -> None:
    for words in ("xyzzy", "plugh", "qwerty", "qwerty", "no") * 3:
        await demo.say(words)
    assert demo.asked == []


async def test_where_nobody_else_can_be_reached_the_way_out_ends_the_call() -> None:
    talk = Talk(Rules(), (HangupCall().spec,))
    for text in ("xyzzy", "plugh", "qwerty"):
        answer = await talk.say(text)
    assert "Goodbye." in answer
    assert talk.asked == [("hangup_call", {"reason": "caller could not be understood"})]


async def test_the_only_destination_is_offered_by_its_description() -> None:
    front = TransferDestination(type="extension", target="1", description="Front office")
    talk = Talk(Rules(), (HangupCall().spec, Transfer({"tanya": front}).spec))
    for text in ("xyzzy", "plugh", "qwerty"):
        answer = await talk.say(text)
    assert answer.endswith("Shall I put you through to front office?")
    assert await talk.say("yes") == "I am putting you through to front office."
    assert talk.asked == [("transfer", {"destination": "tanya"})]


async def test_a_declined_offer_of_the_only_destination_is_no_form_to_correct() -> None:
    desk = TransferDestination(type="extension", target="1", description="The front desk")
    talk = Talk(Rules(), (HangupCall().spec, Transfer({"desk": desk}).spec))
    for text in ("xyzzy", "plugh", "qwerty"):
        answer = await talk.say(text)
    assert answer.endswith("Shall I put you through to the front desk?")
    answer = await talk.say("no")
    assert answer == "All right, never mind. Is there anything else I can do?"
    assert await talk.say("no") == "Goodbye."
    assert talk.asked == [("hangup_call", {"reason": "caller said goodbye"})]


async def test_something_understood_starts_the_count_anew(demo: Talk) -> None:
    await demo.say("xyzzy plugh")
    await demo.say("xyzzy plugh")
    await demo.say("help")
    assert await demo.say("xyzzy plugh") == "I did not get that."


async def test_the_way_out_may_be_a_transfer(reception: Talk) -> None:
    for text in ("xyzzy", "", "plugh"):
        await reception.say(text)
    assert reception.asked == [("transfer", {"destination": "sales"})]


async def test_a_pending_question_survives_help_thanks_and_noise(demo: Talk) -> None:
    await demo.say("the weather please")
    assert (await demo.say("help")).endswith("Which aerodrome?")
    assert await demo.say("thank you") == "Which aerodrome?"
    again = await demo.say("xyzzy plugh qwerty asdf")
    assert again.startswith("I did not get that. Please say the name of the aerodrome")
    await demo.say("Frankfurt")
    assert demo.asked == [(ATIS, {"icao": "EDDF"})]


async def test_cancel_ends_what_was_begun(demo: Talk) -> None:
    await demo.say("the weather please")
    assert (await demo.say("never mind")).startswith("All right, never mind.")
    assert await demo.say("no") == "Goodbye."


async def test_closing_while_the_tool_runs_leaves_a_usable_dialogue(
    toolbox: tuple[ToolSpec, ...], demo: Talk
) -> None:
    started = asyncio.Event()

    async def never(name: str, arguments: JsonObject, *, confirmed: bool = False) -> ToolReply:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    rules = Rules.model_validate(
        {"intents": {"slow": {"sentences": ["do it"], "tool": "slow", "before": "One moment."}}}
    )
    brain = RulesBrain(rules, today=lambda: TODAY)
    dialogue = brain.open(DialogueSession("", toolbox, never))

    async def listen() -> list[str]:
        return [sentence async for sentence in dialogue.respond("do it")]

    task = asyncio.create_task(listen())
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert [s async for s in dialogue.respond("hello")] == ["How can I help you?"]


async def test_no_rules_at_all_is_still_an_agent(toolbox: tuple[ToolSpec, ...]) -> None:
    talk = Talk(None, toolbox, greeting="Hello there.")
    assert await talk.say("pardon?") == "Hello there."
    assert await talk.say("help") == "Just tell me what you need."
    assert await talk.say("put me through to sales") == (
        "I am putting you through to ticket sales."
    )
    assert await talk.say("good bye") == "Goodbye."
    assert [name for name, _ in talk.asked] == ["transfer", "hangup_call"]


async def test_without_the_tools_nothing_is_asked_of_them() -> None:
    talk = Talk(None, ())
    assert await talk.say("goodbye") == "Goodbye."
    assert await talk.say("put me through to sales") == "I did not get that."
    assert talk.asked == []


async def test_two_things_that_fit_alike_are_asked_about() -> None:
    rules = Rules.model_validate(
        {
            "intents": {
                "bill": {"title": "the bill", "sentences": ["question about bill"], "say": "Bill."},
                "till": {"title": "the till", "sentences": ["question about till"], "say": "Till."},
            }
        }
    )
    talk = Talk(rules, ())
    assert await talk.say("a question about dill") == "Did you mean the bill or the till?"
    assert await talk.say("the second one") == "Till."
    await talk.say("a question about dill")
    assert await talk.say("the till") == "Till."


async def test_tool_arguments_keep_types_and_leave_out_what_is_open() -> None:
    rules = Rules.model_validate(
        {
            "intents": {
                "book": {
                    "sentences": ["book a table [for {number:people}] [under {name}]"],
                    "slots": {"name": {"required": False}},
                    "tool": "book",
                    "arguments": {"people": "{people}", "who": "{name}", "note": "for {people}"},
                    "say": "Booked for {people}, reference {data.reference.0}, {caller_name}.",
                }
            }
        }
    )
    talk = Talk(rules, (HangupCall().spec,), variables={"caller_name": "Ann"})
    talk.replies["book"] = (Status.OK, "", {"reference": ["R7"]})
    assert await talk.say("book a table for four") == "Booked for 4, reference R7, Ann."
    assert await talk.say("book a table for 2 under Miller")
    assert talk.asked == [
        ("book", {"people": 4, "note": "for 4"}),
        ("book", {"people": 2, "who": "Miller", "note": "for 2"}),
    ]


async def test_a_built_in_intent_can_be_changed_or_switched_off() -> None:
    rules = Rules.model_validate(
        {
            "intents": {
                "goodbye": {"say": "Blue skies."},
                "thanks": {"enabled": False},
                "repeat": {"sentences": ["say it louder"]},
            }
        }
    )
    talk = Talk(rules, (HangupCall().spec,), greeting="Hi.")
    assert await talk.say("say it louder") == "Hi."
    assert await talk.say("thank you") == "I did not get that."
    assert await talk.say("bye") == "Blue skies."
    assert [name for name, _ in talk.asked] == ["hangup_call"]


async def test_hints_name_what_is_expected_and_stay_short(demo: Talk, reception: Talk) -> None:
    hints = demo.dialogue.hints()
    assert "Oslo Gardermoen" in hints
    assert "ATIS" in hints
    assert any("for E N S H?" in hint for hint in hints)
    assert not any("E N G M" in hint or "November Golf" in hint for hint in hints)
    assert hints.index("Kastrup") > hints.index("Copenhagen Kastrup")
    assert sum(len(hint.split()) for hint in hints) <= 70
    await demo.say("the weather please")
    assert demo.dialogue.hints()[0] == "E N S H, please."
    assert "Echo November Sierra Hotel, please." in demo.dialogue.hints()


async def test_a_whole_answer_is_recognised_as_such(demo: Talk) -> None:
    complete = demo.dialogue.is_complete
    assert complete("What's the weather in Boston?")
    assert complete("goodbye")
    assert not complete("What's the weather")
    assert not complete("What's the weather in")
    assert not complete("Hello. What is the")
    assert not complete("Sorry, what about")
    assert not complete("yes")
    await demo.say("the weather please")
    assert complete("E N G M")
    assert complete("Bergen")
    assert not complete("E N G")
    assert not complete("it's the")
    await demo.say("London Gatwick")
    assert complete("yes")
    assert complete("no")


ROOM = Rules.model_validate(
    {
        "intents": {
            "cancel_room": {
                "title": "a cancellation",
                "sentences": ["[please] cancel my room"],
                "confirm": "Shall I cancel your room?",
                "tool": "cancel_room",
            }
        }
    }
)


@pytest.mark.parametrize(
    ("words", "done"),
    [
        ("Yes.", True),
        ("Yes it is.", True),
        ("Sure, go ahead.", True),
        ("Definitely.", True),
        ("Not sure.", False),
        ("not yes", False),
        ("Is that right?", False),
        ("are you sure", False),
        ("did you say yes", False),
        ("Yes, but how much is it?", False),
        ("Okay, so how much?", False),
        ("why would I say yes", False),
    ],
)
async def test_only_a_plain_yes_agrees(words: str, done: bool) -> None:
    asked: list[str] = []

    async def run(name: str, arguments: JsonObject, *, confirmed: bool = False) -> ToolReply:
        asked.append(name)
        return ToolReply("1", name, Status.OK, "Done.", {})

    toolbox = (ToolSpec("cancel_room", "http", "", {}),)
    session = DialogueSession("", toolbox, run, {}, "")
    dialogue = RulesBrain(ROOM, today=lambda: TODAY).open(session)
    for text in ("Cancel my room, please.", words):
        said = [sentence async for sentence in dialogue.respond(text)]
    assert asked == (["cancel_room"] if done else [])
    assert done or "Shall I cancel your room?" in said


@pytest.mark.parametrize(
    "words",
    [
        "Do not hang up.",
        "please don't hang up",
        "I said hello, not goodbye.",
        "he told me to hang up",
        "I never said end the call.",
    ],
)
async def test_a_farewell_that_is_denied_is_none(demo: Talk, words: str) -> None:
    await demo.say(words)
    assert demo.asked == []


@pytest.mark.parametrize(
    "words",
    [
        "No, that's all, bye.",
        "I do not need anything else goodbye",
        "Okay, thanks. Hang up.",
        "you can hang up now",
        "Please hang up.",
        "just end the call",
        "that was all thank you bye",
        "not today, thanks. Bye.",
    ],
)
async def test_a_farewell_after_a_denial_is_one(demo: Talk, words: str) -> None:
    await demo.say(words)
    assert [name for name, _ in demo.asked] == ["hangup_call"]


@pytest.mark.parametrize(
    "words",
    [
        "i never said goodbye",
        "my friend said bye",
        "can we talk to a human later",
        "why did you talk to a human",
        "he told me to hang up",
    ],
)
async def test_what_others_said_and_other_times_order_nothing(demo: Talk, words: str) -> None:
    await demo.say(words)
    assert demo.asked == []


async def test_another_persons_yes_does_not_agree(demo: Talk) -> None:
    await demo.say("I want to buy a ticket")
    await demo.say("my husband says yes")
    assert demo.asked == []
    await demo.say("I said yes")
    assert [name for name, _ in demo.asked] == ["transfer"]
