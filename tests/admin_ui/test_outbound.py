"""Calls that the engine places, on the page: a campaign of a list, which a real phone answers; one
call; the numbers that are not called."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from playwright.sync_api import FilePayload, Page, expect
from tests.admin_ui.conftest import Axe, OpenPage, Shoot, go
from tests.admin_ui.hotel import Elsewhere, Hotel
from tests.admin_ui.test_every_page import WIDER_THAN_THE_WINDOW, settled
from tests.admin_ui.test_people import prove

from cordboard.calls.outbound_order import OutboundResult
from cordboard.outbound.campaigns.rows import Row
from cordboard.outbound.campaigns.store import CampaignSettings, CampaignStore
from cordboard.outbound.placed import PlacedCalls
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.sip.incoming import IncomingCall

CONTEXT = """\
contexts:
  # Tells guests that their table is ready.
  tables:
    prompt: "You tell guests that their table is ready."
    greeting: "Hotel Seaview. Your table {table} is ready."
    variables: [table]
    rules: {}

"""
SECTIONS = """
outbound:
  enabled: true
  endpoint: "PJSIP/phone-{digits}"
  caller_id: "+4722000000"
  ring_ms: 5000
  campaigns: campaigns.db
firewall: {country: "NO"}
"""
BEFORE = CampaignSettings(
    "tables",
    hours="00:00-23:59",
    days="mon-sun",
    attempts=1,
    message="Hotel Seaview. The autumn menu begins on Friday.",
    consent="This is an automated call, which is recorded.",
)
GUESTS = """\
number,table
+4790000001,by the window
112,five
+4790000002,seven
"""
ENDS = (
    *[("answered", "human", "caller_hangup")] * 17,
    *[("answered", "voicemail", "voicemail_message")] * 4,
    *[("no_answer", "", "")] * 5,
    *[("busy", "", "")] * 3,
    *[("declined", "", "")] * 2,
    ("unknown_number", "", ""),
)
"""How the calls of an earlier campaign have ended: outcome, answer, reason."""
EARLIER = 48
"""People of it."""


class Guests:
    """An Asterisk of their own, with the phones of two guests."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self.elsewhere = elsewhere
        self.asterisk = AsteriskInstance()
        self.phones = {number: SipPhone(number) for number in ("4790000001", "4790000002")}

    async def start(self) -> None:
        await self.asterisk.start()
        for number, phone in self.phones.items():
            await phone.start()
            await self.asterisk.connect_phone(number, phone.address)

    async def stop(self) -> None:
        for phone in self.phones.values():
            await phone.close()
        await self.asterisk.stop()

    def answers(self, number: str) -> IncomingCall:
        """The next call of this number, answered."""

        async def take() -> IncomingCall:
            call = await self.phones[number].incoming()
            await call.answered()
            return call

        return self.elsewhere.run(take(), 2 * PATIENCE)

    def hang_up(self, call: IncomingCall) -> None:
        """Hear the greeting, and hang up."""

        async def leave() -> None:
            await call.hear_speech(after=0.0)
            await call.hear_silence(900)
            call.hangup()

        self.elsewhere.run(leave())


@pytest.fixture(scope="module")
def guests(elsewhere: Elsewhere) -> Iterator[Guests]:
    made = Guests(elsewhere)
    try:
        elsewhere.run(made.start())
        yield made
    finally:
        elsewhere.run(made.stop())


@pytest.fixture(scope="module")
def desk(build: Callable[..., Hotel], guests: Guests) -> Iterator[Hotel]:
    """A hotel that calls its guests, and has done so before."""
    built = build(asterisk=guests.asterisk)
    built.stop()
    text = built.config.read_text()
    built.config.write_text(text.replace("contexts:\n", CONTEXT, 1) + SECTIONS)
    with closing(CampaignStore(built.folder / "campaigns.db")) as store:
        call_before(store)
    built.start()
    yield built
    built.stop()


