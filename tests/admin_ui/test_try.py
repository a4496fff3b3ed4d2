"""Trying an agent from the page: a real call by the browser's microphone, and a conversation."""

from __future__ import annotations

import json
import re
import wave
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, expect
from tests.admin_ui.conftest import Axe, OpenPage, Shoot, until
from tests.admin_ui.hotel import Elsewhere, Hotel, sound_of

from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.timeline import RATE

WATCH_SOUND = """
Object.assign(window, {streams: [], contexts: [], sockets: [], levels: [], flushes: []});
const {mediaDevices} = navigator;
const open = mediaDevices.getUserMedia.bind(mediaDevices);
mediaDevices.getUserMedia = async (wanted) => {
  await window.permission;
  window.wanted = wanted;
  const stream = await open(wanted);
  streams.push(stream);
  return stream;
};
const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...rest) {
  if (target instanceof AudioDestinationNode) {
    contexts.push(this.context);
    const meter = new AnalyserNode(this.context, {fftSize: 256});
    const samples = new Float32Array(256);
    connect.call(this, meter);
    const timer = setInterval(() => {
      if (this.context.state === "closed") return clearInterval(timer);
      meter.getFloatTimeDomainData(samples);
      levels.push([performance.now(), Math.max(...samples.map(Math.abs))]);
    }, 10);
  }
  return connect.call(this, target, ...rest);
};
window.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    sockets.push(this);
    this.addEventListener("message", ({data}) => {
      if (typeof data === "string" && data.includes('"flush"')) flushes.push(performance.now());
    });
  }
};
"""
"""Notes what the page opens, how loud it is, and when the engine drops its sound."""
ASK = """([method, path, body]) => fetch(`/api/v1${path}`, {
  method, headers: {"X-Cordboard": "1", "Content-Type": "application/json"},
  body: body && JSON.stringify(body)}).then(answer => answer.json())"""
RELEASED = """() => streams.length > 0
  && streams.every(stream => stream.getTracks().every(track => track.readyState === "ended"))
  && contexts.every(context => context.state === "closed")"""
"""True if nothing holds the microphone or the loudspeaker any more."""


def speak(microphone: Path, lines: Path, *parts: float | int) -> None:
    """Have the microphone hear lines of the hotel's callers, by number, and seconds of silence."""
    sounds = [
        sound_of(lines / f"{part}.wav") if isinstance(part, int) else np.zeros(int(RATE * part))
        for part in parts
    ]
    with wave.open(str(microphone), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.concatenate(sounds).astype("<i2").tobytes())


def listening(page: Page) -> Page:
    """Open the page anew, so that its sound is watched from the beginning."""
    page.add_init_script(WATCH_SOUND)
    page.reload()
    return page


def call(page: Page, name: str = "Call") -> None:
    page.get_by_role("button", name=name, exact=True).click()
    expect(page.get_by_text("In the call")).to_be_visible()


def ledger_of(hotel: Hotel, page: Page) -> list[dict[str, Any]]:
    """The lines of the ledger of the call whose page is opened."""
    expect(page).to_have_url(re.compile(r"/calls/[0-9a-f-]{36}$"))
    (ledger,) = (hotel.folder / "calls").glob(f"*/{page.url.rpartition('/')[2]}.jsonl")
    return [json.loads(line) for line in ledger.read_text().splitlines()]


def begin_on_trial(page: Page) -> None:
    """Begin a conversation; on a busy machine the engine may refuse the trial at first."""
    button = page.get_by_role("button", name="Begin a conversation")
    for _ in range(8):
        with page.expect_response(lambda answer: answer.request.method == "POST") as answer:
            button.click()
        if answer.value.ok:
            return
        button = page.get_by_role("button", name="New conversation")


