"""Twenty ways to ask the demo's flight information desk, for twelve aerodromes.

The wording is that of callers, not of the configuration's sentence templates; each question names
its aerodrome by name, by letters or in the spelling alphabet. `SPEEDS` is how fast each is spoken.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """What is said and what must be looked up for it."""

    text: str
    icao: str
    speed: float = 1.0


SPEEDS = (1.0, 0.85, 1.15, 0.95, 1.25)

_ASKED = (
    ("What is the ATIS for Oslo Gardermoen?", "ENGM"),
    ("Give me the weather at Bergen, please.", "ENBR"),
    ("Could I have the information for Trondheim Vaernes?", "ENVA"),
    ("How is the weather in Stockholm today?", "ESSA"),
    ("I would like the ATIS for Copenhagen Kastrup.", "EKCH"),
    ("London Heathrow, please.", "EGLL"),
    ("What's the weather like in Amsterdam?", "EHAM"),
    ("Hello, I need the current ATIS for Paris Charles de Gaulle.", "LFPG"),
    ("Read me the weather report for Frankfurt.", "EDDF"),
    ("What is the weather at Kilo Juliett Foxtrot Kilo?", "KJFK"),
    ("Can you tell me the conditions at San Francisco right now?", "KSFO"),
    ("I'm flying to Boston, what is the weather there?", "KBOS"),
    ("The ATIS for E N G M, please.", "ENGM"),
    ("Please give me the weather information for Echo November Bravo Romeo.", "ENBR"),
    ("Do you have the weather for New York Kennedy?", "KJFK"),
    ("And what about Schiphol?", "EHAM"),
    ("I am landing at Arlanda in half an hour, how does it look?", "ESSA"),
    ("Get me the latest METAR for Echo Golf Lima Lima.", "EGLL"),
    ("May I get the weather for Gardermoen?", "ENGM"),
    ("Good morning, what is the wind at Frankfurt am Main?", "EDDF"),
)

_FRESH_ASKED = (
    ("Hi, what's the current weather in Oslo?", "ENGM"),
    ("Can I have the ATIS at Flesland, please?", "ENBR"),
    ("Tell me the weather for Trondheim.", "ENVA"),
    ("What are the conditions at Stockholm Arlanda?", "ESSA"),
    ("I need the weather report for Kastrup.", "EKCH"),
    ("Get me the ATIS for Heathrow.", "EGLL"),
    ("How is it looking in Amsterdam Schiphol?", "EHAM"),
    ("Please read the METAR for Charles de Gaulle.", "LFPG"),
    ("What is the latest information for Frankfurt?", "EDDF"),
    ("Weather at JFK, please.", "KJFK"),
    ("Give me the ATIS for San Francisco International.", "KSFO"),
    ("What's the wind like at Boston Logan?", "KBOS"),
    ("I'd like the weather for Echo Sierra Sierra Alfa.", "ESSA"),
    ("ATIS for Kilo Bravo Oscar Sierra.", "KBOS"),
    ("What is the visibility at Echo Delta Delta Foxtrot?", "EDDF"),
    ("Could you check the weather for E K C H?", "EKCH"),
    ("We are departing from Copenhagen, can we get the weather?", "EKCH"),
    ("Do you know the altimeter setting for New York?", "KJFK"),
    ("Paris weather, please.", "LFPG"),
    ("I want to know the weather in London.", "EGLL"),
)


def _at_five_speeds(asked: tuple[tuple[str, str], ...]) -> tuple[Question, ...]:
    return tuple(
        Question(text, icao, SPEEDS[number % len(SPEEDS)])
        for number, (text, icao) in enumerate(asked)
    )


QUESTIONS = _at_five_speeds(_ASKED)
"""The recogniser's beam was chosen with these in view: their figures flatter."""
FRESH = _at_five_speeds(_FRESH_ASKED)
"""Written after everything was chosen: the figures to believe. Whoever tunes anything
by these must write new ones."""

VAGUE = (
    "What is the weather?",
    "I would like the current ATIS, please.",
    "Tell me the conditions.",
    "Can I have the weather report?",
)
"""Questions without an aerodrome: the desk asks back, a short answer to wait for."""
ANSWERS = ("Bergen Flesland.", "It is Copenhagen Kastrup.", "Kilo Sierra Foxtrot Oscar.", "Paris.")
"""What is said then."""

SPELLED = (
    "ENGM", "ENBR", "ENVA", "ESSA", "EKCH", "EGLL", "EHAM", "LFPG", "EDDF", "KJFK", "KSFO", "KBOS",
)  # fmt: skip
"""Codes spoken in a human's spelling alphabet."""

ALPHABET = {
    letter[0]: letter
    for letter in (
        "alfa bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november "
        "oscar papa quebec romeo sierra tango uniform victor whiskey xray yankee zulu"
    ).split()
}
"""ICAO Annex 10, volume II, 5.2.1.3, figure 5-1."""
