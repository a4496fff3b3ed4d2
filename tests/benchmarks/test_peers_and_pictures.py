"""The harness that every engine is measured with, the line without a telephone, the plots."""

from __future__ import annotations

import asyncio
import re
import time
from xml.etree import ElementTree

import pytest
from bench import pictures
from bench.load import sipp
from bench.load.server import Arrivals
from bench.peers import harness
from bench.peers.install import LOCK
from bench.peers.null_media import NullMedia

from cordboard.audio.pacer import Pacer


class Lossy:
    """Takes every frame but the third, and the second one much too late."""

    def __init__(self) -> None:
        self.stamps = harness.Stamps()
        self._count = 0

    async def hand_over(self, frame: bytes, due: float) -> None:
        self._count += 1
        if self._count != 3:
            taken = time.perf_counter() + (1.0 if self._count == 2 else 0.0)
            self.stamps.taken.append((due, time.perf_counter(), taken))


async def test_the_harness_tells_late_frames_from_lost_ones() -> None:
    row = await harness.measured([Lossy()], ([b"\0" * 320], [b"\0" * 320]), seconds=0.2)
    assert (row["frames"], row["lost"]) == (10, 1)
    assert row["late"] >= 1
    assert row["lateness_max_ms"] > 900
    assert row["us_per_frame"] > 0


async def test_a_line_without_a_telephone_paces_and_counts() -> None:
    media = NullMedia(Pacer(asyncio.get_running_loop()))
    heard: list[bytes] = []
    done = asyncio.Event()
    await media.hand_over(b"early", 0.0)
    media.on_audio(heard.append)
    await media.hand_over(b"frame", 0.0)
    assert heard == [b"frame"]
    assert len(media.stamps.taken) == 1
    media.write(b"\1" * 640)
    media.mark(done.set)
    async with asyncio.timeout(30):
        await done.wait()
    assert media.heard_ms == 40
    await media.close()


def test_a_gap_of_two_frames_is_late_and_a_missing_stretch_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrivals, now = Arrivals(), 50.0
    monkeypatch.setattr("bench.load.server.time.monotonic", lambda: now)
    for gap in (0.02, 0.02, 0.03, 0.02, 0.2, 0.02):
        now += gap
        arrivals.frame()
    assert arrivals.late == 1
    assert arrivals.lost >= 7


def test_the_scenario_of_the_callers_is_well_formed() -> None:
    root = ElementTree.fromstring(sipp.scenario("speech.ulaw"))
    assert [part.tag for part in root].count("send") == 3
    assert "speech.ulaw,-1,0" in ElementTree.tostring(root, encoding="unicode")


def test_plots_are_well_formed_and_escape_their_words() -> None:
    values = {"a < b": [1.0, 2.0, 3.0], "b": []}
    drawn = (
        pictures.bars("bars & more", [("a < b", 3.0), ("none", 0.0)], "µs"),
        pictures.steps("steps", values, "ms", 2.0),
        pictures.stack("stack", {"turn": {"stt": 1.0, "wire": 2.0}}, "ms"),
    )
    for text in drawn:
        assert ElementTree.fromstring(text).tag.endswith("svg")
    assert drawn[0].count("<rect") == 3  # the frame and two bars


def test_the_peers_lock_has_a_hash_for_each_version_and_no_address() -> None:
    lines = LOCK.read_text().splitlines()
    pinned = [at for at, line in enumerate(lines) if "==" in line]
    assert {"livekit-agents", "pipecat-ai"} <= {lines[at].split("==")[0] for at in pinned}
    assert all("--hash=sha256:" in lines[at + 1] for at in pinned)
    assert not re.search(r"://|^-|@ ", LOCK.read_text(), re.MULTILINE)
