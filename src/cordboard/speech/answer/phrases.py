"""Reads from words what has answered a call: the wording of recorded announcements, in English.

The recogniser mishears, so each phrase is short. The order matters: an announcement that asks for
the caller's name "at the tone" is a screening service, and one that says "press pound when you are
finished" after "leave a message" is a voicemail. What only a live person says (a question to us)
outweighs the weak signs of a machine: "he is not available, can I take a message?" is a person.

A screening service is known by what it does, not by one sentence: it asks who calls or why, says
that it screens calls, calls itself an assistant, speaks of the person called as of a third one, and
tells what it does with the answer. Each is a mark. A person shows one of them; two are a service,
and so is an order to state one's name.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Answer(StrEnum):
    """The party that has answered."""

    HUMAN = "human"
    VOICEMAIL = "voicemail"
    SCREENING = "screening"
    """A machine that asks who calls and why, and then puts the call through or not."""
    IVR = "ivr"
    """A menu of keys."""
    FAX = "fax"
    INTERCEPT = "intercept"
    """The network's announcement, or its tones (SIT): the number is not in service."""
    BUSY = "busy_tone"
    RINGBACK = "ringback"
    """Answered, but it goes on ringing: a gateway, or a forwarded call."""
    SILENCE = "silence"
    MACHINE = "machine"
    """Recorded speech or music that does not stop; which kind is not known (yet)."""


_MISHEARD = r"(?:to|too|for|won|u)\b"
"""Two, four and one, as the recogniser writes them after "press"."""
_NUMBER = r"(?:one|two|three|four|five|six|seven|eight|nine|zero|[0-9]+)\b"
_KEY = rf"(?:{_NUMBER}|(?:pound|star|hash)\b|[#*])"
_PRESS = re.compile(
    rf"\b(?:dial|push|select|choose|hit|key)(?: in)? (?:the |option |number )?{_KEY}"
    rf"|\bpress(?:ed)?(?: or say)? (?:the )?(?:{_KEY}|{_MISHEARD})"
    rf"|\b(?:for|to) \w+(?: \w+){{0,3}}[,.]? (?:press|dial|push|select)\b(?: {_KEY})?"
    r"|\b[0-9](?: or [0-9])?,? to (?!the\b)[a-z]{4,}"
)
"""One choice of a menu; in the last form its "press" was not heard."""
_LIST = re.compile(
    rf"\b(?:one|1)\b[,.]? (?:for )?(?!{_NUMBER}|moment|sec|minute)[a-z]{{3,}}[a-z' ]*[,.]? "
    rf"(?:and |or )?(?:two|2)\b[,.]? (?:for )?(?!{_NUMBER})[a-z]{{3,}}"
)
"""Numbered choices: "one, new orders, two, deliveries"."""