def test_a_call_from_the_page_is_understood_answered_and_interrupted(
    open_page: OpenPage, hotel: Hotel, microphone: Path, axe: Axe, shoot: Shoot
) -> None:
    """By an operator who has no grant `personal`: they see the words of their own call."""
    # It interrupts three times: the answer may begin late.
    speak(microphone, hotel.lines, 3.2, 3, 3.5, 1, 3.0, 1, 3.0, 1, 30.0)
    page = listening(open_page("operator", "/try?mode=call&context=weather&number=4711"))
    call(page)
    said = page.get_by_role("log", name="Conversation")
    expect(said.get_by_text("Weather desk. Which aerodrome?")).to_be_visible()
    page.get_by_role("button", name="Keypad").click()
    page.get_by_role("button", name="Key 7").click()
    page.keyboard.press("#")
    expect(said.get_by_text("pressed 7#")).to_be_visible()
    # A busy machine's sound has gaps: a word may be missing.
    expect(said.get_by_text(re.compile("Copenhagen")).first).to_be_visible()
    waits = page.get_by_role("region", name="Waits")
    expect(waits.get_by_text(re.compile(r"End of turn \d+ · .*Line \d+")).first).to_be_visible()
    axe(page)
    cut = said.locator("del").first
    expect(cut).to_contain_text(re.compile(r"not heard: +\w+"))
    shoot(page, "try-call")
    at = page.evaluate("flushes.at(-1)")
    before = page.evaluate(f"levels.filter(([at]) => at < {at})")
    page.wait_for_function(f"() => levels.at(-1)[0] > {at} + 1000")
    after = page.evaluate(f"levels.filter(([at]) => at > {at} && at < {at} + 1000)")
    assert max(level for _, level in before) > 0.05, "the answer was heard"
    loud = [moment - at for moment, level in after if level >= 0.001]
    assert max(loud, default=0) < 500, "silent at once, but for a stall of the page"
    page.get_by_role("button", name="Hang up").click()
    expect(page.get_by_text("You hung up.")).to_be_visible()
    page.wait_for_function(RELEASED)
    audio = page.evaluate("wanted.audio")
    assert (audio["echoCancellation"], audio["noiseSuppression"]) == (True, False)
    page.get_by_role("link", name="Open the call").click()
    first, *_, last = ledger_of(hotel, page)
    assert (first["test"], first["caller_number"]) == (True, "4711")
    assert last["reason"] == "caller_hangup"


def test_a_call_through_asterisk_gets_the_context_of_the_dialplan_and_leaves_no_channel(
    open_page: OpenPage,
    hotel: Hotel,
    microphone: Path,
    asterisk: AsteriskInstance,
    elsewhere: Elsewhere,
) -> None:
    speak(microphone, hotel.lines, 4.5, 3, 30.0)
    way = "via=asterisk&extension=nobody@from-test"
    page = listening(open_page("operator", f"/try?mode=call&context=booking&number=4711&{way}"))
    page.get_by_role("button", name="Call", exact=True).click()
    expect(page.get_by_text("The extension did not answer")).to_be_visible()
    page.wait_for_function(RELEASED)
    page.get_by_label("Extension").fill("ctx-weather@from-test")
    call(page, "Call again")
    said = page.get_by_role("log", name="Conversation")
    expect(said.get_by_text("Weather desk. Which aerodrome?")).to_be_visible()
    page.get_by_role("button", name="Keypad").click()
    page.get_by_role("button", name="Key 7").click()
    expect(said.get_by_text("pressed 7")).to_be_visible()
    expect(said.get_by_text(re.compile("Copenhagen")).first).to_be_visible()
    expect(said.get_by_text("mcp_aviation_atis_get_atis")).to_be_visible()
    page.wait_for_function("levels.some(([, level]) => level > 0.05)")
    page.get_by_role("button", name="Hang up").click()
    expect(page.get_by_text("You hung up.")).to_be_visible()
    page.wait_for_function(RELEASED)
    elsewhere.run(assert_line_clean(asterisk))
    page.get_by_role("link", name="Open the call").click()
    first, *_, last = ledger_of(hotel, page)
    assert (first["source"], first["test"], first["caller_number"]) == ("asterisk", True, "4711")
    assert last["reason"] == "caller_hangup"


