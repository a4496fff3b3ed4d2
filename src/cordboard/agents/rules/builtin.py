"""Built-in intents of every context: yes, no, repeat, help, cancel, goodbye, ...

A context changes one with an intent of the same name, or switches it off with `enabled: false`.
`transfer` exists where the toolbox offers the tool; its destinations come from the tool itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cordboard.config.rules import Intent, Rules, Slot, WordList
from cordboard.tools.tool import ToolSpec

DESTINATIONS = "transfer_destination"
"""Name of the list of transfer destinations."""
HANG_UP_TOOL = "hangup_call"
TRANSFER_TOOL = "transfer"
KEYS_TOOL = "collect_digits"
YES, NO, REPEAT, HELP, CANCEL = "yes", "no", "repeat", "help", "cancel"
GOODBYE, THANKS, HELLO, TRANSFER = "goodbye", "thanks", "hello", "transfer"
WAY_OUT = "caller could not be understood"
"""The way out as an intent without sentences; its name is the reason for the hang-up."""
UNABLE = "unable"
"""A request to take back or to change something that no intent can; not an intent itself."""
STEERING = frozenset({YES, NO, REPEAT, HELP, CANCEL, THANKS, HELLO})

_SENTENCES: Mapping[str, tuple[str, ...]] = {
    YES: (),  # `speech.yes_or_no` reads these two
    NO: (),
    REPEAT: (
        "(repeat|pardon|come again)",
        "(can|could|would|will) you repeat [that|it]",
        "repeat [that|it|the] [last] [information|message|answer|report|one|part]",
        "[can|could] [you] say (that|it) (again|once more)",
        "(say again|once more|one more time|again)",
        "what did you [just] say",
        "what was that",
        "i (did not|could not) (hear|catch|get|understand) (that|it|you)",
        "(what|sorry|eh)",
        "tell me (that|it) again",
        "tell me again",
        "i beg your pardon",
    ),
    HELP: (
        "(help|help me|instructions|options)",
        "what can (i|you) (say|do|ask|help)",
        "what can you do [for] [me]",
        "what (are my|are the) options",
        "how does (this|it) work",
        "what should i say",
    ),
    CANCEL: (
        "(cancel|never mind|nevermind|forget it|stop|start over|abort)",
        "(cancel|forget) (that|it|this)",
        "i changed my mind",
    ),
    GOODBYE: (
        "(goodbye|bye|bye bye|farewell|so long)",
        "[no] (thanks|thank you) [very much|so much|a lot] (goodbye|bye|bye bye)",
        "(thanks|thank you) [very much] for [the|your] (help|information) (goodbye|bye|bye bye)",
        "(goodbye|bye|bye bye) [and] (thanks|thank you) [very much|so much]",
        "[no] [thanks|thank] [you] that is (all|everything) [i] [need|needed|wanted] [for] [today]",
        "[no] that (will be|would be|was) (all|everything|it)",
        "(that is it|that will do) (thanks|thank you|cheers)",
        "[no] (nothing else|nothing more|nothing)",
        "(hang up|end the call|finish the call|disconnect)",
        "i am (done|finished|all set)",
        "[you] have a (nice|good|great|lovely|wonderful|pleasant) (day|evening|one|night|weekend)",
        "(good night|take care|ta ta|cheerio|cheers (then|now|mate))",
        "(see|talk to|speak to|catch) you [again] [later|soon|then|around|tomorrow|next week]",
        "(talk|speak) soon",
        "see you [on|next] (monday|tuesday|wednesday|thursday|friday|saturday|sunday)",
        "i (have to|need to|must|have got to|better|should) (go|run) [now]",
    ),
    THANKS: (
        "[many] (thanks|thank you|cheers)",
        "thank you [very|so] much",
        "(thanks|thank you) [very much] for [the|your] (help|information)",
        "(great|perfect|wonderful)",
    ),
    HELLO: (
        "(hello|hi|hey|good morning|good afternoon|good evening)",
        "(hello|hi|hey) there",
        "are you there",
    ),
}  # fmt: skip
_WHICH = "[the|a|your] {transfer_destination:destination} [desk|department|team]"
_WANT = "[i|you|we] [can|could|would|may] [i|you|we] [like|want|need|have]"
_TRANSFER = (
    f"(transfer|connect|pass|put|forward) me [through|over|on] [to] {_WHICH}",
    f"{_WANT} [to] (speak|talk) (to|with) {_WHICH}",
    f"{_WANT} [get|give|have] [me] {_WHICH}",
    "(transfer|connect|forward) me",
    "put me through",
    f"{_WANT} [to] (speak|talk) (to|with) (someone|somebody|a person|a human|a colleague)",
)
_HUMANS = ("human", "person", "real person", "human being", "somebody", "someone", "agent")


def with_built_in(
    rules: Rules, toolbox: Sequence[ToolSpec]
) -> tuple[dict[str, Intent], dict[str, WordList]]:
    """The context's intents and lists with the built-in ones added, in order of preference."""
    intents = {name: intent for name, intent in rules.intents.items() if intent.enabled}
    lists = dict(rules.lists)
    for name, sentences in _SENTENCES.items():
        given = rules.intents.get(name)
        if given is None:
            intents[name] = Intent(sentences=sentences, hang_up=name == GOODBYE)
        elif given.enabled and not given.sentences:
            more = {"sentences": sentences, "hang_up": given.hang_up or name == GOODBYE}
            intents[name] = given.model_copy(update=more)
    out = rules.fallback.way_out
    ends = out.hang_up and not out.transfer
    intents[WAY_OUT] = Intent(before=out.say, transfer=out.transfer, hang_up=ends)
    destinations = destinations_of(toolbox)
    if destinations and TRANSFER not in rules.intents:
        lists[DESTINATIONS] = WordList(values=_said(destinations))
        intents[TRANSFER] = Intent(
            sentences=_TRANSFER,
            title="a person",
            slots={"destination": Slot(list=DESTINATIONS)},
            transfer="{destination}",
        )
    return intents, lists


def destinations_of(toolbox: Sequence[ToolSpec]) -> dict[str, str]:
    """Return the destinations of the transfer tool → how the agent names them: their description,
    or the name without one."""
    for spec in toolbox:
        if spec.name == TRANSFER_TOOL:
            schema = spec.parameters.get("properties", {}).get("destination", {})
            names = [str(name) for name in schema.get("enum", ())]
            return {name: _described(name, spec.description) for name in names}
    return {}


def _described(name: str, told: str) -> str:
    """Return the destination's description in the tool's own: `sales (Ticket sales)`."""
    match = re.search(rf"(?<!\w){re.escape(name)} \(([^)]+)\)", told)
    if match is None:
        return re.sub("[_-]", " ", name)
    first, rest = match[1][:1], match[1][1:]
    return match[1] if rest[:1].isupper() else first.lower() + rest


def _said(destinations: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return destination → its spoken forms. Callers ask the operator, or the only one, for `a
    human`."""
    humans = destinations.keys() if len(destinations) == 1 else ("operator",)
    return {
        name: (described, re.sub("[_-]", " ", name), *(_HUMANS if name in humans else ()))
        for name, described in destinations.items()
    }


def steering_of(intents: Mapping[str, Intent]) -> frozenset[str]:
    """Return the intents that steer the dialogue instead of running a task: the built-in ones,
    except those to which the context gave a task, such as a `cancel` with a tool."""
    return frozenset(n for n, i in intents.items() if n in STEERING and not (i.tool or i.slots))
