"""Quality and speed of the offline agent's recogniser and voice: ``python -m bench.voices``.

Requests for this product are spoken by the bundled voice at several speeds and pitches, carried
over an 8 kHz u-law line, some with noise, and recognised with and without priming. Prints load
time, memory, word error rates, milliseconds, and the delay to the first sound of a sentence.
Takes about a minute on two cores. The caller's voice is synthetic: real callers will do worse.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from collections import Counter

import numpy as np
import psutil
from hibari import Hibari

from cordboard.agent_api.offline_models import OfflineModels
from cordboard.agent_api.stt import NO_HINTS, SpeechHints
from cordboard.agent_api.workers import Workers
from cordboard.audio import g711
from cordboard.audio.resample import resample, to_pcm
from cordboard.vendors.local.models import load_offline_models

REQUESTS = """What's the ATIS at Kilo Juliett Foxtrot Kilo?
Can I get the weather for Oslo Gardermoen?
Information for E N G M please.
Read me the ATIS for Bergen.
What is the current ATIS for Oslo?
Give me the ATIS for Echo November Golf Mike.
Hi, I'd like the weather at Stavanger please.
What's the weather like in Trondheim?
Could I have the information for Bergen Flesland?
I need the ATIS for E N B R.
ATIS for London Heathrow please.
What is the ATIS for Kilo Sierra Foxtrot Oscar?
Kilo Juliett Foxtrot Kilo.
K J F K.
Yes.
No.
Yes please.
No thank you.
Goodbye.
Transfer me to sales.
Can I speak to a human please?
Could you repeat that?
My name is John Smith.
On Tuesday at half past nine in the morning.
The runway is two two left.""".splitlines()

HINTS = SpeechHints(
    (
        "What's the ATIS at Kilo Foxtrot Mike?",
        "Information for E N G M please.",
        "Transfer me to sales.",
        "Yes, please.",
        "Goodbye.",
        "Oslo Gardermoen",
        "Bergen Flesland",
        "Stavanger",
        "Trondheim",
        "London Heathrow",
    )
)

CONDITIONS = {
    "plain": (1.0, 1.0, None),
    "fast, low": (1.25, 0.86, -45.0),
    "slow, high": (0.85, 1.12, None),
    "noisy": (1.0, 1.0, -38.0),
    "lower": (1.05, 0.8, -45.0),
}
"""Speed, pitch factor, and white noise in dBFS, of each caller."""

_FIGURES = dict(
    zip("0123456789", "zero one two three four five six seven eight nine".split(), strict=True)
)


def caller(engine: Hibari, text: str, speed: float, pitch: float, noise: float | None) -> bytes:
    """``text`` as the line delivers it: s16 at 8 kHz after u-law."""
    said = text.replace("ATIS", "[ATIS](/ˈATɪs/)")  # noqa: RUF001
    samples = resample(engine(said, speed=speed, seed=1), 24000, int(800 / pitch) * 10)
    samples = np.concatenate((np.zeros(2400), samples / np.abs(samples).max() / 2, np.zeros(3200)))
    if noise is not None:
        samples += np.random.default_rng(1).standard_normal(len(samples)) * 10 ** (noise / 20)
    return g711.ulaw_to_linear(g711.linear_to_ulaw(to_pcm(samples.astype(np.float32))))


def words(text: str) -> list[str]:
    """Words for counting: figures spelled out, single letters joined, spellings made one."""
    text = text.lower().replace("'s", " is").replace("juliett", "juliet").replace("-", " ")
    text = text.replace("9:30", "half past nine").replace("22l", "two two left")
    text = re.sub(r"\d", lambda figure: f" {_FIGURES[figure[0]]} ", text)
    text = re.sub(r"[^a-z' ]", " ", text)
    joined = re.sub(r"\b(?:[b-z]|a(?= [a-z]\b)) (?=[a-z]\b)", lambda m: m[0][0], f" {text} ")
    return joined.split()


def distance(wanted: list[str], heard: list[str]) -> int:
    row = list(range(len(heard) + 1))
    for i, word in enumerate(wanted, 1):
        above, row = row, [i]
        for j, other in enumerate(heard, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (word != other)))
    return row[-1]


async def hearing(models: OfflineModels) -> None:
    engine = Hibari(threads=1)
    heard = {
        (name, text): caller(engine, text, *how)
        for name, how in CONDITIONS.items()
        for text in REQUESTS
    }
    for label, hints in (("without priming", NO_HINTS), ("primed", HINTS)):
        wrong: Counter[str] = Counter()
        total: Counter[str] = Counter()
        took = []
        for (name, text), pcm in heard.items():
            transcript = await models.recogniser.transcribe(pcm, hints)
            wrong[name] += distance(words(text), words(transcript.text))
            total[name] += len(words(text))
            took.append(transcript.took_ms)
        rates = ", ".join(f"{name} {100 * wrong[name] / total[name]:.1f} %" for name in total)
        print(f"recogniser {label}: word errors {rates}; all {wrong.total() / total.total():.1%}")
        cuts = statistics.quantiles(took, n=20)
        print(f"  ms per request: median {cuts[9]:.0f}, p95 {cuts[18]:.0f}, max {max(took):.0f}")


async def speaking(models: OfflineModels) -> None:
    sentence = "Oslo Gardermoen has wind from the north at number {} knots."
    delays = []
    for number in range(20):
        began = time.perf_counter()
        await anext(models.voice.speak(sentence.format(number)))
        delays.append((time.perf_counter() - began) * 1000)
    print(f"voice: first sound of 10 words, ms: median {statistics.median(delays):.0f}", end="")
    print(f", max {max(delays):.0f}")


async def main() -> None:
    workers, began = Workers(), time.perf_counter()
    models = await load_offline_models(workers)
    memory = psutil.Process().memory_info().rss / 1e6
    print(f"models ready in {time.perf_counter() - began:.2f} s, process memory {memory:.0f} MB")
    await speaking(models)
    await hearing(models)
    print(f"process memory after it all {psutil.Process().memory_info().rss / 1e6:.0f} MB")
    models.close()
    await workers.close()


if __name__ == "__main__":
    asyncio.run(main())
