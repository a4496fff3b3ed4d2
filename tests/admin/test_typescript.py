"""The types of the admin port, a program that stands on them, and the size of the page."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_real.installed import installed

from cordboard.accounts.rights import EVERYWHERE, Permission, Role
from cordboard.accounts.store import Accounts
from cordboard.config.load import load
from cordboard.runtime.engine import Engine
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.patience import PATIENCE, until

FOLDER = Path(__file__).parents[2] / "admin-ui"
ASSETS = FOLDER.parent / "src" / "cordboard" / "admin" / "assets"
CONFIG = """
contexts: {demo: {greeting: "Good morning, this is the demo."}}
health: {port: 0}
audiosocket: {port: 0, context: demo}
calls: {directory: calls}
admin: {ui: {enabled: true, port: 0, data: admin}}
"""


def node(*arguments: str) -> subprocess.CompletedProcess[str]:
    if not (FOLDER / "node_modules").is_dir():
        pytest.fail("the npm packages are missing; run scripts/install-admin-ui", pytrace=False)
    command = [str(installed().node), *arguments]
    return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)


def test_the_types_are_those_of_the_openapi_document(tmp_path: Path) -> None:
    """`make admin-types` writes them."""
    program = "node_modules/openapi-typescript/bin/cli.js"
    made = node(program, "openapi.json", "--output", str(tmp_path / "made.ts"))
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "made.ts").read_text() == (FOLDER / "src/api/generated.ts").read_text()


def test_the_compiler_finds_what_the_engine_does_not_know(tmp_path: Path) -> None:
    compiler = "node_modules/typescript/bin/tsc"
    program = tmp_path / "wrong.ts"
    client = FOLDER / "src/api/client.ts"
    program.write_text(
        f'import {{ connect }} from "{client}";\n'
        'await connect().POST("/api/v1/calls/{call_id}/transfer", {\n'
        '  params: { path: { call_id: "1" } }, body: { place: "desk" } });\n'
        'await connect().GET("/api/v1/nothing", {});\n'
    )
    (tmp_path / "tsconfig.json").write_text(
        f'{{"extends": "{FOLDER}/tsconfig.json", "include": ["wrong.ts"],'
        f' "compilerOptions": {{"typeRoots": ["{FOLDER}/node_modules/@types"]}}}}'
    )
    wrong = node(compiler, "--project", str(tmp_path))
    assert wrong.returncode != 0
    assert "'place' does not exist" in wrong.stdout
    assert "wrong.ts(4," in wrong.stdout, "the path that does not exist"


def test_the_logic_of_the_page() -> None:
    limits = ("--testTimeout=60000", "--hookTimeout=60000")
    ran = node("node_modules/vitest/vitest.mjs", "run", "--reporter=dot", *limits)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_first_page_is_small() -> None:
    """What a browser loads before the live calls appear, compressed by gzip."""
    script, style, requests = 180_000, 20_000, 8
    if not (ASSETS / "manifest.json").is_file():
        pytest.fail("the page is not built; run make admin-ui", pytrace=False)
    manifest = json.loads((ASSETS / "manifest.json").read_text())
    files = _loaded(manifest, "index.html") | _loaded(manifest, "src/pages/live/page.tsx")
    sizes = {file: (ASSETS / f"{file}.gz").stat().st_size for file in files}
    assert sum(size for file, size in sizes.items() if file.endswith(".js")) <= script
    assert sum(size for file, size in sizes.items() if file.endswith(".css")) <= style
    assert len({"index.html", *files}) <= requests


def _loaded(manifest: dict[str, Any], chunk: str) -> set[str]:
    entry = manifest[chunk]
    inside = (_loaded(manifest, each) for each in entry.get("imports", ()))
    return {entry["file"], *entry.get("css", ())}.union(*inside)


@pytest.mark.usefixtures("lent_models")
async def test_a_program_in_typescript_lists_calls_and_ends_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.yaml").write_text(CONFIG)
    accounts = Accounts(tmp_path / "admin")
    accounts.add("anna", Role.ADMIN, (), EVERYWHERE)
    allowed = {Permission.CALLS_READ, Permission.CALLS_CONTROL}
    _, key = accounts.add_key("anna", "wallboard", allowed, EVERYWHERE, 600)
    accounts.close()
    engine = Engine(load(tmp_path / "agent.yaml", {}).config, sheds_load=False)
    await engine.start()
    try:
        async with SimulatedCaller("127.0.0.1", engine.audiosocket_port):
            await until(lambda: bool(engine.registry.calls), "the call")
            program = await asyncio.create_subprocess_exec(
                *(str(installed().node), str(FOLDER / "tests" / "wallboard.ts")),
                *(f"http://127.0.0.1:{engine.admin_port}", key),
                env={"PATH": os.environ["PATH"]},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await asyncio.wait_for(program.communicate(), PATIENCE)
            assert program.returncode == 0, err.decode()
            await asyncio.wait_for(engine.calls_recorded(), PATIENCE)
    finally:
        await engine.stop(grace=0)
    first, refused = out.decode().splitlines()
    assert first.startswith("demo ")
    assert refused == "403 forbidden"
    (ledger,) = (tmp_path / "calls").glob("*/*.jsonl")
    assert "operator_hangup" in ledger.read_text()
