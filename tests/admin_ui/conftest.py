"""Browsers in the hotel: Chromium with the interface of a running engine.

    def test_the_list_has_it(open_page: OpenPage, axe: Axe) -> None:
        page = open_page("viewer", "/calls")
        expect(page.get_by_role("row", name="Ida Jensen")).to_be_visible()
        axe(page)

`open_page(role, path)` opens a page in which `viewer`, `operator`, `admin` (with all grants) or
`booker` (an operator who knows the context `booking` alone) is signed in; `None`: a stranger.
An error in the console, an exception of a script or a breach of the page's policy fails the test.
`hotel` is the engine of all files: a test leaves it as it was. One that changes people or the
configuration takes `own_hotel`, which belongs to its file: `open_page(..., hotel=own_hotel)`.

`CORDBOARD_PICTURES=FOLDER` has `shoot(page, name)` write pictures there.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)
from tests.admin_ui.hotel import (
    REPOSITORY,
    Elsewhere,
    Hotel,
    build_hotel,
    hash_of_password,
    history_of_today,
)
from tests.admin_ui.pictures import take

from cordboard.admin.page import ASSETS, INDEX
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.patience import PATIENCE

AXE = REPOSITORY / "admin-ui" / "node_modules" / "axe-core" / "axe.min.js"
WAIT_MS = PATIENCE * 1000
"""Longest wait for something on a page: a busy machine is no failure."""
REFUSED = re.compile(r"Failed to load resource: .* status of 4\d\d ")
"""The browser's own line about an answer of the API that a page may well ask for: it is signed out,
or someone else was faster."""
PICTURES = "CORDBOARD_PICTURES"
PICTURED = 900
"""Invented calls in the hotel of the pictures: six alone make no chart."""
WATCH_POLICY = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} refused ${event.blockedURI}`));
"""
expect.set_options(timeout=WAIT_MS)


class OpenPage(Protocol):
    def __call__(
        self,
        role: str | None = "admin",
        path: str = "/",
        *,
        theme: Literal["light", "dark"] = "light",
        size: tuple[int, int] = (1440, 900),
        elevated: bool = False,
        hotel: Hotel | None = None,
    ) -> Page: ...


Axe = Callable[[Page], None]
Shoot = Callable[[Page, str], None]


@pytest.fixture(scope="session")
def elsewhere() -> Iterator[Elsewhere]:
    thread = Elsewhere()
    yield thread
    thread.close()


@pytest.fixture(scope="session")
def build(
    elsewhere: Elsewhere, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Hotel]]:
    """Makes hotels and starts them; `bulk=10_000` invents that many calls besides, `asterisk` is
    theirs, and `phone` a number of it from which operators take calls over."""
    if not (ASSETS / INDEX).exists():
        pytest.fail("the interface is not built; run make admin-ui", pytrace=False)
    history, password, hotels = history_of_today(), hash_of_password(), []

    def built(
        bulk: int = 0,
        asterisk: AsteriskInstance | None = None,
        phone: str = "",
        cluster: str = "",
        database: str = "",
    ) -> Hotel:
        folder = tmp_path_factory.mktemp("hotel")
        hotel = build_hotel(
            folder, history, elsewhere, password, bulk, asterisk, phone, cluster, database
        )
        hotels.append(hotel)
        hotel.start()
        return hotel

    yield built
    for hotel in hotels:
        hotel.stop()


@pytest.fixture(scope="session")
def asterisk(elsewhere: Elsewhere) -> Iterator[AsteriskInstance]:
    """The real Asterisk of `hotel`."""
    instance = AsteriskInstance()
    try:
        elsewhere.run(instance.start())
        yield instance
    finally:
        elsewhere.run(instance.stop())


@pytest.fixture(scope="session")
def hotel(build: Callable[..., Hotel], asterisk: AsteriskInstance) -> Iterator[Hotel]:
    """The engine of all files, behind an Asterisk. Tests leave it as it was."""
    built = build(PICTURED if os.environ.get(PICTURES) else 0, asterisk)
    yield built
    built.stop()


@pytest.fixture(scope="module")
def own_hotel(build: Callable[..., Hotel]) -> Iterator[Hotel]:
    """An engine of this file alone, whose people and configuration its tests may change."""
    built = build()
    yield built
    built.stop()


