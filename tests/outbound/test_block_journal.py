"""The engine's looks into the campaigns' file for numbers that other engines do not have yet."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cordboard.outbound.campaigns import blocks
from cordboard.outbound.campaigns.blocks import BlockJournal
from cordboard.outbound.campaigns.store import CampaignStore


def age(path: Path) -> None:
    """Have the file and its log be written long ago."""
    for file in path.parent.glob(f"{path.name}*"):
        told = file.stat()
        os.utime(file, ns=(told.st_atime_ns, told.st_mtime_ns - 10**10))


async def found(journal: BlockJournal) -> list[str]:
    """Numbers that are unsent, which are sent then."""
    changes = await journal.unsent(10)
    await journal.sent(changes)
    return [each.number for each in changes]


async def test_no_change_is_missed_however_soon_it_follows_a_look(tmp_path: Path) -> None:
    path = tmp_path / "campaigns.db"
    journal = BlockJournal(path)
    assert await found(journal) == []
    with closing(CampaignStore(path)) as kept_open:
        for number in [f"+47220000{each:02}" for each in range(10)]:
            if int(number) % 2:
                kept_open.block([number])
            else:
                with closing(CampaignStore(path)) as writer:
                    writer.block([number])
            assert await found(journal) == [number]
            assert await found(journal) == []
    with closing(CampaignStore(path)) as store:
        assert store.block(["+4722000099"]) == 1
    assert await found(journal) == ["+4722000099"]


async def test_a_file_that_nothing_was_written_to_is_not_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "campaigns.db"
    opened: list[Path] = []

    class Counted(CampaignStore):
        def __init__(self, path: Path) -> None:
            opened.append(path)
            super().__init__(path)

    monkeypatch.setattr(blocks, "CampaignStore", Counted)
    with closing(CampaignStore(path)) as store:
        store.block(["+4722000001"])
    journal = BlockJournal(path)
    assert await found(journal) == ["+4722000001"]
    age(path)
    assert await found(journal) == []
    opened.clear()
    for _ in range(3):
        assert await journal.unsent(10) == ()
    assert opened == []
    with closing(CampaignStore(path)) as store:
        store.block(["+4722000002"])
    assert await found(journal) == ["+4722000002"]


def test_the_engine_keeps_its_locks_when_it_opens_the_file_once_more(tmp_path: Path) -> None:
    """Else the next program that leaves takes itself for the last one, and deletes the log."""
    path = tmp_path / "campaigns.db"
    with closing(CampaignStore(path)) as kept_open:
        kept_open.block(["+4722000001"])
        CampaignStore(path).close()
        words = (
            "import pathlib, sys\n"
            "from cordboard.outbound.campaigns.store import CampaignStore\n"
            "CampaignStore(pathlib.Path(sys.argv[1])).close()\n"
        )
        subprocess.run([sys.executable, "-c", words, str(path)], check=True)
        assert path.with_name("campaigns.db-wal").exists()
