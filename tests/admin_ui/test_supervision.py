"""An operator's own phone in a live call: they join it, whisper, and take it over, on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect
from tests.admin_ui.conftest import Axe, OpenPage, Shoot, keep_messages, was_told
from tests.admin_ui.hotel import Elsewhere, Hotel

from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import until
from cordboard_testkit.sip import PhoneCall, SipPhone
from cordboard_testkit.sip.incoming import IncomingCall

NUMBER = "6201"


class Phones:
    """The caller's phone and Anna's, of an Asterisk of their own."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self.elsewhere = elsewhere
        self.asterisk = AsteriskInstance()

    async def start(self) -> None:
        self.caller = SipPhone("caller")
        self.anna = SipPhone("anna", answers=False)
        await self.caller.start()
        await self.anna.start()
        await self.asterisk.start()
        await self.asterisk.connect_phone(NUMBER, self.anna.address)

    async def stop(self) -> None:
        await self.caller.close()
        await self.anna.close()
        await self.asterisk.stop()

    def dial(self) -> PhoneCall:
        """A caller who has heard the greeting."""

        async def dial() -> PhoneCall:
            line = await self.caller.call(self.asterisk.sip_uri("ctx-reception"))
            await line.answered()
            await line.hear_speech()
            await line.hear_silence(700)
            return line

        return self.elsewhere.run(dial())

    async def rings(self) -> IncomingCall:
        """The call that rings at Anna's phone, once one does."""

        def ringing() -> list[IncomingCall]:
            calls = [each for each in self.anna.calls.values() if isinstance(each, IncomingCall)]
            return [each for each in calls if each.state == "ringing"]

        await until(lambda: bool(ringing()))
        return ringing()[0]

    def anna_takes(self) -> IncomingCall:
        """Anna answers her phone, hears the question and presses 1."""

        async def takes() -> IncomingCall:
            there = await self.rings()
            there.answer()
            await there.hear_speech(after=0.0)
            await there.hear_silence(700)
            there.press("1")
            return there

        return self.elsewhere.run(takes())


@pytest.fixture(scope="module")
def phones(elsewhere: Elsewhere) -> Iterator[Phones]:
    made = Phones(elsewhere)
    try:
        elsewhere.run(made.start())
        yield made
    finally:
        elsewhere.run(made.stop())


@pytest.fixture(scope="module")
def desk(build: Callable[..., Hotel], phones: Phones) -> Iterator[Hotel]:
    """An engine with Anna's phone."""
    built = build(asterisk=phones.asterisk, phone=NUMBER)
    yield built
    built.stop()


@pytest.fixture
def line(phones: Phones, desk: Hotel) -> Iterator[PhoneCall]:
    """A caller of the reception."""
    line = phones.dial()
    yield line

    async def leave() -> None:
        line.hangup()
        await assert_line_clean(phones.asterisk)

    phones.elsewhere.run(leave())


def choose(page: Page, item: str) -> None:
    page.get_by_role("button", name="Transfer", exact=True).click()
    page.get_by_role("menuitem", name=item).click()


def test_an_operator_joins_whispers_and_takes_the_call_over(
    open_page: OpenPage, desk: Hotel, phones: Phones, line: PhoneCall, axe: Axe, shoot: Shoot
) -> None:
    page = open_page("admin", "/live", hotel=desk)
    page.get_by_role("row", name="reception").click()
    said = page.get_by_role("log")
    expect(said).to_contain_text("Seaview")
    expect(page.get_by_role("button", name="Whisper to")).to_have_count(0)
    keep_messages(page)

    choose(page, "Join from anna")
    page.get_by_label("The agent is quiet meanwhile").check()
    axe(page)
    shoot(page, "live-join")
    page.get_by_role("button", name="Join from anna").click()
    there = phones.anna_takes()
    was_told(page, "anna has joined the call")
    expect(said).to_contain_text("An operator joins")

    page.get_by_role("button", name="Whisper to anna").click()
    page.get_by_role("textbox", name="anna alone hears this").fill("Offer a room with a view.")
    axe(page)
    page.get_by_role("button", name="Whisper it").click()
    was_told(page, "It is being whispered")
    expect(said).to_contain_text("Offer a room with a view.")

    async def hears() -> None:
        await there.hear_speech(after=there.heard_segments()[0].end)
        await there.hear_silence(700)

    phones.elsewhere.run(hears())
    phones.elsewhere.loop.call_soon_threadsafe(there.hangup)
    expect(page.get_by_role("button", name="Whisper to anna")).to_have_count(0)
    expect(page.get_by_role("textbox", name="The agent says")).to_be_visible()

    choose(page, "Take over at anna")
    page.get_by_role("button", name="Take over at anna").click()
    there = phones.anna_takes()
    was_told(page, "The caller is connected with anna")
    expect(said).to_contain_text("Taken over by an operator")
    expect(page.get_by_role("button", name="Whisper to anna")).to_be_visible()
    phones.elsewhere.loop.call_soon_threadsafe(there.hangup)
    expect(page.get_by_text("The call is over: transferred")).to_be_visible()

    assert phones.elsewhere.run(line.ended()).by == "them"


def test_a_call_that_anna_does_not_take_goes_on_with_the_agent(
    open_page: OpenPage, desk: Hotel, phones: Phones, line: PhoneCall
) -> None:
    page = open_page("admin", "/live", hotel=desk)
    page.get_by_role("row", name="reception").click()
    expect(page.get_by_role("log")).to_contain_text("Seaview")
    choose(page, "Take over at anna")
    page.get_by_role("button", name="Take over at anna").click()

    async def refuses() -> None:
        (await phones.rings()).reject(486, "Busy Here")

    phones.elsewhere.run(refuses())
    expect(page.get_by_text("not taken over: busy")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("log")).to_contain_text("I am still here.")
    phones.elsewhere.loop.call_soon_threadsafe(line.hangup)
    expect(page.get_by_text("The call is over: completed, caller hangup")).to_be_visible()