@pytest.fixture(scope="session")
def chromium() -> str:
    command = [str(REPOSITORY / "scripts" / "install-chromium"), "--print"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.fail(found.stderr, pytrace=False)
    return found.stdout.strip()


@pytest.fixture(scope="module")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sound of the browser's microphone: a WAV file that a test replaces before a page opens
    the microphone. It is heard once, then there is silence."""
    path = tmp_path_factory.mktemp("microphone") / "microphone.wav"
    shutil.copy(history_of_today() / "lines" / "0.wav", path)
    return path


@pytest.fixture(scope="module")
def browser(chromium: str, microphone: Path) -> Iterator[Browser]:
    """One for each file: Playwright has an event loop of its own in this thread, beside which the
    asynchronous tests of other files could not run."""
    arguments = [
        "--no-sandbox",  # it cannot make one inside of a container, and shows our own pages only
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={microphone}%noloop",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    """Errors of all pages of a test; a test that causes one on purpose removes it."""
    found: list[str] = []
    yield found
    assert found == []


@pytest.fixture
def open_page(
    browser: Browser, complaints: list[str], request: pytest.FixtureRequest
) -> Iterator[OpenPage]:
    contexts: list[BrowserContext] = []

    def complain(message: ConsoleMessage) -> None:
        if message.type == "error" and not REFUSED.match(message.text):
            complaints.append(f"console: {message.text} ({message.location.get('url')})")

    def opened(
        role: str | None = "admin",
        path: str = "/",
        *,
        theme: Literal["light", "dark"] = "light",
        size: tuple[int, int] = (1440, 900),
        elevated: bool = False,
        hotel: Hotel | None = None,
    ) -> Page:
        where: Hotel = hotel or request.getfixturevalue("hotel")
        context = browser.new_context(
            base_url=where.origin,
            color_scheme=theme,
            viewport={"width": size[0], "height": size[1]},
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="Europe/Copenhagen",
        )
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        context.add_init_script(WATCH_POLICY)
        context.on("console", complain)
        context.on("weberror", lambda error: complaints.append(f"script: {error.error}"))
        if role is not None:
            token = where.session(role, elevated=elevated)
            context.add_cookies([{"name": where.cookie, "value": token, "url": where.origin}])
        page = context.new_page()
        page.goto(path)
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def axe() -> Axe:
    """Fails unless axe-core finds nothing wrong with a page as it is at this moment."""
    if not AXE.exists():
        pytest.fail("the npm packages are missing; run scripts/install-admin-ui", pytrace=False)
    source = AXE.read_text("utf-8")

    def judged(page: Page) -> None:
        page.evaluate(f"() => {{ {source} }}")
        found: list[dict[str, Any]] = page.evaluate(
            "async () => (await axe.run({resultTypes: ['violations']})).violations"
        )
        told = [
            f"{rule['id']}: {rule['help']}\n"
            + "\n".join(f"    {node['html'][:200]}\n    {node['failureSummary']}" for node in nodes)
            for rule in found
            for nodes in [rule["nodes"][:4]]
        ]
        if told:
            raise AssertionError("\n".join([page.url, *told]))

    return judged


@pytest.fixture(scope="session")
def shoot() -> Shoot:
    """Writes a picture of a page, if pictures are wanted."""
    wanted = os.environ.get(PICTURES)

    def shot(page: Page, name: str) -> None:
        if wanted:
            take(page, Path(wanted) / f"{name}.png")

    return shot


def hold(look: Callable[[], bool]) -> None:
    """Wait for a state of a page for which Playwright has no `expect`."""
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline, inspect.getsource(look)
        time.sleep(0.05)


def go(page: Page, key: str, title: str) -> None:
    """Go to another page by the keys `g` and `key`: a busy machine may let too much time pass
    between the two."""
    heading = page.get_by_role("heading", level=1, name=title, exact=True)
    for _ in range(int(PATIENCE / 3)):
        page.keyboard.press("g")
        page.keyboard.press(key)
        with contextlib.suppress(AssertionError):
            expect(heading).to_be_visible(timeout=3_000)
            return
    expect(heading).to_be_visible()


def keep_messages(page: Page) -> None:
    """Keep the short messages of this page, which are shown for 5 s, for `was_told`."""
    page.evaluate(
        """() => {
          const shown = document.querySelector("section[aria-live=polite]");
          window.told = "";
          const options = { subtree: true, childList: true, characterData: true };
          new MutationObserver(() => { told += `${shown.textContent}|`; }).observe(shown, options);
        }"""
    )


def was_told(page: Page, message: str) -> None:
    """Wait until the page has shown a message since `keep_messages`, even if it is gone by now."""
    page.wait_for_function("message => told.includes(message)", arg=message)


def until(page: Page, path: str, holds: str) -> None:
    """Wait for an answer `told` of the API for which an expression of JavaScript holds."""
    page.evaluate(
        f"""async () => {{
          const end = performance.now() + {WAIT_MS};
          while (performance.now() < end) {{
            const told = await (await fetch("/api/v1{path}")).json();
            if ({holds}) return;
            await new Promise(later => setTimeout(later, 200));
          }}
          throw new Error({holds!r});
        }}"""
    )
