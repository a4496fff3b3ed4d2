"""The index of encrypted calls: what it has in clear, how calls are found, what a backup has."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.cli.commands import typed
from tests.history.conftest import postgres  # noqa: F401 - a fixture
from tests.history.ledgers import NOON, Told, refuse

from cordboard.errors import IndexDamaged, IndexUnavailable
from cordboard.history.erasure import Erasure
from cordboard.history.export import all_rows
from cordboard.history.indexer import Indexer
from cordboard.history.notes import Notes, read_notes, write_notes
from cordboard.history.query import CallQuery, CallRow, parse_query
from cordboard.history.sql_store import SqlHistoryStore
from cordboard.history.views import View, Views
from cordboard.outbound.campaigns.rows import Row
from cordboard.outbound.campaigns.store import CampaignSettings, CampaignStore
from cordboard.privacy.master_key import CallKeys
from cordboard.privacy.sealed_file import Vault

NUMBER, NAME = "+4577665544", "Zebedee"
SECRETS = (b"77665544", b"Zebedee", b"xylophone", b"quagmire")


class Sealed:
    """A folder of calls of which some are encrypted, and its index."""

    def __init__(self, folder: Path, url: str = "", node: str = "") -> None:
        self.folder = folder
        self.directory = folder / "calls"
        self.url = url
        self.vault = self.vault_of(bytes(32))
        self.store = SqlHistoryStore(self.directory, url, self.vault, node)
        self.indexer = Indexer(self.directory, self.store, vault=self.vault)

    def vault_of(self, master: bytes, *old: bytes) -> Vault:
        return Vault(CallKeys(self.folder / "keys", master, old), seals=True)

    def add(self, *calls: Told, sealed: bool = True) -> None:
        for call in calls:
            path = call.write(self.directory)
            if sealed:
                seal = self.vault.new_call()
                assert seal is not None
                self.vault.keep(seal)
                path.write_bytes(seal.whole("ledger", call.content()))
        self.indexer.catch_up()

    def tag(self, call: Told, *tags: str) -> None:
        ledger = self.directory / call.file
        revision = read_notes(ledger, self.vault)[1]
        write_notes(ledger, Notes(tags=tags), revision, self.vault)
        self.indexer.catch_up()

    def ids(self, **filters: str) -> list[str]:
        query = parse_query({name: [value] for name, value in filters.items()})
        return [row.id for row in all_rows(self.store, query)]


@pytest.fixture(params=["sqlite", "postgresql"])
def calls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sealed]:
    url = ""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres").new_database()
    found = Sealed(tmp_path, url)
    yield found
    found.store.close()


def secret(call_id: str = "secret", number: str = NUMBER, days: int = 0) -> Told:
    return Told(
        call_id,
        NOON + timedelta(days=days),
        number=number,
        name=NAME,
        turns=[("my xylophone is broken", "a xylophone you say")],
        tools=[("look_up", "error")],
    )


def in_clear(folder: Path) -> list[str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [f"{path}: {each!r}" for path in files for each in SECRETS if each in path.read_bytes()]


def dump(calls: Sealed) -> str:
    """Everything in the tables."""
    from cordboard.history.tables import METADATA

    with calls.store._database.reading() as connection:
        tables = [table.select() for table in METADATA.sorted_tables]
        return repr([[tuple(row) for row in connection.execute(each)] for each in tables])


def test_nothing_personal_is_in_the_index(calls: Sealed) -> None:
    calls.add(secret(), Told("other"))
    calls.tag(secret(), "quagmire")
    assert not in_clear(calls.directory)
    assert not [each for each in SECRETS if each.decode() in dump(calls)]
    (row,) = calls.store.find(parse_query({"number": [NUMBER]})).rows
    assert (row.id, row.caller_number, row.caller_name, row.called_number, row.tags) == (
        "secret", NUMBER, NAME, "100", ("quagmire",),
    )  # fmt: skip
    assert (row.context, row.tools_failed, row.turns) == ("booking", ("look_up",), 1)


def test_encrypted_and_plain_calls_are_found_alike(calls: Sealed) -> None:
    sealed, plain = secret("sealed"), secret("plain", days=1)
    calls.add(sealed)
    calls.add(plain, sealed=False)
    calls.add(Told("other"), Told("another", NOON + timedelta(days=2)))
    for each in (sealed, plain):
        calls.tag(each, "quagmire", "vip")
    both = ["plain", "sealed"]
    assert calls.ids(number=NUMBER) == calls.ids(number="+45 77 66 55-44") == both
    assert calls.ids(number_last4="5544") == calls.ids(number_prefix="+4577") == both
    assert calls.ids(text="xylophone") == calls.ids(text="xylo* you", who="agent") == both
    assert calls.ids(text='"my xylophone" you') == both
    assert calls.ids(text="xylophone my", who="agent") == []
    assert calls.ids(text='"xylophone my"') == calls.ids(text="xylop") == []
    assert calls.ids(tag="quagmire", text="broken", outcome="completed") == both
    assert calls.ids(tag="quagmire", outcome="failed") == []
    assert len(calls.ids(called="100")) == 4
    assert calls.store.facets(CallQuery())["tag"] == {"quagmire": 2, "vip": 2}
    assert calls.store.facets(parse_query({"number": [NUMBER]}))["context"] == {"booking": 2}
    calls.tag(sealed, "vip")
    assert calls.ids(tag="quagmire") == ["plain"]
    assert calls.store.facets(CallQuery())["tag"] == {"quagmire": 1, "vip": 2}


def test_a_long_search_goes_page_by_page_and_says_how_far_it_is(
    calls: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.history.sql_store.MOST_OPENED", 4)
    calls.add(*(Told(f"c{number}", NOON + timedelta(minutes=number)) for number in range(9)))
    calls.add(secret(days=-1))
    query, cursor, far = parse_query({"text": ["xylophone"]}), "", []
    found: list[CallRow] = []
    while True:
        page = calls.store.find(query, 2, cursor)
        found += page.rows
        far.append(page.searched_to_ms)
        if not (cursor := page.next):
            break
    assert [row.id for row in found] == ["secret"]
    begin = round(NOON.timestamp() * 1000)
    assert far == [begin + 5 * 60_000, begin + 60_000, None]
    assert calls.store.leaves_out(query)
    assert not calls.store.leaves_out(CallQuery(number=NUMBER))
    assert calls.store.find(CallQuery(), 2).searched_to_ms is None


def test_plain_calls_are_searched_in_the_index_alone(
    calls: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.add(*(secret(f"c{number}") for number in range(3)), sealed=False)

    def opened(*_: object) -> bool:
        raise AssertionError("a call was opened")

    monkeypatch.setattr("cordboard.history.sql_store.answers", opened)
    assert len(calls.ids(text="xylophone", number_prefix="+4577")) == 3
    assert not calls.store.leaves_out(parse_query({"text": ["xylophone"]}))


def test_an_erased_call_is_unreadable_in_every_backup_of_the_index(tmp_path: Path) -> None:
    calls = Sealed(tmp_path)
    calls.add(secret(), Told("other"))
    calls.tag(secret(), "quagmire")
    calls.store.close()
    backup = tmp_path / "backup"
    shutil.copytree(calls.directory, backup / "calls")
    erasure = Erasure(calls.directory, calls.store, vault=calls.vault)
    certificate = erasure.carry_out(erasure.of_number(NUMBER))
    assert certificate.complete
    calls.store.close()
    assert not in_clear(tmp_path)
    restored = SqlHistoryStore(backup / "calls", vault=calls.vault)  # with the keys of today
    restored.open()
    rows = {row.id: row for row in restored.find(CallQuery()).rows}
    gone, other = rows["secret"], rows["other"]
    assert (gone.caller_number, gone.caller_name, gone.called_number, gone.tags) == ("", "", "", ())
    assert other.caller_number == "+4533112233"
    assert restored.find(parse_query({"text": ["xylophone"]})).rows == ()
    assert restored.facets(CallQuery())["tag"] == {}
    restored.close()
    calls.indexer.rebuild()
    calls.store.close()
    restored = SqlHistoryStore(backup / "calls", vault=calls.vault)
    restored.open()
    with pytest.raises(IndexUnavailable, match="cannot be compared"):
        restored.find(parse_query({"number": [NUMBER]}))  # its hashes have no key any more
    restored.close()


def test_no_page_of_an_earlier_index_is_left(tmp_path: Path) -> None:
    """Indexes of earlier versions had everything in clear."""
    calls = Sealed(tmp_path)
    calls.add(secret(), *(Told(f"c{number}") for number in range(50)), sealed=False)
    calls.store.close()
    assert in_clear(calls.directory / "history")
    connection = sqlite3.connect(calls.directory / "history" / "index.sqlite3")
    with closing(connection):
        connection.execute("UPDATE cordboard_fact SET value = '4' WHERE name = 'version'")
        connection.commit()
    again = Sealed(tmp_path)
    again.add(secret(), *(Told(f"c{number}") for number in range(50)))
    again.indexer.scrub()
    assert len(again.ids()) == 51
    assert not in_clear(calls.directory)
    again.store.close()


def test_files_that_are_still_in_clear_are_those_of_the_documentation(tmp_path: Path) -> None:
    """They are erased by the number, too, but not from backups."""
    calls = Sealed(tmp_path)
    calls.add(secret())
    refuse(calls.directory, "r1", number=NUMBER)
    calls.indexer.catch_up()
    calls.store.close()
    data, campaigns = tmp_path / "admin", tmp_path / "campaigns.db"
    Views(data / "views.json").put(
        View("v", "anna", "mine", shared=False, filters={"number": [NUMBER]}, columns=[])
    )
    with closing(CampaignStore(campaigns)) as store:
        campaign = store.add("spring", CampaignSettings("demo", "00:00-23:59", "mon-sun"))
        assert not list(store.add_people(campaign, [Row(2, NUMBER, "Europe/Oslo", {})]))
    found = {Path(each.partition(": ")[0]).name for each in in_clear(tmp_path)}
    assert {name.removesuffix("-wal") for name in found} == {
        "refused.jsonl", "index.sqlite3", "views.json", "campaigns.db",
    }  # fmt: skip
    documented = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
    rows = [line for line in documented.splitlines() if "**not** encrypted" in line]
    for name in ("refused.jsonl`, and their rows of the index", "views.json", "outbound.campaigns"):
        assert [row for row in rows if name in row], name
    config = tmp_path / "ai-agent.yaml"
    config.write_text(
        f"contexts: {{demo: {{}}}}\ncalls: {{directory: '{calls.directory}'}}\n"
        f"admin: {{ui: {{data: '{data}'}}}}\noutbound: {{campaigns: '{campaigns}'}}\n"
        f"privacy: {{encryption: {{master_key: '{bytes(32).hex()}', "
        f"keys_directory: '{tmp_path}/keys'}}}}\nfirewall: {{country: 'DK'}}\n"
    )
    done = typed("forget", NUMBER, "--yes", "-c", str(config))
    assert (done.status, done.err) == (0, "")
    assert not in_clear(tmp_path)


def test_an_index_whose_key_is_away_lists_calls_and_compares_no_numbers(tmp_path: Path) -> None:
    calls = Sealed(tmp_path)
    calls.add(secret())
    calls.add(Told("plain"), sealed=False)
    calls.store.close()
    other = SqlHistoryStore(calls.directory, vault=calls.vault_of(bytes(range(32))))
    other.open()
    assert [row.id for row in other.find(CallQuery()).rows] == ["secret", "plain"]
    with pytest.raises(IndexUnavailable, match="encrypted by the master key"):
        other.find(parse_query({"number": [NUMBER]}))
    other.close()
    rotating = SqlHistoryStore(calls.directory, vault=calls.vault_of(bytes(range(32)), bytes(32)))
    rotating.open()
    assert [row.id for row in rotating.find(parse_query({"number": [NUMBER]})).rows] == ["secret"]
    rotating.close()
    assert [*calls.vault_of(bytes(range(32)), bytes(32)).rewrap()]
    again = SqlHistoryStore(calls.directory, vault=calls.vault_of(bytes(range(32))))
    again.open()
    assert [row.id for row in again.find(parse_query({"number": [NUMBER]})).rows] == ["secret"]
    again.close()


@pytest.mark.parametrize("harm", ["damaged", "deleted", "folder", "version", "rebuilt"])
def test_hashes_of_an_earlier_index_have_no_key(tmp_path: Path, harm: str) -> None:
    """However the index ended: a backup of it tells no one whether a certain number called."""
    calls = Sealed(tmp_path)
    calls.add(secret())
    keys = key_ids(tmp_path)
    assert len(keys) == 2, "of the call and of the index"
    calls.store.close()
    index = calls.directory / "history" / "index.sqlite3"
    if harm == "damaged":
        index.write_bytes(b"garbage" * 1000)
    elif harm == "deleted":
        index.unlink()
    elif harm == "folder":
        shutil.rmtree(index.parent)
    elif harm == "version":
        with closing(sqlite3.connect(index)) as connection:
            connection.execute("UPDATE cordboard_fact SET value = '4' WHERE name = 'version'")
            connection.commit()
    again = Sealed(tmp_path)
    try:
        again.add()
    except IndexDamaged:
        again.indexer.rebuild()
    if harm == "rebuilt":
        again.indexer.rebuild()
    assert again.ids(number=NUMBER) == ["secret"]
    assert len(key_ids(tmp_path) & keys) == 1, "that of the call"
    assert len(key_ids(tmp_path)) == 2
    again.store.close()


def test_the_key_of_an_earlier_index_is_deleted_when_its_folder_is_back(tmp_path: Path) -> None:
    calls = Sealed(tmp_path)
    calls.add(secret())
    before = key_ids(tmp_path)
    keys = tmp_path / "keys"
    keys.rename(tmp_path / "away")
    calls.indexer.rebuild()
    (tmp_path / "away").rename(keys)
    calls.store.close()
    again = Sealed(tmp_path)
    again.add()
    assert again.ids(number=NUMBER) == ["secret"]
    assert len(key_ids(tmp_path) & before) == 1
    again.store.close()


def key_ids(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "keys").rglob("*.key")}


def test_nodes_that_share_an_index_hash_with_keys_of_their_own(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = request.getfixturevalue("postgres").new_database()
    a, b = Sealed(tmp_path / "a", url, "a"), Sealed(tmp_path / "b", url, "b")
    try:
        a.add(secret("of-a"))
        b.add(secret("of-b", days=1))
        assert b.ids() == ["of-b", "of-a"]
        assert a.ids(number=NUMBER) == ["of-a"]
        assert b.ids(number=NUMBER) == ["of-b"]
        assert a.ids(text="xylophone") == ["of-a"]
        erasure = Erasure(a.directory, a.store, vault=a.vault)
        plan = erasure.of_number(NUMBER)
        assert (len(plan.ledgers), plan.elsewhere) == (1, {"b": None})
        proof = erasure.carry_out(plan)
        assert "encrypted calls of node b, which cannot be looked at here" in proof.problem
        a.indexer.rebuild()
        assert b.ids(number=NUMBER) == ["of-b"]  # its key is still there
    finally:
        a.store.close()
        b.store.close()