def call_before(store: CampaignStore) -> None:
    """Write an earlier campaign, which was paused on its way."""
    campaign = store.add("Autumn menu", BEFORE)
    numbers = (f"+47220{number:05}" for number in range(EARLIER))
    rows = [Row(2, number, "Europe/Oslo", {"table": "two"}) for number in numbers]
    assert not list(store.add_people(campaign, rows))
    store.set_state("Autumn menu", "running")
    now = 1_900_000_000.0
    for outcome, answer, reason in ENDS:
        [claimed] = store.claim(1, now)
        assert store.begin(claimed.call_id)
        store.finish(OutboundResult(claimed.call_id, outcome, reason, answer, 41_000), now)
    store.set_state("Autumn menu", "paused")


def upload(page: Page, content: str) -> None:
    file = FilePayload(name="guests.csv", mimeType="text/csv", buffer=content.encode())
    page.get_by_label("List of people (CSV)").set_input_files(file)


def test_a_list_becomes_calls_and_results(
    open_page: OpenPage, desk: Hotel, guests: Guests, axe: Axe
) -> None:
    page = open_page("admin", "/live", hotel=desk)
    expect(page.get_by_role("heading", level=1)).to_have_text("Live calls")
    go(page, "o", "Outbound")
    page.get_by_role("button", name="New campaign").click()
    form = page.get_by_role("dialog", name="New campaign")
    form.get_by_label("Name").fill("Tables")
    form.get_by_label("Context").select_option("tables")
    upload(page, "number,bicycle\n+4790000001,blue\n")
    form.get_by_label("Calls from").fill("20:00")
    form.get_by_label("until").fill("09:00")
    form.get_by_role("button", name="Make the campaign").click()
    expect(form.get_by_role("alert")).to_contain_text("the end must be after the beginning")
    form.get_by_label("Calls from").fill("00:00")
    form.get_by_label("until").fill("23:59")
    for day in ("Sat", "Sun"):
        form.get_by_role("checkbox", name=day).check()
    form.get_by_role("button", name="Make the campaign").click()
    expect(form.get_by_role("alert")).to_contain_text("'bicycle' is unknown")
    axe(page)
    upload(page, GUESTS)
    expect(form.get_by_text("guests.csv: 3 lines")).to_be_visible()
    form.get_by_role("button", name="Make the campaign").click()
    report = page.get_by_role("dialog", name="The campaign Tables")
    expect(report).to_contain_text("2 people can be called.")
    broken = report.get_by_role("table", name="Lines that are left out").get_by_role("row")
    expect(broken.nth(1)).to_contain_text("3number: numbers of class emergency are shut")
    axe(page)
    report.get_by_role("button", name="Start now").click()

    expect(page).to_have_url(re.compile("campaign=Tables"))
    call = guests.answers("4790000001")
    expect(page.get_by_role("button", name="1 being called")).to_be_visible()
    page.get_by_role("button", name="Pause Tables").click()
    expect(page.get_by_role("button", name="Start Tables")).to_be_visible()
    people = page.get_by_role("table", name="People, in the order of the list")
    expect(people.get_by_role("link", name="Follow the call with +4790000001")).to_be_visible()
    guests.hang_up(call)
    expect(page.get_by_text("1 of 2", exact=True)).to_be_visible()
    expect(people.get_by_role("row", name="+4790000001")).to_contain_text("answered")
    expect(people.get_by_role("row", name="+4790000002")).to_contain_text("waiting")
    axe(page)
    page.get_by_role("button", name="More for Tables").click()
    page.get_by_role("menuitem", name="Cancel").click()
    sure = page.get_by_role("alertdialog", name="Cancel Tables?")
    expect(sure).to_contain_text("the person who waits is not called any more")
    sure.get_by_role("button", name="Cancel the campaign").click()
    expect(people.get_by_role("row", name="+4790000002")).to_contain_text("not called")
    page.get_by_role("button", name="More for Tables").click()
    with page.expect_download() as saved:
        page.get_by_role("menuitem", name="Results as CSV").click()
    results = saved.value.path().read_text().splitlines()
    assert [line.split(",")[0:3] for line in results[1:]] == [
        ["+4790000001", "done", "answered"],
        ["+4790000002", "done", "not_called"],
    ]
    people.get_by_role("link", name="Open the call with +4790000001").click()
    expect(page.get_by_role("main")).to_contain_text("Your table by the window is ready")


