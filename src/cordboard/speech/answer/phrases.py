"""Reads from words what has answered a call: phrases of recorded announcements, in English.

The recogniser mishears, so each phrase is short. The order matters: an announcement that asks for
the caller's name "at the tone" is a screening service, and one that says "press pound when you are
finished" after "leave a message" is a voicemail. What only a live person says (a question to us)
outweighs the weak signs of a machine: "he is not available, can I take a message?" is a person.
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
_KEY = r"(?:one|two|three|four|five|six|seven|eight|nine|zero|pound|star|hash|[0-9#*])\b"
_PRESS = re.compile(
    rf"\b(?:dial|push) (?:the )?{_KEY}|\bpress(?:ed)?(?: or say)? (?:the )?(?:{_KEY}|{_MISHEARD})"
    r"|\bfor \w+(?: \w+){0,3}[,.]? press"
)
_CHOICE = re.compile(r"\b[0-9](?: or [0-9])?,? to (?!the\b)[a-z]{4,}")
"""A choice of a menu whose "press" was not heard."""
_SCREENING = re.compile(
    r"\b(?:state|say|record|give|tell me) your (?:full )?name\b"
    r"|\byour name and (?:the )?(?:reason|why|purpose)"
    r"|\b(?:reason|purpose) (?:for|of) (?:your|the|this) call"
    r"|\b(?:tell me )?why (?:you are|you're|you) calling"
    r"|\bwho(?:'s| is) (?:this )?calling\b.{0,60}\b(?:available|through|connect|stay|hold)"
    r"|\b(?:see|find out|check) if (?:this person|they|he|she|the person).{0,12}\bavailable"
    r"|\bcall (?:assist|screen)|\bscreening (?:service|this|calls)|\busing a screening"
    r"|\b(?:does|do) not accept (?:unidentified|anonymous|private|blocked)"
)
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
    r"\bmain menu|\bextension,? you may dial|\bdial it at any time|\bfollowing (?:options|menu)"
    r"|\bmenu options|\byour party's|\bknow (?:the|your|their) (?:party|extension)"
    r"|\benter (?:the|your|a) (?:extension|number|conference|account|first|pin|code)"
    r"|\bfor (?:sales|support|service|billing|english)\b|\bdirectory\b|\blisten carefully"
    r"|\bcalls? (?:may|will|might) be (?:recorded|monitored)"
)
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
    r"|\bhold (?:on|please|while)|\b(?:one|a|just a) (?:moment|second|minute)\b"
    r"|\bconnect(?:ing)? (?:you|your)|\bput(?:ting)? you (?:through|on)"
    r"|\b(?:try|trying) to (?:reach|connect|find)"
)


def asks_to_wait(text: str) -> bool:
    """True if the words ask us to wait, as a screening service does before it puts us through."""
    return _PLEASE_WAIT.search(text.lower()) is not None


def is_person(text: str) -> bool:
    """True if the words are a question to us, or an introduction, as only a live person says."""
    return _PERSON.search(text.lower()) is not None


def evidence(text: str) -> Answer | None:
    """Return what the words so far show; None if they show nothing. `HUMAN` is never returned:
    most words of people show nothing. `MACHINE`: they may be a machine's, but a person says them,
    too."""
    words = " ".join(text.lower().split())
    keys = len(_PRESS.findall(words)) + len(_CHOICE.findall(words))
    tone = re.search(r"\b(?:after|at) the (?:tone|beep)", words)
    if keys >= 2 and not tone:
        return Answer.IVR
    if _SCREENING.search(words):
        return Answer.SCREENING
    if _VOICEMAIL.search(words) and not _OFFER.search(words):
        return Answer.VOICEMAIL
    if keys or _IVR.search(words):
        return Answer.IVR
    if _INTERCEPT.search(words):
        return Answer.INTERCEPT
    if _PERHAPS_MACHINE.search(words) and not is_person(words):
        return Answer.MACHINE
    return None