def test_every_way_out_of_a_call_releases_the_microphone(
    open_page: OpenPage, hotel: Hotel, microphone: Path
) -> None:
    speak(microphone, hotel.lines, 30.0)
    page = listening(open_page("operator", "/try?mode=call"))
    for way, told in (
        ("streams.at(-1).getTracks()[0].dispatchEvent(new Event('ended'))", "was disconnected"),
        ("sockets.at(-1).close(4000)", "The call ended: closed:4000"),
        ("dispatchEvent(new PageTransitionEvent('pagehide'))", "You hung up"),
    ):
        call(page, "Call" if told == "was disconnected" else "Call again")
        page.evaluate(way)
        expect(page.get_by_text(told)).to_be_visible()
        page.wait_for_function(RELEASED)
    call(page, "Call again")
    # To leave a call is to end it, which is asked before.
    page.get_by_role("tab", name="Chat").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("In the call")).to_be_visible()
    page.get_by_role("tab", name="Chat").click()
    page.get_by_role("button", name="End the call and leave").click()
    page.wait_for_function(RELEASED)
    page.get_by_role("tab", name="Call").click()
    expect(page.get_by_text("You hung up")).to_be_visible()
    call(page, "Call again")
    call_id = page.evaluate("sockets.at(-1).url.split('/').at(-1)")
    page.evaluate(ASK, ["POST", f"/calls/{call_id}/hangup", {}])
    expect(page.get_by_text("The agent hung up.")).to_be_visible()
    page.wait_for_function(RELEASED)
    page.get_by_label("Way", exact=True).select_option("asterisk")
    page.get_by_label("Extension").fill("700@elsewhere")
    page.get_by_role("button", name="Call again").click()
    expect(page.get_by_text("The call was refused.")).to_be_visible()
    expect(page.get_by_text("the extension is not among those")).to_be_visible()
    page.wait_for_function(RELEASED)
    page.get_by_label("Way", exact=True).select_option("")
    call(page, "Call again")
    page.get_by_role("button", name="Hang up").click()
    page.evaluate("() => { window.permission = new Promise(allow => { window.allow = allow }) }")
    page.get_by_role("button", name="Call again").click()
    expect(page.get_by_text("Asking for the microphone")).to_be_visible()
    page.keyboard.press("m")
    page.evaluate("allow()")
    expect(page.get_by_text("In the call")).to_be_visible()
    expect(page.get_by_role("button", name="Muted")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("streams.at(-1).getTracks()[0].enabled") is False
    page.get_by_role("link", name="Engine", exact=True).click()
    page.get_by_role("button", name="End the call and leave").click()
    expect(page).to_have_url(re.compile("/engine$"))
    page.wait_for_function(RELEASED)
    assert page.evaluate("streams.length") == 8


def test_a_draft_is_tried_in_writing_with_an_approval_and_ends_with_the_page(
    open_page: OpenPage, complaints: list[str], axe: Axe, shoot: Shoot
) -> None:
    page = open_page("admin", "/try")
    config = page.evaluate(ASK, ["GET", "/config", None])
    text = config["text"].replace(
        "    effects: idempotent", "    effects: idempotent\n    approval: caller"
    )
    text = text.replace('"Booking desk."', '"Draft desk."')
    page.evaluate(ASK, ["PUT", "/drafts/asks-first", {"text": text, "base": config["digest"]}])
    page.goto("/try?draft=asks-first&context=booking&tools=canned")
    expect(page.get_by_label("Configuration")).to_have_value("draft:asks-first")
    page.get_by_label("Answer of send_invoice").fill("The invoice is on its way.")
    begin_on_trial(page)
    said = page.get_by_role("log", name="Conversation")
    expect(said.get_by_text("Draft desk.")).to_be_visible()
    message = page.get_by_role("textbox", name="Message")
    message.fill("Please send me my invoice.")
    message.press("Enter")
    yes = said.get_by_role("button", name="Yes")
    expect(yes).to_be_visible()
    axe(page)
    yes.click()
    expect(said.get_by_text("The invoice is on its way.").last).to_be_visible()
    shoot(page, "try-chat")
    said.locator("summary", has_text="send_invoice").click()
    expect(said.get_by_text("Spoken")).to_be_visible()
    message.fill("Goodbye.")
    message.press("Enter")
    expect(page.get_by_text("The conversation is over")).to_be_visible()
    page.get_by_role("link", name="Engine", exact=True).click()
    expect(page).to_have_url(re.compile("/engine$"))
    until(page, "/trials", "told.trials.length === 0")
    page.evaluate(ASK, ["DELETE", "/drafts/asks-first", None])
    complaints[:] = [each for each in complaints if "/api/v1/trials" not in each]


def test_without_a_secure_context_there_is_one_sentence_a_command_and_the_chat(
    open_page: OpenPage, hotel: Hotel, axe: Axe
) -> None:
    page = open_page("operator", "/try?mode=call", theme="dark", size=(390, 844))
    page.add_init_script("Object.defineProperty(window, 'isSecureContext', {value: false})")
    page.reload()
    expect(page.get_by_text("The microphone needs https or localhost")).to_be_visible()
    command = f"ssh -L {hotel.port}:127.0.0.1:{hotel.port} 127.0.0.1"
    expect(page.get_by_text(command)).to_be_visible()
    axe(page)
    page.get_by_role("tab", name="Chat").click()
    expect(page).to_have_url(re.compile("/try$"))
    page.get_by_role("button", name="Begin a conversation").click()
    expect(page.get_by_text("Hotel Seaview, good day.")).to_be_visible()
    axe(page)
    viewer = open_page("viewer", "/try")
    expect(viewer.get_by_text("You may not try agents")).to_be_visible()
