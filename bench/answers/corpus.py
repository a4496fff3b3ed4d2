"""Recordings of what answers an outbound call: built from prompts, voices, tones, pauses, levels.

Two halves that share neither a text, nor a synthetic voice, nor a recorded prompt, nor a seed: the
classifier was tuned on `tune`; `held-out` judges it. Recorded prompts are Asterisk's English ones
(the package that `scripts/install-asterisk` unpacks), voices are those of the offline agent
("heart", hibari) and of the Piper package ("joe").
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.options import Half
from cordboard.audio import g711
from cordboard.audio.resample import resample
from cordboard.audio.wav import read_mono
from cordboard.speech.answer.phrases import Answer

RATE = 8000
LENGTH = 25.0
"""Seconds of each recording; the rest after its last sound is the line's noise."""

Sound = NDArray[np.float64]
Speak = Callable[[str], Sound]
"""Text to 8 kHz sound."""


@dataclass(frozen=True, slots=True)
class Texts:
    """What is said in one half. `@name` is a recorded prompt, the rest a synthetic voice."""

    short: tuple[str, ...]
    long: tuple[str, ...]
    voicemail: tuple[str, ...]
    screening: tuple[str, ...]
    ivr: tuple[str, ...]
    intercept: tuple[str, ...]


TUNE = Texts(
    short=(
        "Hello?",
        "Hi.",
        "Yes?",
        "Hello, this is Anna.",
        "Good morning.",
        "Anna Smith.",
        "Hello, Johnson speaking.",
        "Hi, who is this?",
        "Yes, hello?",
        "Front desk.",
        "@hello",
        "@goodbye",
        "@vm-extension",
        "@sorry",
        "@im-sorry",
        "@vm-no",
    ),
    long=(
        "Thank you for calling Harbour Dental, this is Anna, how may I help you?",
        "Good morning, Green Street Garage, Anna speaking. What can I do for you?",
        "Hello, you are through to the front desk of the Park Hotel, how can I help?",
        "Hi there, sorry, I was just in the kitchen. Who is this?",
        "Good afternoon, accounts department, Anna Smith.",
        "Yes hello, I can hardly hear you, can you speak up please?",
        "@demo-thanks",
        "@tt-weasels",
        "@conf-onlyperson",
    ),
    voicemail=(
        "Hi, this is Anna. I can't take your call right now. Please leave a message after the "
        "tone.",
        "You have reached the voicemail of five five five, one two three four. Please leave your "
        "message after the beep.",
        "Hello! | Sorry I missed you. Leave your name and number and I will call you back.",
        "The person you are calling is not available. At the tone, please record your message. "
        "When you have finished recording, you may hang up.",
        "Your call has been forwarded to an automated voice message system. Nobody is available. "
        "At the tone, please record your message.",
        "@vm-theperson @digits/5 @digits/0 @digits/2 @vm-isunavail @vm-intro",
        "@vm-nobodyavail @vm-intro",
        "@hello | @vm-theperson @digits/7 @digits/1 @vm-isonphone @vm-intro",
    ),
    screening=(
        "Hi. The person you are calling is using a screening service. Please say your name, and "
        "why you're calling.",
        "Please state your name and the reason for your call, and I will see if this person is "
        "available.",
        "@priv-recordintro",
        "Before I try to connect you, may I ask who is calling? Please say your name after the "
        "tone.",
    ),
    ivr=(
        "Welcome to Harbour Bank. For accounts, press one. For cards, press two. To speak to an "
        "agent, press zero.",
        "Thank you for calling. Your call may be recorded. For sales, press 1. For support, press "
        "2.",
        "@basic-pbx-ivr-main",
        "@conf-usermenu",
        "@dir-intro",
    ),
    intercept=("@ss-noservice", "@cannot-complete-as-dialed", "@all-circuits-busy-now"),
)
SEEN = Texts(
    short=(
        "Yeah?",
        "Hey.",
        "Hello, hello.",
        "This is Peter.",
        "Good afternoon.",
        "Peter Miller.",
        "Miller residence.",
        "Who is this?",
        "Hi, Peter here.",
        "Reception.",
        "Speaking.",
        "Hello, what is it?",
        "@vm-for",
        "@extension",
        "@vm-sorry",
        "@vm-goodbye",
        "@calling",
        "@vm-first",
    ),
    long=(
        "Thanks for calling Northern Plumbing, my name is Peter, what can I do for you today?",
        "Good evening, City Theatre box office, you are speaking with Peter. How may I help?",
        "Hello, Miller and Sons, Peter on the line, one second please. Okay, go ahead.",
        "Hey, yeah, I am just driving, what is this about?",
        "Welcome to the Blue Lagoon restaurant, would you like to make a reservation?",
        "Hello, this is the Miller family, who am I talking to?",
        "He is not available at the moment, can I take a message?",
        "@tt-monkeysintro",
        "@conf-waitforleader",
        "@queue-thankyou",
    ),
    voicemail=(
        "Hey, you've got Peter's phone. I can't come to the phone, so leave me a message and I'll "
        "get back to you.",
        "Hello? | Just kidding, I'm not here. Leave a message after the beep.",
        "Welcome to the mailbox of Peter Miller. Please speak after the signal.",
        "We are sorry, there is no one available to take your call. Please leave a message after "
        "the tone, or press pound for more options.",
        "The Miller family is out. | Please leave your name, your number, and a short message.",
        "The customer you have called is currently unavailable. Please try again later, or leave "
        "a message at the tone.",
        "@vm-rec-unv @vm-leavemsg",
        "@hello @vm-nobodyavail @vm-leavemsg",
        "@sorry | @vm-mailboxfull",
    ),
    screening=(
        "This call is being screened. Say your name and why you are calling. Stay on the line.",
        "Hello. To reach this person, please tell me your name and the purpose of your call.",
        "The subscriber does not accept anonymous calls. Please record your name after the tone.",
        "@vm-rec-name",
        "@privacy-unident @privacy-prompt",
    ),
    ivr=(
        "You have reached City Hospital. Please listen carefully, as our menu has changed. To "
        "make an appointment, press three. For the pharmacy, press four.",
        "Hello and welcome. If you know the extension of the person you wish to reach, you may "
        "dial it at any time. For billing, press two.",
        "Main menu. Say or press one for opening hours.",
        "@demo-abouttotry @demo-instruct",
        "@vm-opts",
        "@conf-adminmenu",
        "@vm-options",
    ),
    intercept=("@invalid", "@check-number-dial-again", "@pbx-invalid"),
)
SEEN_AGAIN = Texts(
    short=(
        "Hello there.",
        "Yep.",
        "Martin.",
        "Martin Clark speaking.",
        "Good day.",
        "Hi, Martin.",
        "Hello? Who's calling?",
        "Clark.",
        "Yes, Martin here.",
        "Morning.",
        "What?",
        "Workshop, hello.",
        "Ja, hello.",
        "Hello, can you hear me?",
        "@vm-Work",
        "@cancelled",
        "@number",
        "@removed",
        "@vm-Family",
        "@activated",
    ),
    long=(
        "Clark and Partners, solicitors, good afternoon, Martin speaking.",
        "Hello, thanks for your call, you have got Martin in the parts department.",
        "Hi, can you hold on a moment? I need to close the window. Right, who is it?",
        "You're speaking to the night porter, all offices are closed until eight o'clock.",
        "Hello, I am in a meeting right now, what is it?",
        "No, she is at work until six, shall I tell her that you called?",
        "Riverside school, main office, this is Martin, what can I do for you?",
        "@tt-somethingwrong",
        "@conf-userswilljoin",
        "@vm-dialout",
    ),
    voicemail=(
        "This is Martin. I'm away from my phone. Leave me a message, cheers.",
        "Hello, you've reached the Clark household. We're out at the moment. Please speak after "
        "the tone and we will ring you as soon as possible.",
        "The number you called is switched off. Please leave a message after the beep.",
        "Hi! | You know what to do. Wait for the beep.",
        "Your call cannot be answered. To leave a voice message, please speak after the tone.",
        "Clark and Partners. Our office is closed. Please leave your name and telephone number, "
        "and we shall return your call on the next working day.",
        "Welcome to my mailbox. | I cannot answer at present, record your message now.",
        "@vm-theperson @digits/9 @digits/4 @vm-isunavail @vm-rec-temp",
    ),
    screening=(
        "Hello, I am the assistant of Martin. May I have your name and the reason you are calling?",
        "The person you're trying to reach uses call screening. Please say who you are.",
        "Hi, if you record your name and reason for calling, I'll see if this person is available.",
        "Please announce yourself after the tone, and your call will be connected.",
        "Who is calling, please? State your name, then stay on the line.",
    ),
    ivr=(
        "Good day, this is Metro Energy. Press one to report a fault. Press two for your bill. "
        "Press nine to hear this again.",
        "Welcome to the ticket line. To buy tickets, press 1. To change a booking, press 2, or "
        "hold for an operator.",
        "Please choose from the following options. One, new orders. Two, deliveries. Three, "
        "complaints.",
        "Thank you for calling the surgery. If this is an emergency, hang up and call an "
        "ambulance. For repeat prescriptions press three.",
        "@vm-advopts",
        "@vm-instructions @vm-opts",
        "@vm-forwardoptions",
    ),
    intercept=("@pbx-invalidpark", "@feature-not-avail-line", "@simul-call-limit-reached"),
)
"""Once held out; seen when the rules for screening services and menus were mended."""
HELD_OUT = Texts(
    short=(
        "Yep?",
        "Hello, who's calling?",
        "Sarah here.",
        "Yes, speaking.",
        "Hi, can I help you?",
        "Doctor Patel.",
        "Sales, Mike speaking.",
        "Hello? Hello?",
        "Good evening.",
        "Who am I speaking to?",
        "Hi, this is David.",
        "Go ahead.",
        "Mum, is that you?",
        "@sorry-youre-having-problems",
        "@please-try-again",
    ),
    long=(
        "Good morning, Lakeside Veterinary, you're speaking with Claire, how can I help today?",
        "Hi, sorry, I'm driving, can you call me back in ten minutes?",
        "Hello? Hello, I think the line is bad, are you there?",
        "Reception, Maria speaking, may I ask who's calling and what it's about?",
        "Yes hi, this is David, is this about the delivery this afternoon?",
        "Hi there, thanks for calling Bella's Pizza, is that pick up or delivery?",
        "Good evening, Hotel Aurora, Jonas at the front desk.",
        "He's not in right now, can I take a message?",
        "Doctor Patel's office, could you hold for a second please? Thanks. Okay, who's calling?",
        "Hello, yes, I was expecting your call, give me one second, let me get a pen.",
    ),
    voicemail=(
        "Hey, it's Mike, you know what to do.",
        "Hi, you've got Sarah's phone. I'm probably in a meeting, so drop me a line after the beep "
        "and I'll get back to you.",
        "You've reached the Carter family. We can't come to the phone just now. Leave us your name "
        "and number and we'll ring you back.",
        "The Google Voice subscriber you have called is not available. Please leave a message "
        "after the tone.",
        "Your call has been forwarded to voicemail. The person you're trying to reach isn't "
        "available. At the tone, please record your message. When you've finished recording, just "
        "hang up, or press one for more options.",
        "Hello. | This is Tom. I can't get to the phone, so please leave me a message.",
        "Thank you for calling Green Valley Plumbing. Our office is closed. Our hours are eight to "
        "five, Monday to Friday. Please leave a message after the tone.",
        "@vm-nobodyavail @vm-leavemsg",
    ),
    screening=(
        "This number is protected by call guard. If you are a person, please say who you are, and "
        "whom you would like to speak to.",
        "Hi, I'm Call Assist by Google, recording this call for the person you're trying to reach. "
        "Before I try to connect you, can I ask what you're calling about?",
        "Hello. Calls to this number are being screened. Please say your name after the tone, then "
        "press pound.",
        "Please state your name after the tone, and Google Voice will try to connect you.",
        "Hello, I am the digital assistant of the person you are calling. May I know who is "
        "calling, and what it is regarding?",
        "Hi, this call is answered by a text call assistant. I will pass on what you say as text. "
        "Please tell me who you are and what you need.",
        "Hi, I'm the digital receptionist. Who may I say is calling?",
        "Hello, you're through to the Smiths. We are screening our calls. Please say your name "
        "after the tone, then press hash.",
        "The person you are calling does not take calls from numbers they don't know. Please say "
        "who you are, and I will ask whether they want to talk to you.",
        "One moment please. Before I connect your call, please say your first and last name.",
    ),
    ivr=(
        "Thanks for calling Northfield Family Clinic. If this is a medical emergency, hang up and "
        "dial nine one one. To make or change an appointment, press one. For prescription refills, "
        "press two.",
        "Welcome to City Power. To report an outage, press one. To pay your bill, press two.",
        "Hello, and welcome to Swift Parcel. In a few words, tell me why you're calling today. You "
        "can say things like, track my parcel, or change my delivery.",
        "Thank you for calling Fairview Insurance. If you know your party's extension, you may "
        "dial it at any time. Otherwise, please stay on the line.",
        "You have reached the law offices of Hart and Lowe. Dial one for reception, two for "
        "accounts, or stay on the line for an operator.",
        "Welcome to Sunrise Airlines. Are you calling about an existing booking? Please say yes or "
        "no.",
        "Please enter your sixteen digit card number, followed by the pound key.",
        "Hi, you've reached Tony's Restaurant. For reservations, press one. For take out, press "
        "two. For our opening hours, press three.",
        "Our menu has recently changed. For billing, select one. For technical support, select "
        "two.",
        "You're speaking with the virtual assistant of Metro Bank. Please tell me what you would "
        "like to do, for example, check my balance.",
        "Using your keypad, please enter the extension of the person you wish to reach, or press "
        "star for the directory.",
        "@conf-getconfno",
        "@dir-intro-fn",
    ),
    intercept=("@number-not-answering", "@tt-allbusy"),
)
"""Written before the rules of today, from what the vendors of screening services publish and from
common menus; no failure of it has been looked at."""
PUBLISHED = Texts(
    short=(),
    long=(),
    voicemail=(
        "The person you are calling is not available. Please leave a short message, and it will be "
        "sent as an audio message.",
    ),
    screening=(
        "Hi, the person you're calling is using a screening service, and will get a copy of this "
        "conversation. Go ahead and say your name and why you're calling.",
        "Hi, this is Call Assist. May I ask who's calling?",
        "Please say who you are, and why you are calling.",
        "The person you're calling has caller ID screening. Please state your name.",
        "Hello, I'm an AI that monitors for spam and unwanted calls. May I please have your name, "
        "and the reason for your call?",
        "Who is calling? What company are you with? What is the reason for your call?",
        "Record your name, so that I can check whether this person is available.",
    ),
    ivr=(
        "If you're family, a friend or an invited caller, please press five. If you're a cold "
        "caller, please hang up, and don't call us again.",
        "The person you are calling does not accept unidentified calls. To enter an access code, "
        "press one. To record your name, so that your call can be announced, press two.",
        "Hello. Calls to this number are being screened by a call blocker. If you're a family "
        "member, a friend or an invited caller, please press pound to be connected.",
        "Your call is being screened. Prove that you are a human, and press pound to be connected.",
    ),
    intercept=(),
)
"""After wordings that others have published, and held out: Google's call screening and Call Assist
(idropnews.com, October 2018; livekit/agents-js, issue 1374), carriers' and assistants' questions
(thoughtly.com, a guide to call screening), trueCall's shield (its manual), PrivacyGuard
(dslreports.com, FAQ 12254), AT&T's call blocker (manual of the CL82107), a call attendant's
(thess/callattendant, issue 6)."""
NOISES = (5, 12, 40)
LEVELS = (0.35, 0.6, 1.0)
BEEPS = ((1000, 0.3), (440, 0.5), (1400, 0.2), (850, 0.8), (620, 0.4), (480, 1.0), (2000, 0.25))
SIT = ((913.8, 1370.6, 1776.7), (985.2, 1370.6, 1776.7), (950, 1400, 1800), (985.2, 1428.5, 1776.7))


