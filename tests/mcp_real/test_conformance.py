"""The official MCP conformance suite, client scenarios, against our client.

Both lines of it: the released one, for the revisions with a handshake (up to 2025-11-25), and the
one for 2026-07-28. `conformance_exceptions.yaml` names what we do not pass, and why; what begins to
pass must be taken out of there. docs/mcp-conformance.md says more.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from ruamel.yaml import YAML

from .conformance_client import Player
from .installed import installed

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = Path(__file__).parent
SECONDS = 600
SCENARIOS = {"2025-11-25": 26, "2026-07-28": 39}
"""How many each line has, in the locked versions."""
SELECTION = {"2025-11-25": ("--suite", "all"), "2026-07-28": ("--requirements", "2026-07-28")}
LATENESS = {"client-sse-retry-timing"}
"""Checks that warn of 0.2 s too late, as a busy machine may be, and fail at twice the time."""
CLIENT = "client"
"""Stands among the names of failed checks for an error that our client reported."""


@dataclass
class Outcome:
    """How a scenario ended."""

    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    """Name of the check → what is said of it."""


Line = dict[str, Outcome]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=sorted(SCENARIOS))
async def line(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[str, Line]]:
    """A protocol revision, and how each scenario for it ended."""
    protocol: str = request.param
    folder = tmp_path_factory.mktemp("conformance")
    player = Player(SCENARIOS[protocol])
    async with await player.serve() as server:
        port = server.sockets[0].getsockname()[1]
        relay = shlex.join([sys.executable, "-I", "-S", str(HERE / "relay.py"), str(port)])
        command = [*installed().conformance(protocol), "client", "--command", relay]
        options = (*SELECTION[protocol], "--timeout", "60000", "--output-dir", str(folder))
        said = await run(*command, *options)
    outcomes = read(folder)
    for name, problem in player.problems.items():
        if problem:
            outcomes[name].failed[CLIENT] = problem
    assert len(outcomes) == SCENARIOS[protocol], said
    yield protocol, outcomes


async def run(*command: str) -> str:
    """Run the suite to its end; returns what it says."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(SECONDS):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return said.decode("utf-8", "replace")


def read(folder: Path) -> Line:
    """The suite's own verdicts. A warning counts as a failure, as the suite counts it."""
    outcomes: Line = {}
    for path in folder.rglob("checks.json"):
        stamped = path.parent.relative_to(folder).as_posix()
        outcome = outcomes[re.sub(r"-\d{4}-\d\d-\d\dT[\dTZ-]+$", "", stamped)] = Outcome()
        for check in json.loads(path.read_text()):
            if check["status"] == "SUCCESS":
                outcome.passed.add(check["id"])
            elif check["status"] == "FAILURE" or (
                check["status"] == "WARNING" and check["id"] not in LATENESS
            ):
                words = check.get("errorMessage") or check["description"]
                outcome.failed[check["id"]] = words
    return outcomes


@dataclass
class Exempt:
    """What is known to fail in a scenario."""

    checks: set[str] = field(default_factory=set)
    """Empty: any."""
    client_says: str = ""
    """Part of the error that our client must have reported; the failure is no other one."""


def exceptions(protocol: str) -> dict[str, Exempt]:
    """The scenarios for a revision that we are known to fail."""
    found: dict[str, Exempt] = {}
    for entry in YAML(typ="safe").load((HERE / "conformance_exceptions.yaml").read_text()):
        assert entry["reason"].strip()
        for item in entry.get(protocol, ()):
            name, _, check = item.partition(":")
            exempt = found.setdefault(name, Exempt(client_says=entry.get("client_says", "")))
            exempt.checks.update({check} if check else ())
    return found


async def test_every_scenario_passes_but_the_exceptions(line: tuple[str, Line]) -> None:
    protocol, outcomes = line
    known = exceptions(protocol)
    surprises = [
        f"{name}: {check}: {words}"
        for name, outcome in sorted(outcomes.items())
        for check, words in unexpected(outcome, known.get(name)).items()
    ]
    assert not surprises, "\n".join(surprises)


def unexpected(outcome: Outcome, exempt: Exempt | None) -> dict[str, str]:
    """What failed and was not known to. A scenario in which nothing was checked has failed."""
    if exempt is None:
        if not outcome.passed and not outcome.failed:
            return {"all": "nothing was checked"}
        return outcome.failed
    if exempt.client_says not in outcome.failed.get(CLIENT, ""):
        return outcome.failed
    return {
        check: words
        for check, words in outcome.failed.items()
        if exempt.checks and check not in exempt.checks
    }


async def test_every_exception_is_still_needed(line: tuple[str, Line]) -> None:
    protocol, outcomes = line
    stale = []
    for name, exempt in exceptions(protocol).items():
        failed = outcomes[name].failed.keys()
        stale += sorted(f"{name}:{check}" for check in exempt.checks - failed)
        stale += [name] if failed <= {CLIENT} and not exempt.checks else []
    assert stale == [], "these pass: take them out of conformance_exceptions.yaml"
