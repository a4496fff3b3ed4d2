"""Ways to ask the demo's flight information desk, for twelve aerodromes.

The wording is that of callers, not of the configuration's sentence templates; each question names
its aerodrome by name, by letters or in the spelling alphabet. `SPEEDS` are the speeds of speech.
All but `HELD_OUT` were in view while the grammar and the recogniser's settings were made, so
their figures flatter. `HELD_OUT` was not: its figures are the ones to believe.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the lookup it must cause."""

    text: str
    icao: str
    """Empty: no lookup."""
    speed: float = 1.0
    british: bool = False
    """Spoken with British sounds, for which the voice was not made: an accent."""


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

_DEVELOPMENT_ASKED = (
    ("I'm picking somebody up at Gardermoen, is it snowing there?", "ENGM"),
    ("Is it raining in Oslo?", "ENGM"),
    ("My flight to Oslo leaves in an hour, what's the weather doing?", "ENGM"),
    ("Could you look up Oslo Gardermoen for me?", "ENGM"),
    ("Echo November Golf Mike, please.", "ENGM"),
    ("E N G M.", "ENGM"),
    ("Bergen.", "ENBR"),
    ("Is there any fog at Flesland this morning?", "ENBR"),
    ("We're planning to land in Bergen tonight, how are the conditions?", "ENBR"),
    ("I'd like to know how windy it is at Bergen Flesland.", "ENBR"),
    ("What's the report for E N B R?", "ENBR"),
    ("Trondheim weather report.", "ENVA"),
    ("My daughter is flying into Vaernes, what is it like there?", "ENVA"),
    ("Can you check Trondheim Vaernes please?", "ENVA"),
    ("Echo November Victor Alfa, current weather please.", "ENVA"),
    ("How cold is it in Trondheim right now?", "ENVA"),
    ("I'm picking somebody up at Arlanda, is it snowing there?", "ESSA"),
    ("Stockholm, please.", "ESSA"),
    ("How's the visibility over at Stockholm?", "ESSA"),
    ("What does the ATIS say for Arlanda?", "ESSA"),
    ("Requesting weather for Echo Sierra Sierra Alfa.", "ESSA"),
    ("Could I get E S S A please?", "ESSA"),
    ("Are there any clouds over Copenhagen?", "EKCH"),
    ("I need Kastrup.", "EKCH"),
    ("We take off from Copenhagen Kastrup in twenty minutes, give us the latest.", "EKCH"),
    ("Echo Kilo Charlie Hotel.", "EKCH"),
    ("Hello there, might I ask for the Copenhagen weather?", "EKCH"),
    ("What's happening weather wise at Heathrow?", "EGLL"),
    ("London weather today, please.", "EGLL"),
    ("Is London Heathrow foggy at the moment?", "EGLL"),
    ("I have to drive to Heathrow now, do I need an umbrella?", "EGLL"),
    ("Echo Golf Lima Lima weather.", "EGLL"),
    ("Give me E G L L.", "EGLL"),
    ("I am on my way to Amsterdam, how's the wind?", "EHAM"),
    ("Schiphol information, please.", "EHAM"),
    ("What is the temperature in Amsterdam?", "EHAM"),
    ("Read out the ATIS of Amsterdam Schiphol, would you?", "EHAM"),
    ("Get the METAR for Echo Hotel Alfa Mike.", "EHAM"),
    ("Tell me about Paris.", "LFPG"),
    ("What's the cloud base at Charles de Gaulle?", "LFPG"),
    ("I'm meeting a friend at Charles de Gaulle airport, is it raining there?", "LFPG"),
    ("Lima Foxtrot Papa Golf, if you please.", "LFPG"),
    ("Good evening, how is the weather looking for Paris?", "LFPG"),
    ("Frankfurt, current information.", "EDDF"),
    ("Is it stormy in Frankfurt?", "EDDF"),
    ("Any chance you could give me Frankfurt's weather?", "EDDF"),
    ("Echo Delta Delta Foxtrot, what are the winds?", "EDDF"),
    ("We're holding over Frankfurt, what's the pressure?", "EDDF"),
    ("How are things at Kennedy?", "KJFK"),
    ("New York.", "KJFK"),
    ("I'm about to fly to J F K, can you give me the weather?", "KJFK"),
    ("What's the QNH at John F Kennedy?", "KJFK"),
    ("Kilo Juliett Foxtrot Kilo ATIS.", "KJFK"),
    ("San Francisco, what's it like?", "KSFO"),
    ("Is there fog in San Francisco this afternoon?", "KSFO"),
    ("Would you read me the report for Kilo Sierra Foxtrot Oscar?", "KSFO"),
    ("My son lands at San Francisco International, is it windy?", "KSFO"),
    ("Boston Logan, please.", "KBOS"),
    ("I was wondering what the weather is in Boston.", "KBOS"),
    ("How's Logan looking?", "KBOS"),
    ("Kilo Bravo Oscar Sierra, wind and visibility please.", "KBOS"),
    ("Can I have K B O S?", "KBOS"),
    ("We're coming in to Oslo airport, anything we should know about the weather?", "ENGM"),
    ("Is the runway wet at Stockholm Arlanda?", "ESSA"),
    ("Approaching Oslo in about ten minutes, what have you got for us?", "ENGM"),
    ("Requesting the most recent for Trondheim Vaernes before we start our descent.", "ENVA"),
    ("Diverting to Kastrup, I need the numbers.", "EKCH"),
    ("Alternate is Schiphol tonight, so tell me what's going on down there.", "EHAM"),
    ("I didn't catch the Frankfurt information, once again please.", "EDDF"),
    ("Planning our arrival into San Francisco, is the marine layer still in?", "KSFO"),
    ("Dispatch here, I want to brief a crew for Gardermoen.", "ENGM"),
    ("Can you fetch Trondheim for me once more?", "ENVA"),
    ("Has anything changed in Copenhagen since this morning?", "EKCH"),
    ("I can't get through to the Schiphol recording, would you play it to me?", "EHAM"),
    ("What's Frankfurt reporting?", "EDDF"),
    ("The crew is holding short and asks about San Francisco.", "KSFO"),
    ("My daughter is travelling to Oslo with her little boy tonight.", "ENGM"),
    ("Grandma lands at Trondheim at six, does she need a coat?", "ENVA"),
    ("My wife's plane is circling above Copenhagen and I am a bit worried.", "EKCH"),
    ("Our son is stuck at Schiphol.", "EHAM"),
    ("A friend of mine is waiting at Frankfurt airport, is it pouring down there?", "EDDF"),
    ("The kids fly home from San Francisco tomorrow morning.", "KSFO"),
    ("I'm supposed to be in Oslo tonight, should I bring boots?", "ENGM"),
    ("So I'm sitting on the bus to Vaernes and wonder whether we can take off at all.", "ENVA"),
    ("Would now be a good moment to fly to Copenhagen?", "EKCH"),
    ("How nasty is it outside in Amsterdam?", "EHAM"),
    ("Tell me what I'm in for in Frankfurt.", "EDDF"),
    ("What should I pack for San Francisco?", "KSFO"),
    ("I'm not sure how to ask this, but what's it like in Oslo at the minute?", "ENGM"),
    ("Is it true that it has been snowing in Trondheim all day?", "ENVA"),
    ("Not Oslo, Copenhagen.", "EKCH"),
    ("I was in Berlin yesterday, but what's the temperature in Amsterdam?", "EHAM"),
    ("I'd be grateful for Frankfurt.", "EDDF"),
    ("My name is Anna and my boyfriend is flying to San Francisco, is it foggy?", "KSFO"),
    ("Captain Kennedy asked me to get the latest for Bergen.", "ENBR"),
    ("Can you confirm the current letter for Heathrow?", "EGLL"),
    ("How's the air over Boston?", "KBOS"),
)

