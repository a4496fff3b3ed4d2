"""The versions of a cluster's configuration: one truth, changed by one person at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cluster.fake_bus import FakeBucket, FakeServer
from tests.cluster.nats_server import NatsServer, bus

from cordboard.cluster import config_survey
from cordboard.cluster.bus import Bucket, listing
from cordboard.cluster.config_follower import buckets_of
from cordboard.cluster.config_survey import ConfigSurvey, settled, survey_of
from cordboard.cluster.config_versions import ConfigChanged, ConfigVersions, Share, share_of
from cordboard.cluster.config_wire import (
    MOST_VERSIONS,
    CanaryCounts,
    CanaryOrder,
    ConfigHead,
    EngineReport,
    Outcomes,
    PublishedVersion,
    ShadowExample,
    ShadowOrder,
    ShadowReport,
    decode_counts,
    decode_head,
    decode_report,
    decode_shadow,
    decode_text,
    encode_counts,
    encode_head,
    encode_report,
    encode_shadow,
    encode_text,
)
from cordboard.config.sections.privacy import Encryption
from cordboard.errors import BusAway, ClusterError, NotThere, WireUnreadable
from cordboard_testkit.virtual_time import in_virtual_time

HEAD_1 = (
    b'{"v":1,"kind":"config_head","in_force":1,"versions":[{"number":2,"digest":"bb","author":"bo",'
    b'"note":"","at":"2026-11-29T07:00:00+01:00","state":"canary","why":""},{"number":1,'
    b'"digest":"aa","author":"anna","note":"first","at":"2026-11-28T07:00:00+01:00",'
    b'"state":"published","why":""}],"canary":{"number":2,"share":1000,"contexts":["desk"],'
    b'"at":"2026-11-29T07:00:00+01:00","looks":1,"verdict":"no worse"},'
    b'"shadow":{"digest":"cc","context":"desk","share":500,"turns":200,"author":"bo",'
    b'"at":"2026-11-29T08:00:00.000+01:00"}}'
)
"""As version 1 has written it; never change these."""
REPORT_1 = (
    b'{"v":1,"kind":"config_engine","instance":"a-1","number":1,"wanted":2,"state":"refused",'
    b'"problem":"no key","canary":2,"canary_problem":""}'
)
COUNTS_1 = (
    b'{"v":1,"kind":"config_counts","instance":"a-1","canary":2,"before":{"calls":9,"failed":1,'
    b'"hung_up":2,"waits":[0,3]},"after":{"calls":1,"failed":0,"hung_up":0,"waits":[]}}'
)
SHADOW_1 = (
    b'{"v":1,"kind":"config_shadow","instance":"a-1","at":"2026-11-29T08:00:00.000+01:00","same":7,'
    b'"other_tool":1,"other_arguments":0,"other_words":2,"failed":0,"skipped":3,"problem":"",'
    b'"examples":[{"call_id":"c1","turn":2,"verdict":"other_tool","heard":"Hi","live":"Hello",'
    b'"draft":"find({})"}]}'
)
HEAD = ConfigHead(
    1,
    (
        PublishedVersion(2, "bb", "bo", "", "2026-11-29T07:00:00+01:00", "canary"),
        PublishedVersion(1, "aa", "anna", "first", "2026-11-28T07:00:00+01:00"),
    ),
    CanaryOrder(2, 1_000, ("desk",), "2026-11-29T07:00:00+01:00", 1, "no worse"),
    ShadowOrder("cc", "desk", 500, 200, "bo", "2026-11-29T08:00:00.000+01:00"),
)
REPORT = EngineReport("a-1", 1, 2, "refused", "no key", 2)
COUNTS = CanaryCounts("a-1", 2, Outcomes(9, 1, 2, (0, 3)), Outcomes(1))
SHADOW = ShadowReport(
    "a-1", "2026-11-29T08:00:00.000+01:00", 7, 1, 0, 2, 0, 3, "",
    (ShadowExample("c1", 2, "other_tool", "Hi", "Hello", "find({})"),),
)  # fmt: skip
FORMS = (
    (SHADOW_1, SHADOW, encode_shadow, decode_shadow),
    (HEAD_1, HEAD, encode_head, decode_head),
    (REPORT_1, REPORT, encode_report, decode_report),
    (COUNTS_1, COUNTS, encode_counts, decode_counts),
    (b'{"v":1,"kind":"config_text","text":"a: 1"}', "a: 1", encode_text, decode_text),
)


@pytest.mark.parametrize("form", FORMS)
def test_neighbouring_versions_of_the_program_read_each_other(form: tuple) -> None:  # type: ignore[type-arg]
    message, value, encode, decode = form
    assert decode(message) == value
    assert encode(value) == message
    later = orjson.dumps(orjson.loads(message) | {"mood": ["calm"]})
    assert decode(later) == value
    with pytest.raises(WireUnreadable, match="of version 2, and this engine reads up to 1"):
        decode(message.replace(b'"v":1', b'"v":2'))


@settings(max_examples=40)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
        max_leaves=5,
    ),
    st.sampled_from(
        ["in_force", "versions", "canary", "kind", "before", "after", "shadow", "examples"]
    ),
)
def test_nothing_but_unreadable_comes_of_a_poisoned_message(value: object, field: str) -> None:
    for message, _, _, decode in FORMS:
        poisoned = orjson.dumps({**orjson.loads(message), field: value})
        with suppress(WireUnreadable):
            decode(poisoned)


@pytest.fixture
def buckets() -> tuple[FakeBucket, FakeBucket]:
    return FakeBucket(FakeServer()), FakeBucket(FakeServer())


@pytest.fixture
def versions(buckets: tuple[FakeBucket, FakeBucket]) -> ConfigVersions:
    return ConfigVersions(*buckets)


async def test_versions_have_numbers_and_texts(versions: ConfigVersions) -> None:
    assert await versions.head() == (ConfigHead(), 0)
    await versions.publish("a: 1", "anna", "first", None)
    two = await versions.publish("a: 2", "bo", "", base=1)
    assert (two.number, two.author) == (2, "bo")
    head, _ = await versions.head()
    assert (head.in_force, [each.number for each in head.versions]) == (2, [2, 1])
    assert await versions.text_of(1) == "a: 1"
    three = await versions.rollback(1, "anna")
    assert (three.number, three.note) == (3, "version 1 again")
    assert await versions.text_of(3) == "a: 1"
    with pytest.raises(NotThere, match="there is no version 9"):
        await versions.text_of(9)


async def test_the_second_of_two_who_publish_is_told(versions: ConfigVersions) -> None:
    await versions.publish("a: 1", "anna", "", None)
    done = await asyncio.gather(
        versions.publish("a: 2", "anna", "", 1),
        versions.publish("a: 3", "bo", "", 1),
        return_exceptions=True,
    )
    (error,) = [each for each in done if isinstance(each, BaseException)]
    assert isinstance(error, ConfigChanged)
    assert "the newest version is 2 by " in str(error)
    with pytest.raises(ConfigChanged):
        await versions.publish("a: 4", "bo", "", base=1)


async def test_a_publication_whose_answer_is_lost_counts_once(
    versions: ConfigVersions, buckets: tuple[FakeBucket, FakeBucket]
) -> None:
    buckets[0].loses_answers = True
    await versions.publish("a: 1", "anna", "", None)
    assert (await versions.head())[0].newest == 1
    buckets[0].away = True
    with pytest.raises(BusAway):
        await versions.publish("a: 2", "anna", "", None)


async def test_a_damaged_text_is_stored_again_when_it_is_published(
    versions: ConfigVersions, buckets: tuple[FakeBucket, FakeBucket]
) -> None:
    one = await versions.publish("a: 1", "anna", "", None)
    entry = await buckets[1].get(one.digest)
    assert entry is not None
    await buckets[1].put(one.digest, b"", last=entry.revision)  # as of a key that is gone
    with pytest.raises(WireUnreadable):
        await versions.text_of(1)
    await versions.publish("a: 1", "anna", "", None)
    assert await versions.text_of(2) == "a: 1"


async def test_words_in_the_encoding_of_another_terminal_are_no_obstacle(
    versions: ConfigVersions,
) -> None:
    words = b"f\xfcr heute".decode("utf-8", "surrogateescape")  # as in `sys.argv`
    await versions.publish("a: 1", "anna", words, None)
    await versions.publish("a: 2", "anna", "", None, Share(1_000))
    assert (await versions.withdraw(words)).why == "f?r heute"
    assert (await versions.head())[0].versions[1].note == "f?r heute"


async def test_texts_of_versions_that_have_left_the_history_go(
    versions: ConfigVersions, buckets: tuple[FakeBucket, FakeBucket]
) -> None:
    for number in range(MOST_VERSIONS + 3):
        await versions.publish(f"a: {number}", "anna", "", None)
    listed = await listing(buckets[1])
    assert len([each for each in listed.values() if each.value is not None]) == MOST_VERSIONS
    assert len((await versions.head())[0].versions) == MOST_VERSIONS
    assert await versions.text_of(MOST_VERSIONS + 3) == f"a: {MOST_VERSIONS + 2}"


async def test_the_version_in_force_stays_in_the_history(
    versions: ConfigVersions, buckets: tuple[FakeBucket, FakeBucket]
) -> None:
    await versions.publish("a: in force", "anna", "", None)
    for number in range(MOST_VERSIONS + 3):
        await versions.publish(f"a: {number}", "anna", "", None, Share(1_000))
        await versions.withdraw("worse")
    head, _ = await versions.head()
    assert (head.in_force, len(head.versions)) == (1, MOST_VERSIONS)
    assert await versions.text_of(1) == "a: in force"
    listed = await listing(buckets[1])
    assert len([each for each in listed.values() if each.value is not None]) == MOST_VERSIONS


async def test_the_life_of_a_canary(versions: ConfigVersions) -> None:
    with pytest.raises(ClusterError, match="no version yet to compare"):
        await versions.publish("a: 1", "anna", "", None, Share(1_000))
    await versions.publish("a: 1", "anna", "", None)
    await versions.publish("a: 2", "anna", "", None, Share(1_000, ("desk",)))
    head, _ = await versions.head()
    assert (head.in_force, head.newest, head.versions[0].state) == (1, 2, "canary")
    with pytest.raises(ClusterError, match="promote or withdraw it first"):
        await versions.publish("a: 3", "bo", "", None)
    order = head.canary
    assert order is not None
    await versions.note_look(order, "no worse")
    with pytest.raises(ConfigChanged):  # of another engine, that saw the same
        await versions.note_look(order, "no worse")
    with pytest.raises(ConfigChanged):
        await versions.withdraw("worse", expected=order)
    assert (await versions.promote("bo")).why == "promoted by bo"
    head, _ = await versions.head()
    assert (head.in_force, head.canary, head.versions[0].state) == (2, None, "published")
    await versions.publish("a: 3", "anna", "", None, Share(100))
    await versions.withdraw("worse")
    head, _ = await versions.head()
    assert (head.in_force, head.versions[0].state, head.versions[0].why) == (
        2,
        "withdrawn",
        "worse",
    )
    with pytest.raises(ClusterError, match="no canary runs"):
        await versions.promote("bo")


async def test_a_draft_listens_and_its_text_goes_with_it(
    versions: ConfigVersions, buckets: tuple[FakeBucket, FakeBucket]
) -> None:
    order = await versions.begin_shadow("a: 9", "bo", "desk", 500, 200)
    await versions.publish("a: 1", "anna", "", None)  # beside it
    assert (await versions.head())[0].shadow == order
    assert await versions.text(order.digest) == "a: 9"
    former, order = order, await versions.begin_shadow("a: 10", "bo", "desk", 500, 200)
    with pytest.raises(NotThere):
        await versions.text(former.digest)
    await versions.end_shadow()
    assert (await versions.head())[0].shadow is None
    with pytest.raises(NotThere):
        await versions.text(order.digest)
    with pytest.raises(ClusterError, match="no draft listens"):
        await versions.end_shadow()


@in_virtual_time
async def test_who_waits_for_the_engines_waits_for_the_bus_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket, away = FakeBucket(FakeServer()), 10
    await ConfigVersions(bucket, FakeBucket(FakeServer())).publish("a: 1", "anna", "", None)
    look = config_survey.look

    async def late(state: Bucket) -> ConfigSurvey:
        nonlocal away
        away -= 1
        if away >= 0:
            raise BusAway("the bus does not answer")
        return await look(state)

    monkeypatch.setattr(config_survey, "look", late)
    assert (await settled(bucket, 1, 60)).head.in_force == 1
    away = 1_000
    with pytest.raises(BusAway):
        await settled(bucket, 1, 60)


def test_shares() -> None:
    assert [share_of(each) for each in ("10%", "0.5 %", "50")] == [1_000, 50, 5_000]
    for wrong in ("0%", "51%", "many", "nan", "inf"):
        with pytest.raises(ValueError, match=r"."):
            share_of(wrong)


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


@asynccontextmanager
async def on_nats(server: NatsServer, encryption: Encryption) -> AsyncIterator[ConfigVersions]:
    async with bus(server.settings) as client:
        yield ConfigVersions(*buckets_of(client, encryption))


async def test_on_a_real_bus_one_of_two_wins_and_the_bus_may_go(server: NatsServer) -> None:
    key = "12" * 32
    encryption = Encryption.model_validate({"enabled": True, "master_key": key})
    async with on_nats(server, encryption) as one, on_nats(server, encryption) as other:
        await one.publish("greeting: Good day", "anna", "first words", None)
        done = await asyncio.gather(
            one.publish("a: 2", "anna", "", 1), other.publish("a: 3", "bo", "", 1),
            return_exceptions=True,
        )  # fmt: skip
        assert sorted(type(each).__name__ for each in done) == ["ConfigChanged", "PublishedVersion"]
        server.kill()
        with pytest.raises(BusAway):
            await one.publish("a: 4", "anna", "", None)
        server.start()
        async with on_nats(server, Encryption()) as plain:
            state = plain._state
            entry = await state.get("head")
            assert entry is not None
            assert entry.value is not None
            assert b"first words" not in entry.value
            assert b"sealed" in entry.value
        async with on_nats(server, encryption) as later:
            assert await later.text_of(1) == "greeting: Good day"
            assert survey_of(await listing(later._state)).head.newest == 2
