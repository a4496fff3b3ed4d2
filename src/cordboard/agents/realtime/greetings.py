"""Greetings in the services' own voices, recorded in the calls in which they were first spoken.

A service needs half a second and more for the first sound of a greeting that is always the same. So
a greeting that one call has heard completely is played to the next one at once, while its
connection is still being opened, and the service learns that the caller was greeted. The key
contains everything that changes the sound of a greeting.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from cordboard.audio.format import AudioFormat
from cordboard.config.sections.realtime import RealtimeProvider

MAX_BYTES = 16 * 1024 * 1024
"""Limit of all greetings together: half an hour of G.711."""
LONGEST_BYTES = 480_000
"""Limit of one greeting: a minute of G.711. Longer ones are not kept."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """A greeting as it was spoken once."""

    words: str
    """The words as the service wrote them; empty where it does not."""
    sound: bytes


def greeting_key(settings: RealtimeProvider, audio_format: AudioFormat, text: str) -> str:
    """Return the key of a greeting: everything its sound depends on. Contains no secret."""
    told = settings.model_dump_json(exclude={"api_key"})
    whole = f"{told}|{audio_format.encoding}{audio_format.rate}|{text}"
    return hashlib.sha256(whole.encode()).hexdigest()


class GreetingCache:
    """The greetings of one engine, in order of use, the most recent last."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, Greeting] = OrderedDict()
        self._bytes = 0

    def find(self, key: str) -> Greeting | None:
        """Return the greeting if it has been spoken before."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: str, greeting: Greeting) -> None:
        """Keep a greeting that was spoken to its end."""
        size = len(greeting.sound)
        if key in self._kept or not size or size > LONGEST_BYTES:
            return
        self._kept[key] = greeting
        self._bytes += size
        while self._bytes > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest.sound)


class GreetingListener:
    """Records one greeting while it is spoken."""

    def __init__(self, cache: GreetingCache, key: str) -> None:
        self._cache = cache
        self._key = key
        self._words: list[str] = []
        self._sound = bytearray()
        self._over = False

    def words(self, text: str) -> None:
        if not self._over:
            self._words.append(text)

    def sound(self, sound: bytes) -> None:
        if not self._over and len(self._sound) <= LONGEST_BYTES:
            self._sound += sound

    def done(self) -> None:
        """Keep the greeting: it was spoken to its end."""
        if not self._over:
            self._cache.keep(self._key, Greeting("".join(self._words).strip(), bytes(self._sound)))
        self.give_up()

    def give_up(self) -> None:
        """Stop recording: the greeting was cut, or is over, and the rest belongs to an answer."""
        self._over = True
        self._sound.clear()
        self._words.clear()