_ORDER = re.compile(
    r"\b(?:state|say|record|give|speak|tell (?:me|us)|announce|identify)"
    r" (?:(?:your (?:full |first |last |and )*name|yourself)\b|who(?:'s| is| are| you)\b)"
    r"|(?<!leave )\byour name and (?:the |your )?(?:reason|why|purpose)"
    r"|\b(?:state|say|record|give|tell (?:me|us)) (?:\w+ ){0,3}(?:reason|purpose) (?:for|of) "
    r"|\b(?:does|do) not (?:accept|take) .{0,20}(?:unidentified|anonymous|private|blocked|unknown)"
)
"""Orders to state who calls, or why."""
_ASKS = (
    r"\bwho(?:'s|m)? .{0,16}\b(?:calling|speaking)\b|\bwho you are\b"
    r"|\bwhat (?:[\w']+ ){0,4}(?:about|regarding)\b|\bwhy (?:you are|you're|you|are you) calling"
    r"|\b(?:reason|purpose) (?:for|of) (?:your|the|this|you)|\b(?:have|get|need) your name"
)
_SCREENS = (
    r"\bcall (?:assist|guard|filter)|\bscre(?:en|am)(?:ing|ed|s)?\b"
    r"|\bunknown (?:callers|numbers)|\bnumbers .{0,12}(?:don't|do not) know"
)
_ASSISTANT = (
    r"\b(?:digital|virtual|automated|automatic|personal|phone|call|text|ai|a\.i\.)"
    r" (?:call )?(?:assistant|receptionist|secretary|attendant)|\bassistant (?:of|for|from)\b"
)
_THIRD_PERSON = r"\b(?:the|this) (?:person|party|subscriber|user|owner)\b"
_PASSES_ON = (
    r"(?<!let me )\b(?:see|find out|check|ask) (?:if|whether) (?:this|they|he|she|the|it)\b"
    r"|\bbefore (?:i|we) .{0,12}\b(?:connect|put)|\b(?:try to|will be|can be) connect"
    r"|\bpass (?:it |this |that |your )?on\b|\bas text\b|\btranscri|\bcopy of this"
    r"|\brecording this|\bstay on the line"
)
_OF_MACHINES = tuple(re.compile(each) for each in (_SCREENS, _ASSISTANT, _THIRD_PERSON, _PASSES_ON))
_MARKS = (re.compile(_ASKS), *_OF_MACHINES)
"""Marks of a screening service; two show it. A person may show the first."""
_ACTS = tuple(re.compile(each) for each in (_ASKS, _SCREENS, _PASSES_ON))
"""Acts of a service that may put us through. The assistant of a person who is not available does
none of them, though it speaks of a third person."""
_MESSAGE = re.compile(r"\b(?:leave|record) (?:\w+ ){0,3}message")
_VOICEMAIL = re.compile(
    r"\bleave (?:us |me |him |her )?(?:a|your|the|my)?\s?(?:brief |short |detailed |name|number"
    r"|message|voice)"
    r"|\b(?:after|at|following|wait for|hear) the (?:tone|beep|signal)"
    r"|\bup,? or press (?:the )?(?:pound|hash)|\bvoice ?mail|\bmail ?box"
    r"|\brecord (?:a|your) message"
    r"|\b(?:can't|cannot|can not|unable to|couldn't|could not) (?:take|come to|answer|get to)"
    r"|\bhas been forwarded|\bget back to you|\bcall you (?:right )?back|\breturn your call"
)
_PERHAPS_MACHINE = re.compile(
    r"\b(?:not|nobody|no one|none).{0,12}\bavailable|\bunavailable|\bon the (?:phone|other line)"
    r"|\bat the moment|\bright now\b|\bto take your call|\byou(?:'ve| have) reached\b"
)
_IVR = re.compile(
    r"\b(?:main|our|following|phone) menu\b|\bmenu (?:has|have|options|items)"
    r"|\bextension,? you may dial|\bdial (?:it|your) |\bfollowing (?:options|choices)"
    r"|\byour party's|\bknow (?:the|your|their) (?:party|extension)"
    r"|\benter (?:\w+ ){1,5}(?:extension|number|conference|account|first|pin|code|digits?|letters)"
    r"|\b(?:followed by|then press) (?:the )?(?:pound|hash|star)|\bkeypad\b|\btouch\W?tone"
    r"|\bfor (?:sales|support|service|billing|english)\b|\bdirectory\b|\blisten carefully"
    r"|\bcalls? (?:may|will|might) be (?:recorded|monitored)"
)
_SPOKEN_MENU = re.compile(
    r"\bin a few words|\b(?:you can|you may|please|or|could) (?:also )?say,? (?:things|something)"
    r"|\bthings like\b|\b(?:say|answer)(?: either)? yes or no\b"
    r"|\b(?:tell me|say) what you(?:'d| would) like"
)
"""A menu that is answered in words."""
_INTERCEPT = re.compile(
    r"\bnot (?:in|a working) (?:service|number)|\bno longer in service|\bdisconnected"
    r"|\bcannot be completed|\bcircuits are (?:all )?busy|\bnumber (?:that )?you(?:'ve| have)? "
    r"(?:have )?(?:dialed|dialled|called)|\bcheck the number"
)
_OFFER = re.compile(
    r"\b(?:can|may|could|shall) i (?:help|ask|take|tell|have)|\bwould you like|\bdo you want"
)
"""Offers of a person who answers for another one."""
_PERSON = re.compile(
    rf"{_OFFER.pattern}|\bhow (?:can|may|could) (?:i|we) "
    r"|\bwho(?:'s| is) (?:this|calling|that|speaking)\s*\??$|\bwhat (?:is|'s) (?:this|it) about"
    r"|\bspeaking\b|\bwhat do you want|\bwhat can i do"
)


_PLEASE_WAIT = re.compile(
    r"\b(?:hold|stay|remain|wait) (?:on )?(?:the )?(?:line|phone)|\bplease (?:hold|wait|stay)"
    r"|\bhold (?:on|please|while)|\b(?:one|a|just a) (?:moment|sec|second|minute)\b"
    r"|\bconnect(?:ing)? (?:you|your)|\bput(?:ting)? you (?:through|on)"
    r"|\b(?:try|trying) to (?:reach|connect|find)|\bchecking (?:with|if|whether)\b"
)


def asks_to_wait(text: str) -> bool:
    """True if the words ask us to wait, as a screening service does before it puts us through."""
    return _PLEASE_WAIT.search(text.lower()) is not None


def is_person(text: str) -> bool:
    """True if the words are a question to us, or an introduction, as only a live person says."""
    words = text.lower()
    return _PERSON.search(words) is not None and not _count(_OF_MACHINES, words)


def evidence(text: str) -> Answer | None:
    """Return what the words so far show; None if they show nothing. `HUMAN` is never returned:
    most words of people show nothing. `MACHINE`: they may be a machine's, but a person says them,
    too."""
    words = " ".join(text.lower().split())
    keys = len(_PRESS.findall(words)) + 2 * len(_LIST.findall(words))
    tone = re.search(r"\b(?:after|at) the (?:tone|beep)", words)
    if (keys >= 2 and not tone) or _SPOKEN_MENU.search(words):
        return Answer.IVR
    if _screens_calls(words):
        return Answer.SCREENING
    if _VOICEMAIL.search(words) and not _OFFER.search(words):
        return Answer.VOICEMAIL
    if keys or _IVR.search(words):
        return Answer.IVR
    if _INTERCEPT.search(words):
        return Answer.INTERCEPT
    weak = _PERHAPS_MACHINE.search(words) is not None or _count(_OF_MACHINES, words)
    return Answer.MACHINE if weak and not is_person(words) else None


def _screens_calls(words: str) -> bool:
    """True for a service that asks for our name, and not for a message."""
    if _MESSAGE.search(words):
        return False
    if _ORDER.search(words):
        return True
    acts = _count(_ACTS, words) > 0 or _PERHAPS_MACHINE.search(words) is None
    return acts and _count(_MARKS, words) >= 2


def _count(patterns: tuple[re.Pattern[str], ...], words: str) -> int:
    return sum(pattern.search(words) is not None for pattern in patterns)