@dataclass(slots=True)
class Recording:
    """One answer, from its first sample on."""

    name: str
    answer: Answer
    long: bool
    pcm: bytes
    """s16 at 8 kHz, as G.711 u-law delivers it."""
    spoken: float
    """End of the first utterance, in seconds."""
    beep: float | None = None
    """End of the beep."""


class Builder:
    """Builds the recordings of one half."""

    def __init__(self, half: Half, prompts: Path, speak: Speak) -> None:
        parts = (TUNE, SEEN, SEEN_AGAIN) if half == "tune" else (HELD_OUT, PUBLISHED)
        self._texts = _joined(*parts)
        self._dice = random.Random(71 if half == "tune" else 4127)
        self._noise = np.random.default_rng(71 if half == "tune" else 4127)
        self._prompts = prompts
        self._speak = speak
        self._phrases: dict[str, Sound] = {}

    def recordings(self) -> Iterator[Recording]:
        """Yield them all, in a fixed order."""
        yield from self._people()
        yield from self._machines()
        yield from self._tones()

    def _people(self) -> Iterator[Recording]:
        for each in range(6):
            for text in self._texts.short:
                gap = self._dice.uniform(2.2, 4)
                parts = [self._lead(), text, gap, text]
                yield self._record(f"short {each} {text}", Answer.HUMAN, parts)
        for each in range(4):
            for text in self._texts.long:
                parts = [self._lead(), text, self._dice.uniform(3, 5), "@hello"]
                yield self._record(f"long {each} {text}", Answer.HUMAN, parts, long=True)

    def _machines(self) -> Iterator[Recording]:
        for each in range(5):
            for text in self._texts.voicemail:
                tail: list[str | float | Sound] = [self._dice.uniform(0.3, 1.0), self._beep()]
                full = "mailboxfull" in text
                parts = [self._lead(), text, *([] if full else tail)]
                yield self._record(f"voicemail {each} {text}", Answer.VOICEMAIL, parts)
            for text in self._texts.screening:
                parts = [self._lead(), text, 6.0, text]
                yield self._record(f"screening {each} {text}", Answer.SCREENING, parts)
            for text in self._texts.ivr:
                parts = [self._lead(), text, 3.0, text]
                yield self._record(f"ivr {each} {text}", Answer.IVR, parts)
            for text in self._texts.intercept:
                lengths = self._dice.choice([(0.274, 0.274, 0.38), (0.33, 0.33, 0.33)])
                tones = zip(self._dice.choice(SIT), lengths, strict=True)
                sit = [tone(hz, seconds) for hz, seconds in tones]
                parts = [self._dice.uniform(0, 0.4), *sit, 0.2, text, 1.5, text]
                yield self._record(f"intercept {each} {text}", Answer.INTERCEPT, parts)

    def _tones(self) -> Iterator[Recording]:
        dice = self._dice
        for each in range(5):
            yield self._record(f"silence {each}", Answer.SILENCE, [1.0])
            cng = [x for _ in range(6) for x in (tone(1100 + dice.randint(-30, 30), 0.5), 3.0)]
            yield self._record(f"fax cng {each}", Answer.FAX, [dice.uniform(0, 2), *cng])
            ced = [tone(2100 + dice.randint(-12, 12), dice.uniform(2.6, 4)), 1.0]
            yield self._record(f"fax ced {each}", Answer.FAX, [dice.uniform(0.2, 1.8), *ced])
        for each, (hz, on, off) in enumerate(
            (((440, 480), 2, 4), ((425,), 1, 4), ((425,), 1, 3), ((400, 450), 2, 4))
        ):
            ring = [x for _ in range(6) for x in (tone(hz, on, 3000), off)]
            yield self._record(f"ringback {each}", Answer.RINGBACK, ring)
        pair = [x for _ in range(6) for x in (tone((400, 450), 0.4, 3000), 0.2,
                                              tone((400, 450), 0.4, 3000), 2.0)]  # fmt: skip
        yield self._record("ringback british", Answer.RINGBACK, pair)
        for each, (hz, on) in enumerate(
            (((480, 620), 0.5), ((425,), 0.5), ((480, 620), 0.25), ((425,), 0.25), ((400,), 0.375))
        ):
            busy = [x for _ in range(30) for x in (tone(hz, on, 3000), on)]
            yield self._record(f"busy {each}", Answer.BUSY, busy)

    def _lead(self) -> float:
        return self._dice.uniform(0.15, 1.1)

    def _beep(self) -> Sound:
        return tone(*self._dice.choice(BEEPS))

    def _record(
        self,
        name: str,
        answer: Answer,
        parts: list[str | float | Sound],
        *,
        long: bool = False,
    ) -> Recording:
        level = self._dice.choice(LEVELS)
        pitch = self._dice.uniform(0.88, 1.12)
        sounds: list[Sound] = []
        spoken, beep, length = 0.0, None, 0.0
        for part in parts:
            if isinstance(part, str):
                sound = self._say(part, pitch) * level
            elif isinstance(part, float | int):
                sound = np.zeros(int(part * RATE))
            else:
                sound = part
            length += len(sound) / RATE
            if isinstance(part, str) and not spoken:
                spoken = length
            if isinstance(part, np.ndarray) and answer is Answer.VOICEMAIL:
                beep = length
            sounds.append(sound)
        whole = np.concatenate(sounds)[: int(LENGTH * RATE)]
        whole = np.pad(whole, (0, int(LENGTH * RATE) - len(whole)))
        whole += self._noise.normal(0, self._dice.choice(NOISES), len(whole))
        linear = np.clip(whole, -32000, 32000).astype("<i2").tobytes()
        pcm = g711.ulaw_to_linear(g711.linear_to_ulaw(linear))
        return Recording(name, answer, long, pcm, spoken, beep)

    def _say(self, text: str, pitch: float) -> Sound:
        """Return prompts (`@name`) joined, or synthetic speech, as many times as high and as fast;
        `|` is a pause of 0.9 to 1.2 s."""
        sounds: list[Sound] = []
        for part in text.split("|"):
            if sounds:
                sounds.append(np.zeros(int(self._dice.uniform(0.9, 1.2) * RATE)))
            phrase = part.strip()
            if phrase.startswith("@"):
                for name in phrase.split():
                    sounds += [self._phrase(name), np.zeros(RATE // 10)]
            else:
                sounds.append(self._phrase(phrase))
        whole = np.concatenate(sounds).astype(np.float32)
        return resample(whole, int(800 * pitch) * 10, RATE).astype(np.float64)

    def _phrase(self, phrase: str) -> Sound:
        if phrase not in self._phrases:
            if phrase.startswith("@"):
                pcm, _ = read_mono(self._prompts / f"{phrase[1:]}.wav", RATE)
                sound = np.frombuffer(pcm, "<i2").astype(np.float64)
            else:
                sound = self._speak(phrase)
            self._phrases[phrase] = trimmed(sound)
        return self._phrases[phrase]


def _joined(*texts: Texts) -> Texts:
    names = [each.name for each in fields(Texts)]
    return Texts(**{name: sum((getattr(one, name) for one in texts), ()) for name in names})


def trimmed(sound: Sound) -> Sound:
    """Return speech without the silence around it, at a common level."""
    loud = np.flatnonzero(np.abs(sound) > 0.02 * np.abs(sound).max())
    cut = sound[max(0, loud[0] - 80) : loud[-1] + 80]
    return cut * (12_000 / np.abs(cut).max())


def tone(hz: float | tuple[float, ...], seconds: float, amplitude: float = 6000) -> Sound:
    """Return a tone of one or more frequencies."""
    time = np.arange(int(seconds * RATE)) / RATE
    lines = [amplitude * np.sin(2 * np.pi * each * time) for each in np.atleast_1d(hz)]
    return np.sum(lines, axis=0)
