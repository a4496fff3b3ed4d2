"""Tools and MCP servers in a browser: the list, the tester, the servers, a server's draft."""

from __future__ import annotations

import json
import urllib.request

import pytest
from playwright.sync_api import expect
from tests.admin_ui.conftest import Axe, OpenPage, Shoot
from tests.admin_ui.hotel import Hotel

from cordboard_testkit.patience import PATIENCE

MORE_TOOLS = '''
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal
from pydantic import Field


@dataclass
class Guest:
    name: str
    vegetarian: bool = False


@dataclass
class Phone:
    number: str
    by: Literal["phone"] = "phone"


@dataclass
class Mail:
    address: str
    by: Literal["mail"] = "mail"


def book_table(
    day: Annotated[date, Field(description="The day of the dinner.")],
    guests: list[Guest],
    confirm: Phone | Mail,
    area: Literal["terrace", "hall"] = "hall",
) -> dict[str, object]:
    """Book a table in the restaurant."""
    names = [f"{guest.name}{' (v)' if guest.vegetarian else ''}" for guest in guests]
    told = f"{', '.join(names)} on {day}: {area}, {confirm.by}"
    return {"told": told, "menu": ["soup " * 40] * 60}


def cancel_booking(number: int) -> str:
    """Cancel a booking."""
    return f"Booking {number} is cancelled."
'''
SECRET_LINE = 'cloud: {type: openai_realtime, api_key: "sk-in-clear-4f2a9"}'
TOOLS_SECTION = """
  book_table: {kind: python, function: more_tools:book_table, effects: idempotent,
    speech_template: "Booked for {told}."}
  cancel_booking: {kind: python, function: more_tools:cancel_booking, approval: caller}
  send_invoice:"""


@pytest.fixture(scope="module")
def desk(own_hotel: Hotel) -> Hotel:
    """The hotel with a tool of many arguments, and one that destroys."""
    (own_hotel.folder / "more_tools.py").write_text(MORE_TOOLS)
    text = own_hotel.config.read_text()
    text = text.replace(
        "find_room, send_invoice]", "find_room, send_invoice, book_table, cancel_booking]"
    )
    own_hotel.config.write_text(text.replace("\n  send_invoice:", TOOLS_SECTION, 1))
    wanted = ask(own_hotel, "POST", "/engine/reload")
    assert wanted["applied"], wanted
    return own_hotel


