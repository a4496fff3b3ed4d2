"""The cases: each scripted caller's speech, its timing, and the room.

Everything random comes from one generator with a fixed seed, so that a half of the corpus has the
same audio in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.caller import PEAK, Floats, spoken
from bench.options import Half
from bench.recordings import quietest, recordings, trimmed
from bench.turns import corpus
from cordboard.audio import g711
from cordboard.audio.resample import resample, to_floats, to_pcm
from cordboard_testkit.room import Room
from cordboard_testkit.timeline import RATE, Samples

FLOOR_DBFS = -62.0
"""Noise of every line: a quiet room. Digital silence is not found on telephones."""
_SEED: dict[Half, int] = {"tune": 41, "held-out": 42}
"""Redrawn on 2026-11-22, with twice the murmurs and a third more interruptions: the half held
out had been run five times before."""
TURNS, TALK = "turns", "talk"
"""A caller who takes turns with the agent; one who listens to its long sentence."""


@dataclass(frozen=True, slots=True)
class Case:
    """One call."""

    group: str
    kind: str
    name: str
    sound: Samples = field(default_factory=lambda: np.zeros(0, np.int16))
    """The caller's speech; empty = listens only."""
    pauses: tuple[tuple[float, float], ...] = ()
    """Pauses in the middle of a phrase, in seconds: start and end."""
    after: float = 0.5
    """Seconds: of silence after the greeting (turns), since the agent's first sample (talk)."""
    keys: str = ""
    echo_db: float | None = None
    echo_delay: float = 0.0
    noise_dbfs: float = FLOOR_DBFS

    def room(self) -> Room:
        """A room of its own for the call."""
        rng = np.random.default_rng(len(self.name) + len(self.sound))
        noise = rng.standard_normal(5 * RATE) * 32768 * 10 ** (self.noise_dbfs / 20)
        return Room(
            echo_db=self.echo_db,
            echo_delay=self.echo_delay,
            noise=np.clip(noise, -32768, 32767).astype(np.int16),
        )


async def cases(half: Half) -> list[Case]:
    """All cases of one half, in a fixed order. Raises `AsteriskMissing`, `KitError`."""
    maker = _Maker(half, await recordings(_needed(half)))
    return [
        *maker.finished(),
        *maker.mid_phrase(),
        *maker.joined(),
        *maker.dictated(),
        *maker.short(),
        *maker.interruptions(),
        *maker.backchannels(),
        *maker.echoes(),
        *maker.noises(),
        *maker.words(),
    ]


def _needed(half: Half) -> set[str]:
    names = {name for name in corpus.FINISHED if corpus.half_of(name) == half}
    names |= {name for name, _ in corpus.CUTS if corpus.half_of(name) == half}
    for phrase in corpus.of_half(corpus.JOINED, half):
        names |= {part for part in phrase.split() if part != corpus.PAUSE}
    return names | set(corpus.SHORT) | {f"digits/{digit}" for digit in range(10)} | {"letters/m"}


def on_line(sound: Floats, peak: float = PEAK) -> Samples:
    """Sound at 8 kHz brought to a peak, through u-law."""
    sound = sound * np.float32(peak / np.abs(sound).max())
    line = g711.ulaw_to_linear(g711.linear_to_ulaw(to_pcm(sound)))
    return np.frombuffer(line, "<i2").astype(np.int16)


def _silence(seconds: float) -> Floats:
    return np.zeros(round(seconds * RATE), np.float32)