_FIRST_BLIND_ASKED: tuple[tuple[str, str], ...] = (
    ("We're about to depart for Copenhagen, so what are conditions like over there?", "EKCH"),
    ("Hello, what's the weather doing at Boston Logan?", "KBOS"),
    ("Good morning, could you read me the current ATIS for Oslo Gardermoen?", "ENGM"),
    ("What's the temperature and dew point in Frankfurt am Main?", "EDDF"),
    ("My daughter lands at Gardermoen tonight. Is it snowing there?", "ENGM"),
    ("Has the fog lifted in San Francisco yet?", "KSFO"),
    ("Can I get the METAR for E N V A?", "ENVA"),
    ("How windy is it at Logan right now?", "KBOS"),
    ("How cold is it in Oslo right now?", "ENGM"),
    ("Request latest weather, Echo November Bravo Romeo.", "ENBR"),
    ("Give me the wind and visibility at Stockholm Arlanda, please.", "ESSA"),
    ("Dispatch here, I need the actual for Echo Hotel Alfa Mike.", "EHAM"),
    ("Say current wind and altimeter setting for Lima Foxtrot Papa Golf.", "LFPG"),
    ("Read me the latest from K B O S, please.", "KBOS"),
    ("Are the crosswinds bad up at Vaernes today?", "ENVA"),
    ("How's the visibility looking at John F. Kennedy?", "KJFK"),
    ("Hi, I'm flying to Trondheim this afternoon and wondering about the weather.", "ENVA"),
    ("Could you tell me whether it's stormy in Amsterdam?", "EHAM"),
    ("Copenhagen Kastrup weather, if you don't mind.", "EKCH"),
    ("What ATIS letter is current at Kilo Juliett Foxtrot Kilo?", "KJFK"),
    ("I'd like the Paris weather, please.", "LFPG"),
    ("Uh, yeah, can you pull up the weather at JFK for me?", "KJFK"),
    ("Do I need a warm coat when I land in Stockholm?", "ESSA"),
    ("Is the sky clear over New York?", "KJFK"),
    ("Any thunderstorms around Charles de Gaulle at present?", "LFPG"),
    ("San Francisco METAR.", "KSFO"),
    (
        "I'm planning my arrival into San Francisco International and still missing the weather.",
        "KSFO",
    ),
    ("Which way is the wind blowing at Oslo airport?", "ENGM"),
    ("Do you have the newest report for Echo Sierra Sierra Alfa?", "ESSA"),
    ("I bet it's raining in Bergen again, isn't it?", "ENBR"),
    ("Heathrow information, please.", "EGLL"),
    ("What's the QNH at Heathrow?", "EGLL"),
    ("Tell me what it's like in London just now.", "EGLL"),
    ("How strong are the gusts at Schiphol?", "EHAM"),
    ("Frankfurt am Main, please.", "EDDF"),
    ("What's the cloud base at Flesland at the moment?", "ENBR"),
    ("Let me have E D D F, the most recent observation.", "EDDF"),
    ("I'm picking up my mother from Frankfurt airport, will she be landing in rain?", "EDDF"),
    ("My husband's flight into London Heathrow is delayed. Is the weather terrible?", "EGLL"),
    ("Is there any fog at Kastrup this morning?", "EKCH"),
)
"""Written blind by an author who had not seen the grammar. Run once (28 of 40 at once), and in view
since: the policy of asking back was changed because of them."""