def ask(hotel: Hotel, method: str, path: str) -> dict[str, object]:
    """What the API answers to the admin."""
    headers = {
        "Cookie": f"{hotel.cookie}={hotel.session('admin', elevated=True)}",
        "Origin": hotel.origin,
        "X-Cordboard": "1",
    }
    request = urllib.request.Request(f"{hotel.origin}/api/v1{path}", method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def test_the_list_shows_what_calls_made_of_each_tool_and_the_address_keeps_the_filters(
    open_page: OpenPage, axe: Axe, shoot: Shoot
) -> None:
    page = open_page("viewer", "/mcp")
    expect(page.get_by_role("row", name="orders")).to_contain_text("ready")
    page.get_by_role("navigation", name="Tools and servers").get_by_text("Tools").click()
    row = page.get_by_role("row", name="send_invoice")
    expect(row).to_contain_text("booking")
    expect(row.get_by_role("cell").nth(6)).to_have_text("1")
    axe(page)
    shoot(page, "tools")
    page.get_by_label("Server", exact=True).select_option("orders")
    page.get_by_label("Search tools").fill("echo")
    expect(page.get_by_role("status").filter(has_text="1 of")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Search tools")).to_have_value("echo")
    page.get_by_role("link", name="mcp_orders_echo").click()
    page.get_by_role("tab", name="Where offered").click()
    expect(page.get_by_role("row", name="reception").first).to_contain_text("does not list it")
    page.goto("/tools/find_room?view=uses")
    expect(page.get_by_role("row", name="booking")).to_contain_text("•••")
    page.get_by_role("tab", name="Try").click()
    expect(page.get_by_text("Your role may not run")).to_be_visible()


def test_form_and_json_are_the_same_arguments_and_the_answer_is_shown_to_each_provider(
    open_page: OpenPage, desk: Hotel, axe: Axe, shoot: Shoot
) -> None:
    page = open_page("operator", "/tools/book_table", hotel=desk)
    page.get_by_label("day").fill("2026-12-24")
    page.get_by_role("button", name="Add item").click()
    page.get_by_label("name", exact=True).fill("Ada")
    page.get_by_label("vegetarian").select_option("true")
    page.get_by_label("confirm", exact=True).select_option("Mail")
    page.get_by_label("address").fill("ada@example.org")
    page.get_by_role("button", name="JSON").click()
    written = page.get_by_label("Arguments", exact=True)
    assert json.loads(written.input_value()) == {
        "day": "2026-12-24",
        "guests": [{"name": "Ada", "vegetarian": True}],
        "confirm": {"address": "ada@example.org"},
    }
    changed = written.input_value().replace('"name": "Ada"', '"name": "Grace"')
    written.fill(changed[:-1])
    expect(page.get_by_text("This is not JSON")).to_be_visible()
    written.fill(changed)
    page.get_by_role("button", name="Form").click()
    expect(page.get_by_label("name", exact=True)).to_have_value("Grace")
    axe(page)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Run it").click()
    said = page.get_by_role("blockquote")
    expect(said).to_have_text("Booked for Grace (v) on 2026-12-24: hall, mail.")
    page.get_by_role("tab", name="Per provider").click()
    expect(page.get_by_text("Complete")).to_be_visible()
    page.get_by_text("gemini_live").click()
    expect(page.get_by_text("Left out or shortened: ")).to_be_visible()
    shoot(page, "tool")
    page.get_by_role("button", name="Save as example").click()
    page.get_by_label("Name", exact=True).fill("Christmas")
    page.get_by_role("button", name="Save these arguments").click()
    page.goto("/tools/book_table?example=christmas")
    expect(page.get_by_label("name", exact=True)).to_have_value("Grace")


def test_what_destroys_needs_an_admin_who_types_its_name(open_page: OpenPage, desk: Hotel) -> None:
    page = open_page("operator", "/tools/cancel_booking", hotel=desk)
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    expect(page.get_by_text("Your role may not run destructive tools")).to_be_visible()
    page = open_page("admin", "/tools/cancel_booking", hotel=desk)
    page.get_by_label("number").fill("4")
    page.keyboard.press("Enter")
    run = page.get_by_role("button", name="Run it")
    expect(run).to_be_disabled()
    page.get_by_label("Type cancel_booking").fill("cancel_booking")
    run.click()
    page.get_by_role("button", name="Yes, run it").click()
    expect(page.get_by_role("blockquote")).to_have_text("Booking 4 is cancelled.")


def test_a_server_is_stopped_started_watched_and_its_tools_are_accepted(
    open_page: OpenPage, desk: Hotel, axe: Axe, shoot: Shoot
) -> None:
    page = open_page("admin", "/mcp?server=aviation_atis", hotel=desk)
    shown = page.get_by_role("region", name="aviation_atis")
    page.get_by_role("button", name="Test").click()
    expect(shown.get_by_text("with 2 tools")).to_be_visible()
    axe(page)
    shoot(page, "mcp")
    shown.get_by_role("tab", name="stderr").click()
    expect(shown.get_by_text("ready, source=file").first).to_be_visible()
    shown.get_by_role("tab", name="Messages").click()
    expect(shown.get_by_text("tools/list").first).to_be_visible()
    shown.get_by_role("tab", name="Definitions").click()
    expect(shown.get_by_text("mcp:aviation_atis:get_atis (new)")).to_be_visible()
    shown.get_by_role("button", name="Accept these definitions").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Accept these definitions").click()
    expect(shown.get_by_text("As accepted", exact=True)).to_be_visible()
    assert "get_atis" in (desk.folder / "mcp.lock").read_text()
    row = page.get_by_role("row", name="orders")
    page.get_by_role("link", name="orders").click()
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Stop").click()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(row).to_contain_text("stopped")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Start", exact=True).click()
    expect(row).to_contain_text("ready")


def test_a_server_is_added_in_a_draft_tried_aside_and_handed_on_to_publishing(
    open_page: OpenPage, desk: Hotel, axe: Axe, shoot: Shoot
) -> None:
    page = open_page("admin", "/mcp?add=true", hotel=desk)
    page.get_by_label("Name").first.fill("notes")
    expect(page.get_by_text("needs `command`")).to_be_visible()
    command = ["python", "-m", "cordboard_testkit.mcp_servers.faulty", "good"]
    for number, word in enumerate(command, 1):
        page.get_by_role("group", name="command").get_by_role("button", name="Add item").click()
        page.get_by_label(f"Item {number}", exact=True).fill(word)
    expect(page.get_by_text("In order.")).to_be_visible()
    axe(page)
    shoot(page, "mcp-editor")
    page.get_by_role("button", name="Start it aside").click()
    expect(page.get_by_role("status").filter(has_text="echo, plain")).to_be_visible()
    page.get_by_role("link", name="MCP servers").click()
    page.get_by_role("alertdialog", name="Leave without saving?").get_by_text("Cancel").click()
    page.get_by_role("button", name="Continue to publishing").click()
    page.wait_for_url("**/contexts?draft=mcp-notes*")
    draft = str(ask(desk, "GET", "/drafts/mcp-notes")["text"]).splitlines()
    before = desk.config.read_text().splitlines()
    assert [line.strip() for line in before if line not in draft] == [SECRET_LINE]
    assert "notes:" in [line.strip() for line in draft if line not in before]
    assert "    notes:" not in before