def test_what_a_viewer_sees_and_what_is_masked(
    open_page: OpenPage, desk: Hotel, shoot: Shoot
) -> None:
    page = open_page("viewer", "/outbound", hotel=desk)
    campaigns = page.get_by_role("table", name="Campaigns, the newest first")
    row = campaigns.get_by_role("row", name="Autumn menu")
    expect(row).to_contain_text("paused")
    expect(page.get_by_role("button", name="Start Autumn menu")).to_have_count(0)
    expect(page.get_by_role("button", name="New campaign")).to_have_count(0)
    expect(page.get_by_role("button", name="More for Autumn menu")).to_have_count(0)
    row.get_by_role("link", name="Autumn menu").click()
    people = page.get_by_role("table", name="People, in the order of the list")
    expect(people.get_by_role("row")).to_have_count(1 + EARLIER)
    expect(people).to_contain_text("*******0000")
    page.get_by_role("button", name="2 declined").click()
    expect(page).to_have_url(re.compile("what=declined"))
    expect(people.get_by_role("row")).to_have_count(1 + 2)
    page.get_by_role("tab", name="One call").click()
    expect(page.get_by_text("You may not place calls")).to_be_visible()
    page.get_by_role("tab", name="Do-not-call").click()
    expect(page.get_by_role("heading", name="Do-not-call list")).to_be_visible()
    expect(page.get_by_role("button", name="Block")).to_have_count(0)

    scoped = open_page("booker", "/outbound", hotel=desk)
    expect(scoped.get_by_text("No campaign yet")).to_be_visible()
    scoped.goto("/outbound?campaign=Autumn+menu")
    expect(scoped.get_by_text("This did not work")).to_be_visible()
    scoped.get_by_role("tab", name="Do-not-call").click()
    expect(scoped.get_by_text("your scope is limited to some")).to_be_visible()

    admin = open_page("admin", "/outbound?campaign=Autumn+menu", hotel=desk)
    expect(
        admin.get_by_role("table", name="People, in the order").get_by_role("row")
    ).to_have_count(1 + EARLIER)
    shoot(admin, "outbound")


def test_a_blocked_number_is_called_only_with_a_reason(
    open_page: OpenPage, desk: Hotel, guests: Guests, axe: Axe
) -> None:
    page = open_page("admin", "/outbound?tab=blocked", hotel=desk)
    number = page.get_by_label("Number")
    number.fill("90 00 00 02")
    verdict = page.get_by_role("status").filter(has_text="+4790000002")
    expect(verdict).to_contain_text("Norway, mobile")
    page.get_by_role("button", name="Block", exact=True).click()
    blocked = page.get_by_role("table", name="Do-not-call list, the newest first")
    expect(blocked.get_by_role("row", name="+4790000002")).to_be_visible()
    axe(page)

    page.get_by_role("tab", name="One call").click()
    page.get_by_label("Context").select_option("tables")
    number.fill("112")
    expect(page.get_by_text("numbers of class emergency are shut")).to_be_visible()
    number.fill("22000001")
    expect(page.get_by_text("may be called now")).to_be_visible()
    number.fill("90000002")
    expect(page.get_by_text("on the do-not-call list", exact=True)).to_be_visible()
    page.get_by_label("table").fill("seven")
    page.get_by_role("button", name="Place the call").click()
    told = page.get_by_role("alert")
    expect(told).to_contain_text("on the do-not-call list; a reason is needed to call it")
    axe(page)
    page.get_by_label("Why it is called all the same").fill("The guest has asked for this call")
    page.get_by_role("button", name="Place the call").click()
    call = guests.answers("4790000002")
    expect(told).to_have_count(0)
    expect(page.get_by_text("Somebody or something has answered.")).to_be_visible()
    expect(page.get_by_role("link", name="Follow it live")).to_be_visible()
    axe(page)
    guests.hang_up(call)
    expect(page.get_by_text("The call is over:")).to_contain_text("completed")
    page.get_by_role("link", name="Open the call").click()
    expect(page).to_have_url(re.compile(r"/calls/[0-9a-f-]{36}$"))


