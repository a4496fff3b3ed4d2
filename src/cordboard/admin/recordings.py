"""Endpoints of recordings: peaks to draw, and the sound for a player."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field
from starlette.responses import Response

from cordboard.accounts.audit import AuditEntry
from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import UNRECORDED, Ask, Content, Endpoint, Takes
from cordboard.admin.history import (
    call_on_disk,
    context_of_ledger,
    from_disk,
    keeper_of,
    streamed,
)
from cordboard.errors import RequestRefused
from cordboard.history.playback import (
    Playback,
    RangeNotSatisfiable,
    StereoFile,
    Track,
    parse_range,
    read_peaks,
)

MOST_PLAYED = 10_000
"""Plays that are remembered, so that each is one line of the audit and not one for each range."""
_PIECE = 131_072
"""Bytes of sound at once."""
_DAY_MS = 24 * 3_600_000


class Stretch(Takes):
    from_ms: int = Field(0, ge=0, le=_DAY_MS)
    """Time in the recording."""
    to_ms: int = Field(_DAY_MS, ge=0, le=_DAY_MS)


class PlayOf(Takes):
    track: Track = "both"


async def draw_peaks(ask: Ask) -> Response:
    """Give the loudness of a recording, to draw it: 50 times a second four int8, the least and the
    greatest sample of the caller, then of the agent."""
    sound, query, vault = await _sound(ask), ask.query, keeper_of(ask).vault
    found = await from_disk(ask, sound.stat)
    ask.unchanged(f"{found.st_mtime_ns:x}.{found.st_size:x}.{query.from_ms}.{query.to_ms}")
    peaks = await from_disk(ask, read_peaks, sound, query.from_ms, query.to_ms, vault)
    return Response(peaks, media_type="application/octet-stream")


async def play(ask: Ask) -> Response:
    """Give the sound of a call as PCM WAV, or the range of it that the header `Range` asks for.

    The audit has one line for each session and call.
    """
    sound, vault = await _sound(ask), keeper_of(ask).vault
    file = await from_disk(ask, StereoFile.open, sound, vault)
    try:
        playback = Playback(file, ask.query.track)
        begin, end, status, headers = _part(ask, playback)
        await _record_once(ask)
    except BaseException:
        file.close()
        raise
    pieces = _pieces(playback, begin, begin if ask.method == "HEAD" else end)
    return await streamed(ask, pieces, "audio/wav", status=status, **headers)


def _part(ask: Ask, playback: Playback) -> tuple[int, int, int, dict[str, str]]:
    """Return begin and end of the part that is asked for, status and headers of the answer. Raises
    `RequestRefused` 416."""
    etag = f'"{playback.size:x}.{ask.query.track}"'
    headers = {"accept_ranges": "bytes", "ETag": etag}
    asked = ask.headers.get("range", "")
    if ask.headers.get("if-range", etag) != etag:
        asked = ""
    try:
        part = parse_range(asked, playback.size)
    except RangeNotSatisfiable as error:
        whole = {"Content-Range": f"bytes */{playback.size}"}
        raise RequestRefused(416, "range", str(error), headers=whole) from None
    begin, end = part or (0, playback.size)
    headers["content_length"] = str(end - begin)
    if part is not None:
        headers["content_range"] = f"bytes {begin}-{end - 1}/{playback.size}"
    return begin, end, 200 if part is None else 206, headers


def _pieces(playback: Playback, begin: int, end: int) -> Iterator[bytes]:
    """Yield exactly these bytes, and close the recording. Raises `OSError` if the file gets shorter
    meanwhile."""
    with playback.file:
        for at in range(begin, end, _PIECE):
            until = min(end, at + _PIECE)
            piece = playback.read(at, until)
            if len(piece) != until - at:
                raise OSError("the recording has become shorter")
            yield piece


async def _sound(ask: Ask) -> Path:
    found = await call_on_disk(ask)
    if found.sound is None:
        raise RequestRefused(404, "not_there", "the call has no recording, or it was deleted")
    return found.sound


async def _record_once(ask: Ask) -> None:
    """Write a line of the audit at the first play of a call in a session."""
    played, who = ask.services.played, ask.who
    key = (who.session.id if who.session else who.name, ask.subject.id)
    before: tuple[int, AuditEntry] | None = played.get(key)
    if before is not None:
        ask.done, ask.recorded = before, True
        return
    await ask.record()
    if ask.done is not None:
        played[key] = ask.done
    if len(played) > MOST_PLAYED:
        del played[next(iter(played))]


ENDPOINTS = (
    Endpoint(
        "GET",
        "/calls/{call_id}/peaks",
        may=Permission.RECORDINGS_PLAY,
        scope=context_of_ledger,
        takes=None,
        asks=Stretch,
        gives=Content(("application/octet-stream",)),
        audit=UNRECORDED,
        does=draw_peaks,
        forwards=True,
        kept=True,
    ),
    Endpoint(
        "GET",
        "/calls/{call_id}/audio",
        may=Permission.RECORDINGS_PLAY,
        scope=context_of_ledger,
        takes=None,
        asks=PlayOf,
        gives=Content(("audio/wav",)),
        audit="recording.played",
        does=play,
        forwards=True,
        kept=True,
        records_itself=True,
    ),
)
