"""Versions of the file in a running engine: what is kept, and what the ledgers of calls name."""

from __future__ import annotations

import asyncio

import pytest

from cordboard.calls import events
from cordboard.config.files import digest_of
from cordboard.config.publish import PublishConflict, publish
from cordboard.config.stored_secrets import StoredSecrets
from cordboard.config.versions import Author, Versions
from cordboard_testkit.patience import PATIENCE, until

from .conftest import Stand, context

ANNA = Author("anna", "friendlier", "page")


def named(stand: Stand) -> str:
    """Greeting in the version that the newest call's ledger names."""
    digest = [event for event in stand.events if isinstance(event, events.Offered)][-1].config
    return stand.versions.content(digest).decode().split('"greeting": "')[1].partition('"')[0]


async def begun(stand: Stand) -> str:
    stand.write(contexts={"demo": context(greeting="One.")})
    await stand.begin()
    return stand.path.read_text()


async def test_each_call_names_the_version_that_it_runs_on(stand: Stand) -> None:
    await begun(stand)
    await stand.ring()
    assert named(stand) == "One."
    stand.write(contexts={"demo": context(greeting="Two.")})
    assert (await stand.reload()).applied
    await stand.ring()
    assert named(stand) == "Two."
    newest, first = stand.versions.history()
    assert (newest.author, newest.generation, newest.result) == (
        Author(source="file"),
        2,
        "applied",
    )
    assert (first.generation, first.result) == (1, "applied")


async def test_a_comment_makes_a_version_without_a_new_generation(stand: Stand) -> None:
    await begun(stand)
    stand.path.write_text(stand.path.read_text() + "# why\n")
    report = await stand.reload()
    assert (report.changed, report.generation) == ((), 1)
    await stand.ring()
    (offered,) = [event for event in stand.events if isinstance(event, events.Offered)]
    assert offered.config == digest_of(stand.path.read_bytes())
    assert stand.versions.latest() == offered.config


async def test_a_text_published_while_the_engine_starts_stays_the_newest(stand: Stand) -> None:
    stand.write(contexts={"demo": context(greeting="One.")})
    before = stand.path.read_text()
    versions = Versions(stand.path.parent / "versions", stand.path)

    def other() -> None:
        after = before.replace("One.", "Two.")
        publish(after, digest_of(before.encode()), ANNA, stand.path, versions, {})

    await stand.begin(loading=other)
    await stand.ring()
    assert named(stand) == "One."
    newest, oldest = stand.versions.history()
    assert (newest.author, newest.result) == (ANNA, "")
    assert (oldest.digest, oldest.result) == (digest_of(before.encode()), "applied")
    assert (await stand.reload()).applied
    assert stand.versions.history()[0].result == "applied"


async def test_a_file_that_is_refused_is_no_version(stand: Stand) -> None:
    await begun(stand)
    stand.write(contexts={"demo": {"greting": "x"}})
    assert not (await stand.reload()).applied
    assert len(stand.versions.history()) == 1


async def test_publishing_writes_the_file_and_puts_it_into_force(stand: Stand) -> None:
    text = await begun(stand)
    base = digest_of(text.encode())
    report = await stand.administration.publish(text.replace("One.", "Two."), base, ANNA)
    assert (report.applied, report.changed) == (True, ("contexts.demo.greeting",))
    assert "Two." in stand.path.read_text()
    assert (await stand.ring()).greeting == "Two."
    assert named(stand) == "Two."
    newest = stand.versions.history()[0]
    assert (newest.author, newest.generation, newest.result) == (ANNA, 2, "applied")
    with pytest.raises(PublishConflict):
        await stand.administration.publish(text, base, ANNA)
    assert stand.succession.generation.number == 2


async def test_the_watch_takes_what_was_published_for_no_hand_edit(stand: Stand) -> None:
    stand.write(contexts={"demo": context(greeting="One.")}, reload={"watch": True})
    await stand.begin()
    text = stand.path.read_text()
    await stand.administration.publish(text.replace("One.", "Two."), digest_of(text.encode()), ANNA)
    assert (await stand.reload()).changed == ()
    assert [version.author.source for version in stand.versions.history()] == ["page", "file"]


async def test_a_secret_that_is_stored_meanwhile_is_taken(stand: Stand) -> None:
    folder = stand.path.parent / "admin"
    secrets = StoredSecrets(folder)
    secrets.put("OTHER", "hunter1")
    stand.write(
        contexts={"demo": context(greeting="Hello ${WHO:-you}.")},
        admin={"ui": {"data": str(folder)}},
        reload={"watch": True},
    )
    await stand.begin()
    assert (await stand.ring()).greeting == "Hello you."
    secrets.put("WHO", "hunter2")
    await until(lambda: stand.succession.generation.number == 2, "the reload")
    assert (await stand.ring()).greeting == "Hello hunter2."
    assert "hunter2" in stand.secrets
    assert len(stand.versions.history()) == 1, "the text is the same"


async def test_without_room_for_versions_calls_go_on_and_name_none(stand: Stand) -> None:
    (stand.path.parent / "versions").write_text("no folder")
    await begun(stand)
    assert (await stand.ring()).greeting == "One."
    stand.write(contexts={"demo": context(greeting="Two.")})
    report = await stand.reload()
    assert report.applied
    (problem,) = report.problems
    assert (problem.key, problem.fatal) == ("admin.ui.data", False)
    assert "versions cannot be kept" in problem.message
    assert (await stand.ring()).greeting == "Two."
    assert {e.config for e in stand.events if isinstance(e, events.Offered)} == {""}
    assert len(stand.logged("config_version_not_kept")) == 2


async def test_a_lock_that_is_never_released_holds_up_no_start_and_no_reload(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.config.versions.LONGEST_WAIT_S", 0.1)
    with Versions(stand.path.parent / "versions", stand.path).locked():
        await asyncio.wait_for(begun(stand), PATIENCE)
        (problem,) = (await stand.reload()).problems
    assert "another process holds" in problem.message
    assert (await stand.reload()).problems == ()
    assert len(stand.versions.history()) == 1