def test_a_call_whose_engine_was_killed_while_it_dialled_is_over(
    open_page: OpenPage, desk: Hotel, elsewhere: Elsewhere
) -> None:
    call_id = "0f0e0d0c-0b0a-4908-8706-050403020100"

    async def dial_and_die() -> None:
        killed = PlacedCalls(desk.folder / "campaigns.db")
        assert await killed.begin(call_id, "tables")
        await killed.close()

    elsewhere.run(dial_and_die())
    page = open_page("operator", "/outbound?tab=call", hotel=desk)
    page.route(
        "**/api/v1/calls",
        lambda route: route.fulfill(json={"call_id": call_id}),
    )  # as the engine answers when the same request comes again
    page.get_by_label("Context").select_option("tables")
    page.get_by_label("Number").fill("+4790000001")
    page.get_by_label("table").fill("seven")
    page.get_by_role("button", name="Place the call").click()
    expect(page.get_by_text("The call is over:")).to_contain_text("interrupted")
    expect(page.get_by_role("link", name="Follow it live")).to_have_count(0)


def test_many_numbers_are_blocked_and_one_is_unblocked(
    open_page: OpenPage, desk: Hotel, axe: Axe
) -> None:
    page = open_page("operator", "/outbound?tab=blocked", hotel=desk)
    page.get_by_role("button", name="Block many").click()
    form = page.get_by_role("dialog", name="Block many numbers")
    file = FilePayload(
        name="stop.csv", mimeType="text/csv", buffer=b"number;since\n22 00 00 11;2025\nKari;2026\n"
    )
    form.get_by_label("Or take them from a file").set_input_files(file)
    form.get_by_role("button", name="Block 2 numbers").click()
    expect(form.get_by_role("alert")).to_contain_text("'Kari'")
    axe(page)
    form.get_by_label("Numbers", exact=True).fill("22 00 00 11\n+4722000012")
    form.get_by_role("button", name="Block 2 numbers").click()
    expect(page.get_by_text("2 of 2 numbers are new on the list")).to_be_visible()
    blocked = page.get_by_role("table", name="Do-not-call list, the newest first")
    expect(blocked.get_by_role("row", name="*******0011")).to_be_visible()
    expect(blocked.get_by_role("button")).to_have_count(0)
    page.get_by_label("Number").fill("22000011")
    page.get_by_role("button", name="Unblock").click()
    sure = page.get_by_role("alertdialog", name="Unblock +4722000011?")
    sure.get_by_role("button", name="Unblock it").click()
    prove(page)
    expect(page.get_by_text("It is not on the list.")).to_be_visible()
    expect(blocked.get_by_role("row", name="*******0011")).to_have_count(0)
    expect(page.get_by_label("Number")).to_have_value("22000011")

    admin = open_page("admin", "/outbound?tab=blocked", hotel=desk, elevated=True)
    admin.get_by_role("button", name="Unblock +4722000012").click()
    admin.get_by_role("alertdialog").get_by_role("button", name="Unblock it").click()
    expect(admin.get_by_text("The number may be called again")).to_be_visible()
    expect(admin.get_by_role("row", name="+4722000012")).to_have_count(0)


@pytest.mark.parametrize("address", ["", "?campaign=Autumn+menu", "?tab=call", "?tab=blocked"])
def test_it_fits_on_a_phone(open_page: OpenPage, desk: Hotel, axe: Axe, address: str) -> None:
    page = open_page("admin", f"/outbound{address}", hotel=desk, theme="dark", size=(320, 800))
    settled(page)
    axe(page)
    assert page.evaluate(WIDER_THAN_THE_WINDOW) == []


def test_an_engine_that_may_not_call_says_what_switches_it_on(
    open_page: OpenPage, hotel: Hotel
) -> None:
    page = open_page("viewer", "/outbound")
    expect(page.get_by_text("Outbound calls are off")).to_be_visible()
    lines = page.get_by_role("group", name="Lines that switch outbound calls on")
    expect(lines).to_contain_text("enabled: true")
    page.get_by_role("tab", name="Do-not-call").click()
    expect(page.get_by_text("The list is empty")).to_be_visible()
    page.goto("/outbound")
    page.get_by_role("link", name="To the configuration").click()
    expect(page).to_have_url(re.compile(r"/contexts\?at=outbound"))
