"""The speech of the scripted callers: the prompts of Asterisk, and the places of the cuts.

One professional speaker recorded all of them as sentences for callers; here she is the caller. The
corpus is divided in two by prompt (`half_of`), so that the figures are from prompts
that were not used for tuning. Single digits and the words that phrases are joined from are in both
halves.
"""

from __future__ import annotations

import hashlib

from bench.options import Half

FINISHED = """
all-circuits-busy-now cannot-complete-as-dialed check-number-dial-again conf-extended conf-full
conf-invalidpin conf-kicked conf-leaderhasleft conf-locked conf-noempty conf-nonextended
conf-now-recording conf-onlyone conf-onlyperson conf-placeintoconf conf-userswilljoin
conf-waitforleader confbridge-begin-glorious-a confbridge-conf-end confbridge-invalid
confbridge-lock-no-join confbridge-only-participant confbridge-pin-bad confbridge-removed
confbridge-unlocked confbridge-unmuted demo-echodone demo-nomatch dir-nomatch dir-nomore
enter-num-blacklist entr-num-rmv-blklist feature-not-avail-line number-not-answering
one-moment-please priv-recordintro privacy-prompt privacy-unident queue-thankyou queue-youarenext
sorry-youre-having-problems speed-dial-empty transfer tt-monkeysintro tt-weasels vm-dialout
vm-enter-num-to-call vm-msgforwarded vm-msgsaved vm-nobodyavail vm-nobox vm-nomore vm-nonumber
vm-passchanged vm-pls-try-again vm-mailboxfull vm-reachoper vm-delete vm-leavemsg vm-newpassword
conf-getpin vm-changeto conf-unlockednow agent-newlocation
""".split()
"""Whole sentences: the turn is over when they are."""

CUTS: tuple[tuple[str, float], ...] = (
    ("all-circuits-busy-now", 0.76),  # All circuits are | busy now
    ("cannot-complete-as-dialed", 1.02),  # Your call cannot | be completed as dialed
    ("check-number-dial-again", 0.74),  # Please check | the number and dial again
    ("conf-extended", 1.06),  # The conference has | been extended
    ("conf-invalidpin", 0.96),  # That PIN is | invalid for this conference
    ("conf-kicked", 1.04),  # You have been kicked | from this conference
    ("conf-now-recording", 1.06),  # The conference is | now being recorded
    ("conf-onlyone", 0.98),  # There is currently | one other participant in ...
    ("conf-onlyperson", 0.92),  # You are currently | the only person in this conference
    ("conf-placeintoconf", 1.18),  # You will now be placed | into the conference
    ("conf-userswilljoin", 1.04),  # Users will | join the conference
    ("conf-waitforleader", 1.66),  # The conference will begin when | the leader arrives
    ("confbridge-invalid", 0.98),  # You have entered | an invalid option
    ("confbridge-lock-no-join", 2.16),  # ... is currently locked and | cannot be joined
    ("confbridge-only-participant", 0.88),  # You are currently | the only participant in ...
    ("confbridge-pin-bad", 1.84),  # You have entered too many | invalid personal ... numbers
    ("confbridge-removed", 1.4),  # You have been removed from | the conference
    ("demo-echodone", 1.26),  # The echo test | has been completed
    ("demo-nomatch", 2.18),  # I'm sorry, there are no matches | for those key words
    ("dir-nomatch", 1.62),  # No directory entries | match your search
    ("dir-nomore", 2.06),  # There are no more compatible entries | in the directory
    ("enter-num-blacklist", 1.02),  # Please enter the number | to be blacklisted
    ("entr-num-rmv-blklist", 1.88),  # ... the number to be removed | from the blacklist
    ("feature-not-avail-line", 1.4),  # That feature is not | available on this line
    ("number-not-answering", 1.0),  # The number is not | answering
    ("priv-recordintro", 0.46),  # At | the tone, please say your name
    ("privacy-prompt", 2.3),  # ... your phone number, starting with | the area code
    ("privacy-unident", 2.54),  # The party ... to reach does not | accept unidentified calls
    ("queue-youarenext", 2.96),  # ... first in line and will be | answered by the next ...
    ("speed-dial-empty", 1.36),  # The speed dial entry | you've accessed is empty
    ("transfer", 1.12),  # Please hold while I | try that extension
    ("tt-monkeysintro", 1.46),  # They have been carried away | by monkeys
    ("tt-weasels", 1.6),  # Weasels have eaten | our phone system
    ("vm-dialout", 0.94),  # Please wait while | I connect your call
    ("vm-enter-num-to-call", 1.04),  # Please enter the number | you wish to call
    ("vm-msgforwarded", 1.16),  # Your message has | been successfully forwarded
    ("vm-nobodyavail", 1.1),  # Nobody is available | to take your call at the moment
    ("vm-nobox", 2.9),  # You cannot reply to this message because | the sender does not ...
    ("vm-nonumber", 1.18),  # I'm afraid I don't | know who sent this message
    ("vm-mailboxfull", 2.14),  # Sorry, but the user's mailbox | can't accept more messages
    ("vm-delete", 0.7),  # Press seven | to delete this message
    ("vm-newpassword", 1.14),  # Please enter your | new password followed by ...
    ("conf-getpin", 0.72),  # Please enter | the conference PIN number
)
"""Single prompts with a pause in the middle of a phrase: the name, and about where (seconds)."""