class _Maker:
    """Makes the cases of one half."""

    def __init__(self, half: Half, sounds: dict[str, Floats]) -> None:
        self._half = half
        self._sounds = sounds
        self._rng = np.random.default_rng(_SEED[half])

    def _sentences(self) -> list[str]:
        return [name for name in corpus.FINISHED if corpus.half_of(name) == self._half]

    def _after_greeting(self) -> float:
        return float(self._rng.uniform(0.35, 0.8))

    def finished(self) -> list[Case]:
        """Whole sentences, and every second of them again on a noisy line."""
        names = self._sentences()[::3]
        quiet = [(name, "finished", FLOOR_DBFS) for name in names]
        noisy = [(name, "finished, noise -40 dBFS", -40.0) for name in names[::2]]
        return [
            Case(
                TURNS,
                kind,
                name,
                on_line(trimmed(self._sounds[name])),
                after=self._after_greeting(),
                noise_dbfs=noise,
            )
            for name, kind, noise in quiet + noisy
        ]

    def mid_phrase(self) -> list[Case]:
        """A sentence with a pause of 0.3 to 1.2 s where there is a gap between two words."""
        made = []
        for name, around in corpus.CUTS:
            if corpus.half_of(name) != self._half:
                continue
            whole = self._sounds[name]
            cut = quietest(whole, around)
            made.append(self._paused("mid-phrase pause", name, [whole[:cut], whole[cut:]], 1.2))
        return made

    def joined(self) -> list[Case]:
        made = []
        for phrase in corpus.of_half(corpus.JOINED, self._half):
            pieces = [
                self._run_together(piece.split()) for piece in phrase.split(f" {corpus.PAUSE} ")
            ]
            made.append(self._paused("mid-phrase pause", phrase, pieces, 1.2))
        return made

    def dictated(self) -> list[Case]:
        made = []
        for number in corpus.of_half(corpus.DICTATED, self._half):
            groups = [
                self._run_together([f"digits/{digit}" for digit in group])
                for group in number.split(f" {corpus.PAUSE} ")
            ]
            made.append(self._paused("dictated number", number, groups, 0.8))
        return made

    def _run_together(self, names: Sequence[str]) -> Floats:
        parts: list[Floats] = []
        for name in names:
            parts += [trimmed(self._sounds[name], 0.02), _silence(0.04)]
        return np.concatenate(parts[:-1])

    def _paused(self, kind: str, name: str, pieces: list[Floats], longest: float) -> Case:
        """Pieces with a random pause between each two."""
        parts, pauses = [trimmed(pieces[0])], []
        for piece in pieces[1:]:
            length = float(self._rng.uniform(0.3, longest))
            start = sum(map(len, parts)) / RATE
            parts += [_silence(length), trimmed(piece)]
            pauses.append((start, start + length))
        sound = on_line(np.concatenate(parts))
        return Case(TURNS, kind, name, sound, tuple(pauses), self._after_greeting())

    def short(self) -> list[Case]:
        """Answers of one word, recorded and (yes) synthetic."""
        recorded = [
            (name, on_line(trimmed(self._sounds[name])))
            for name in corpus.of_half(corpus.SHORT, self._half)
        ]
        synthetic = [(f"{text} (synthetic)", self._voice(text)) for text in corpus.SPOKEN_SHORT]
        return [
            Case(TURNS, "short answer", name, sound, after=self._after_greeting())
            for name, sound in recorded + synthetic[:3]
        ]

    def _voice(self, text: str) -> Samples:
        """The synthetic voice as another speaker's: other speed and pitch, drawn each time."""
        pitch = float(self._rng.choice([0.86, 0.93, 1.08, 1.15]))
        said = to_floats(spoken(text, float(self._rng.uniform(0.85, 1.15))).tobytes())
        return on_line(trimmed(resample(said, round(RATE * pitch), RATE)))

    def interruptions(self) -> list[Case]:
        """Sentences of a second and more, begun over the agent; some under the agent's echo."""
        onsets = corpus.INTERRUPTED_AT[self._half]
        made = []
        for number, name in enumerate(self._sentences()):
            sound = on_line(trimmed(self._sounds[name]))
            if len(sound) < 1.2 * RATE:
                continue
            echo = number % 3 == 2
            made.append(
                Case(
                    TALK,
                    "interruption, echo -20 dB" if echo else "interruption",
                    name,
                    sound,
                    after=onsets[number % len(onsets)],
                    echo_db=-20.0 if echo else None,
                    echo_delay=0.12,
                )
            )
        return made

    def words(self) -> list[Case]:
        """Short interruptions."""
        onsets = corpus.INTERRUPTED_AT[self._half]
        return [
            Case(
                TALK,
                "interruption, a word or two",
                f"{text} (synthetic)",
                self._voice(text),
                after=onsets[number % len(onsets)],
            )
            for number, text in enumerate(3 * corpus.of_half(corpus.WORDS_OVER, self._half))
        ]

    def backchannels(self) -> list[Case]:
        hummed = {"mm": self._hum(1), "mm-hm": self._hum(2)}
        made = [
            self._over("backchannel", f"{name} (recorded M)", sound)
            for name, sound in hummed.items()
            for _ in range(3)
        ]
        for text in corpus.BACKCHANNELS:
            made += [
                self._over("backchannel", f"{text} (synthetic)", self._voice(text))
                for _ in range(6)
            ]
        return made

    def _over(self, kind: str, name: str, sound: Samples) -> Case:
        level = float(self._rng.uniform(0.4, 1.0))
        quieter = np.rint(sound * level).astype(np.int16)
        return Case(TALK, kind, name, quieter, after=float(self._rng.uniform(0.6, 4.0)))

    def _hum(self, times: int) -> Samples:
        """The nasal of the recorded letter M, once or twice with a breath's gap."""
        letter = trimmed(self._sounds["letters/m"])
        nasal = letter[len(letter) // 2 :] * np.hanning(len(letter) - len(letter) // 2) ** 0.3
        parts = [nasal.astype(np.float32)]
        if times == 2:
            parts += [_silence(0.09), resample(parts[0], round(RATE * 1.12), RATE)]
        return on_line(np.concatenate(parts), 0.3)

    def echoes(self) -> list[Case]:
        """Echo of the agent's own voice: a hundred long sentences at -20 dB, some at other
        levels."""
        made = []
        delays = (0.02, 0.06, 0.12, 0.2, 0.4)
        for level, count in ((-20.0, 100), (-30.0, 10), (-12.0, 10), (-6.0, 10)):
            made += [
                Case(
                    TALK,
                    f"echo {level:.0f} dB",
                    f"{delays[n % len(delays)] * 1000:.0f} ms, {n}",
                    echo_db=level,
                    echo_delay=delays[n % len(delays)],
                    noise_dbfs=-50.0 if n % 4 == 3 else FLOOR_DBFS,
                )
                for n in range(count)
            ]
        return made

    def noises(self) -> list[Case]:
        """Sounds that are not speech: line noise, clicks, coughs, keys. All are synthetic."""
        made = [
            Case(TALK, f"noise {level:.0f} dBFS", f"{n}", noise_dbfs=level)
            for level in (-45.0, -37.0)
            for n in range(6)
        ]
        makers: dict[str, Callable[[], Samples]] = {"click": self._click, "cough": self._cough}
        for kind, make in makers.items():
            made += [self._over(kind, f"{kind} {n}", make()) for n in range(8)]
        made += [
            Case(TALK, "key", key, self._key_leak(key), keys=key, after=1.0 + n)
            for n, key in enumerate("159#")
        ]
        return made

    def _click(self) -> Samples:
        length = round(RATE * float(self._rng.uniform(0.002, 0.012)))
        burst = self._rng.standard_normal(length) * np.exp(-np.arange(length) * 4 / length)
        return on_line(burst.astype(np.float32), float(self._rng.uniform(0.3, 0.9)))

    def _cough(self) -> Samples:
        """Two or three bursts of coloured noise, sharp at their beginning."""
        parts: list[Floats] = []
        for _ in range(int(self._rng.integers(2, 4))):
            length = round(RATE * float(self._rng.uniform(0.09, 0.18)))
            noise = np.convolve(self._rng.standard_normal(length + 8), np.ones(3) / 3, "same")
            shape = np.minimum(1, np.arange(length) / 60) * np.exp(-np.arange(length) * 3 / length)
            parts += [(noise[:length] * shape).astype(np.float32), _silence(0.12)]
        return on_line(np.concatenate(parts[:-1]), float(self._rng.uniform(0.4, 0.9)))

    def _key_leak(self, key: str) -> Samples:
        """The first 30 ms of a key's tone, which gateways let through before they cut it out."""
        row, column = divmod("123A456B789C*0#D".index(key), 4)
        low, high = (697, 770, 852, 941)[row], (1209, 1336, 1477, 1633)[column]
        times = np.arange(round(0.03 * RATE)) / RATE
        tone = np.sin(2 * np.pi * low * times) + np.sin(2 * np.pi * high * times)
        return on_line(tone.astype(np.float32), 0.4)
