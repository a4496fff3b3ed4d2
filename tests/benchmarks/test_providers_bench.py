"""The benchmark of the realtime adapters: its services speak as the real ones, and it measures."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from bench import page
from bench.providers import load, parsing
from bench.providers.lines import settings_of
from bench.providers.wires import KEY, WIRES

from cordboard.agent_api.agent import AgentSession
from cordboard.agent_api.provider import Parts
from cordboard.agents.making import make


@pytest.mark.parametrize("name", WIRES)
async def test_our_dialects_understand_all_that_the_services_of_the_benchmark_say(
    name: str,
) -> None:
    wire, host = WIRES[name], parsing.Host()  # which raises at what a protocol ignores
    protocol = make("agent", settings_of(wire, "http://127.0.0.1:9"), Parts(KEY))
    session = AgentSession(
        "c1", "bench", "Be kind.", "", (), wire.format, lambda _: None, lambda: False
    )
    protocol.begin(session, host, None)
    said = [*wire.welcome, *wire.accepted, wire.sound(1), wire.words(2), wire.sound(3)]
    for binary, content in said:
        (protocol.receive_binary if binary else protocol.receive_text)(content)
    assert host.sounds == 2
    protocol.hear(wire.frame)


async def test_each_frame_is_found_again_on_the_other_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load, "ARRIVE", 60.0)
    quick = load.Windows(seconds=0.1, at_rest=1, hear=1, both=13, settle=0.1)
    measured = await load.measure("gemini", "adapter", 2, windows=quick)
    assert measured.both_us > 0
    assert len(measured.up) >= 2
    assert len(measured.down) >= 2
    assert min(measured.up + measured.down) >= 0


def test_frames_that_were_lost_are_no_figure() -> None:
    with pytest.raises(ValueError, match="3 frames were sent and 1 have come"):
        load._apart([1.0, 2.0, 3.0], [1.5], 0)
    assert load._apart([1.0, 2.0, 3.0], [2.5, 3.25], 1) == [0.25]


def test_only_what_is_between_its_marks_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "Words.\n<!-- figures of providers -->\nold\n<!-- end of figures -->\nMore.\n"
        "<!-- figures of other -->\nkept\n<!-- end of figures -->\n"
    )
    target = {"name": "cost", "value": 41.234, "limit": 60, "at_least": False, "unit": "us"}
    result = {
        "load_before": 0.1,
        "targets": [{**target, "met": True}],
        "tables": [{"title": "Costs", "columns": ["who", "us"], "rows": [["we", "41"]]}],
        "notes": [],
    }
    results = tmp_path / "r.json"
    results.write_bytes(
        orjson.dumps(
            {
                "began": "2026-11-21T22:00:00+00:00",
                "cores": 2,
                "python": "3.11.7",
                "results": {"providers": result, "other": None, "unknown": result},
            }
        )
    )
    monkeypatch.setattr(page, "PAGE", document)
    monkeypatch.setattr("sys.argv", ["page", str(results)])
    assert page.main() == 0
    written = document.read_text()
    assert "old" not in written
    assert "| cost | 41.2 us | ≤ 60 | met |" in written
    assert "| we | 41 |" in written
    assert written.startswith("Words.\n")
    assert written.endswith("\nMore.\n<!-- figures of other -->\nkept\n<!-- end of figures -->\n")