PAUSE = "|"
JOINED: tuple[str, ...] = (
    "queue-holdtime | digits/7 queue-minutes",
    "queue-thereare | digits/4",
    "vm-youhave | digits/3 vm-messages",
    "conf-thereare | digits/8 conf-otherinparty",
    "to-call-this-number | vm-press digits/1",
    "if-correct-press | digits/1",
    "queue-quantity1 | digits/9 queue-quantity2",
    "at-tone-time-exactly | digits/10 digits/a-m",
    "vm-num-i-have | digits/5 digits/2 digits/6",
    "num-was-successfully | added",
    "call-fwd-unconditional is-set-to | digits/4 digits/4 digits/1",
    "privacy-to-blacklist-last-caller | vm-unknown-caller",
    "conf-enteringno | digits/6 digits/0 digits/2",
    "vm-extension digits/3 digits/1 | is-in-use",
    "you-entered | digits/8 digits/8 digits/0",
    "your extension | is digits/2 digits/7",
)
"""Phrases as Asterisk joins them from recordings made for it: the pause is at a true joint."""

DICTATED: tuple[str, ...] = (
    "555 | 014 | 2793", "61 | 24 | 80 | 35", "482 | 907", "5 | 5 | 0 | 1 | 9",
    "800 | 346 | 1290", "47 | 91 | 23 | 60", "731 | 558", "9 | 0 | 2 | 1 | 0",
)  # fmt: skip
"""Numbers dictated in groups with pauses between them."""

SHORT = ("vm-no", "digits/1", "digits/2", "digits/3", "digits/4", "digits/5", "digits/6",
         "digits/7", "digits/8", "digits/9")  # fmt: skip
SPOKEN_SHORT = ("Yes.", "No.", "Okay.", "Yes please.")
"""Short answers that were not recorded, in the synthetic voice."""

WORDS_OVER = (
    "Stop.", "Wait.", "No.", "Hold on.", "Cancel.", "Operator.", "Sorry?", "Hello?", "Help.",
    "Excuse me.", "Repeat that.", "Never mind.", "Agent, please.", "No, no.",
)  # fmt: skip
"""Interruptions of a word or two, in the synthetic voice; half of them in each half."""
BACKCHANNELS = (
    "[mhm](/əmhˈʌm/)",  # noqa: RUF001 - IPA
    "[uh-huh](/ʌhˈʌ/)",  # noqa: RUF001 - IPA
    "okay",
    "right",
    "yeah",
    "I see",
    "sure",
)
"""Synthetic voice: none of these is among the recordings."""
HUMMED = ("mm", "mm-hm")
"""Made of the recorded letter M: human, the nasal alone."""

GREETINGS: dict[Half, str] = {
    "tune": "Our library staff will gladly tell you all about the new reading rooms and the longer "
    "opening hours of this year",
    "held-out": "The harbour office looks after the pleasure boats and the fishing vessels that "
    "come into our little port during the season",
}
"""The agent's sentence that callers speak over: six seconds long. The voice pauses for breath
in it, 0.3 to 0.5 s long."""
INTERRUPTED_AT: dict[Half, tuple[float, ...]] = {
    "tune": (0.3, 1.3, 1.7, 2.3, 2.9),
    "held-out": (0.3, 0.8, 1.2, 1.4, 2.8),
}
"""Seconds from the agent's first sample; no such pause follows within the next 0.6 s."""

ANSWERS: dict[Half, str] = {
    "tune": "Our colleagues are going to look into that as soon as they have finished with the "
    "visitors who came in before you this morning",
    "held-out": "The crew of the pilot boat will see to that when they come back from the big "
    "freighter that has been waiting outside since dawn",
}


def half_of(name: str) -> Half:
    """Return the half of a prompt, by its name alone."""
    return "tune" if hashlib.sha256(name.encode()).digest()[0] % 2 else "held-out"


def of_half(names: list[str] | tuple[str, ...], half: Half) -> list[str]:
    """Every second one of the list, for lists too small to be divided by chance."""
    return list(names[0 if half == "tune" else 1 :: 2])