def _from_file(path: Path) -> tuple[Question, ...]:
    """One a line: speed, aerodrome, words; a tab between them."""
    rows = (line.split("\t") for line in path.read_text("ascii").splitlines())
    return tuple(Question(text, icao, float(speed)) for speed, icao, text in rows)


def _at_five_speeds(asked: tuple[tuple[str, str], ...]) -> tuple[Question, ...]:
    return tuple(
        Question(text, icao, SPEEDS[number % len(SPEEDS)])
        for number, (text, icao) in enumerate(asked)
    )


QUESTIONS = _at_five_speeds(_ASKED)
"""The recogniser's beam was chosen with these in view: their figures flatter."""
FRESH = _at_five_speeds(_FRESH_ASKED)
"""Written after the beam was chosen; later used for development like the others."""
DEVELOPMENT = _at_five_speeds(_DEVELOPMENT_ASKED)
"""The grammar's keywords and the recogniser's priming were made with these in view."""
FIRST_BLIND = _at_five_speeds(_FIRST_BLIND_ASKED)
"""Held out once; the policy of asking back was changed after them."""
SECOND_BLIND = _from_file(Path(__file__).with_name("second_blind.tsv"))
"""Held out once; the second hearing of doubtful names was made after them."""
HELD_OUT = _from_file(Path(__file__).with_name("held_out.tsv"))
"""Written blind, as those were; nothing may be tuned by them. The targets hold these."""


def _callers(path: Path) -> tuple[Question, ...]:
    """One a line: accent, speed, aerodrome or `-`, words."""
    rows = (line.split("\t") for line in path.read_text("ascii").splitlines())
    return tuple(
        Question(text, icao.strip("-"), float(speed), accent == "gb")
        for accent, speed, icao, text in rows
    )


_CALLERS = _callers(Path(__file__).with_name("callers.tsv"))
CALLERS = tuple(question for question in _CALLERS if question.icao)
"""Nervous callers, stories, hedges, two sentences, names alone; half with an accent. Written
before the second hearing of doubtful names, which was made with these in view."""
NOTHING = tuple(question for question in _CALLERS if not question.icao)
"""These must cause no lookup: it is over or not wanted, or the place is another one."""

VAGUE = (
    "What is the weather?",
    "I would like the current ATIS, please.",
    "Tell me the conditions.",
    "Can I have the weather report?",
)
"""Questions without an aerodrome: the desk asks back, a short answer to wait for."""
ANSWERS = ("Bergen Flesland.", "It is Copenhagen Kastrup.", "Kilo Sierra Foxtrot Oscar.", "Paris.")
"""The short answers."""

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
