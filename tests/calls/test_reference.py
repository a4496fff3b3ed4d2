from __future__ import annotations

import dataclasses
from pathlib import Path

from cordboard.calls import events
from cordboard.calls.history import read_lines
from cordboard.calls.reference import EXAMPLE, reference

PAGE = Path(__file__).parents[2] / "docs" / "call-ledger.md"


def test_the_page_in_the_docs_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        "run `python -m cordboard.calls.reference > docs/call-ledger.md`"
    )


def test_every_event_and_field_is_on_the_page() -> None:
    page = reference()
    for event in events.EVENTS:
        section = page.partition(f"### `{event.type}`\n")[2].partition("\n#")[0]
        assert section, event.type
        for field in dataclasses.fields(event):  # type: ignore[arg-type]
            assert f"| `{field.name}` |" in section


def test_the_example_keeps_to_the_schema() -> None:
    known = {event.type: event for event in events.EVENTS}
    lines = read_lines(EXAMPLE)
    assert (lines[0]["type"], lines[-1]["type"]) == ("call.offered", "call.ended")
    for line in lines:
        names = [field.name for field in dataclasses.fields(known[line["type"]])]  # type: ignore[arg-type]
        assert list(line) == ["at_ms", "type", *names]
