"""The admin port of a whole engine: a real call, https, faults at its start, and nothing left."""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from cordboard.accounts.rights import EVERYWHERE, Role
from cordboard.accounts.store import Accounts
from cordboard.config.load import ConfigSource
from cordboard.config.schema import Config
from cordboard.errors import ListenError, StoreUnavailable
from cordboard.runtime.engine import Engine
from cordboard.telephony.asterisk.ari import AriClient
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.late_asterisk import PASSWORD, LateAsterisk
from cordboard_testkit.leaks import LeakSnapshot
from cordboard_testkit.patience import PATIENCE, until

GOOD = "plum tangible orbit 41"


def config(folder: Path, **ui: Any) -> Config:
    settings = {"enabled": True, "port": 0, "data": str(folder / "admin"), **ui}
    return Config.model_validate(
        {
            "contexts": {"demo": {"greeting": "Good morning, this is the demo."}},
            "default_context": "demo",
            "health": {"port": 0},
            "audiosocket": {"port": 0, "context": "demo"},
            "calls": {"directory": str(folder / "calls")},
            "admin": {"ui": settings},
        }
    )


def invited(folder: Path, name: str = "anna", role: Role = Role.ADMIN) -> str:
    """What `cordboard users add` does: the token of the link."""
    accounts = Accounts(folder / "admin")
    accounts.add(name, role, (), EVERYWHERE)
    token = accounts.reset(name)
    accounts.close()
    return token


def page(port: int, scheme: str = "http", **more: Any) -> httpx2.AsyncClient:
    """A browser with our page."""
    origin = f"{scheme}://127.0.0.1:{port}"
    headers = {"Origin": origin, "X-Cordboard": "1"}
    return httpx2.AsyncClient(
        base_url=f"{origin}/api/v1",
        headers=headers,
        trust_env=False,
        **{"timeout": PATIENCE, **more},
    )


@pytest.mark.usefixtures("lent_models")
async def test_an_operator_signs_in_sees_a_real_call_and_hangs_it_up(tmp_path: Path) -> None:
    token = invited(tmp_path)
    engine = Engine(config(tmp_path), sheds_load=False)
    await engine.start()
    try:
        assert engine.admin_port is not None
        async with page(engine.admin_port) as browser:
            link = {"token": token, "password": GOOD}
            assert (await browser.post("/session/link", json=link)).status_code == 200
            async with SimulatedCaller("127.0.0.1", engine.audiosocket_port):
                await until(lambda: bool(engine.registry.calls), "the call")
                live = (await browser.get("/calls/live")).json()["calls"]
                assert (live[0]["context"], live[0]["source"]) == ("demo", "audiosocket")
                path = f"/calls/{live[0]['call_id']}/hangup"
                assert (await browser.post(path)).status_code == 200
                await asyncio.wait_for(engine.calls_recorded(), PATIENCE)
            assert (await browser.get("/calls/live")).json()["calls"] == []
            assert (await browser.get("/engine")).json()["ready"] is True
    finally:
        await engine.stop(grace=0)
    (ledger,) = (tmp_path / "calls").glob("*/*.jsonl")
    ended = json.loads(ledger.read_text().splitlines()[-1])
    assert (ended["outcome"], ended["reason"]) == ("completed", "operator_hangup")
    audit = (tmp_path / "admin" / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["action"] for line in audit] == ["session.link", "call.hangup"]


@pytest.mark.usefixtures("lent_models")
async def test_the_set_up_of_a_running_engine_is_checked_beside_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = AriClient.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "request_seconds", PATIENCE)
    token = invited(tmp_path, role=Role.OPERATOR)
    async with LateAsterisk() as asterisk:
        ari = {"url": asterisk.url, "password": PASSWORD}
        tree = config(tmp_path).model_dump(mode="json", exclude_unset=True) | {"asterisk": ari}
        file = tmp_path / "agent.yaml"
        file.write_text(json.dumps(tree))
        source = ConfigSource(file, {})
        engine = Engine(source.load().config, source=source, sheds_load=False)
        await engine.start()
        try:
            assert engine.admin_port is not None
            await until(lambda: asterisk.applications == ["cordboard"], "the engine")
            async with page(engine.admin_port, timeout=PATIENCE) as browser:
                await browser.post("/session/link", json={"token": token, "password": GOOD})
                steps = (await browser.get("/engine/setup")).json()["steps"]
            states = {step["id"]: step["state"] for step in steps}
            assert states.pop("disk") in ("ok", "bad")
            assert states.pop("config") in ("ok", "warn")
            assert states == {
                **dict.fromkeys(("ari", "app", "modules", "codecs", "clock"), "ok"),
                "ports": "ok",
                "dialplan": "skipped",
                "voices": "ok",
            }
            await until(lambda: asterisk.applications == ["cordboard"], "the engine alone")
            assert engine.view.readiness()["ari"].ready
        finally:
            await engine.stop(grace=0)


@pytest.mark.usefixtures("lent_models")
async def test_a_session_survives_a_restart_and_nothing_is_left_of_the_engine(
    tmp_path: Path,
) -> None:
    token = invited(tmp_path)
    first = Engine(config(tmp_path), sheds_load=False)
    await first.start()
    assert first.admin_port is not None
    async with page(first.admin_port) as browser:
        await browser.post("/session/link", json={"token": token, "password": GOOD})
        (cookie,) = browser.cookies.jar
    await first.stop(grace=0)
    before = LeakSnapshot.take()
    second = Engine(config(tmp_path), sheds_load=False)
    with capture_logs() as log:
        await second.start()
        assert second.admin_port is not None
        headers = {"Cookie": f"cordboard-{second.admin_port}={cookie.value}"}
        async with page(second.admin_port) as browser:
            assert (await browser.get("/session", headers=headers)).json()["name"] == "anna"
            assert (await browser.delete("/session", headers=headers)).status_code == 200
        await second.stop(grace=0)
    await before.assert_nothing_left()
    heads = [entry for entry in log if entry["event"] == "audit_head"]
    assert [(entry["lines"], len(entry["hash"])) for entry in heads] == [(1, 64)]


def certificate(folder: Path) -> dict[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cordboard.test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    files = {"certificate": folder / "c.pem", "key": folder / "k.pem"}
    files["certificate"].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files["key"].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return {name: str(path) for name, path in files.items()}


@pytest.mark.usefixtures("lent_models")
async def test_with_a_certificate_of_its_own_it_speaks_https_alone(tmp_path: Path) -> None:
    token = invited(tmp_path)
    engine = Engine(config(tmp_path, tls=certificate(tmp_path)))
    await engine.start()
    try:
        port = engine.admin_port
        assert port is not None
        trusting = ssl.create_default_context(cafile=str(tmp_path / "c.pem"))
        trusting.check_hostname = False
        async with page(port, "https", verify=trusting) as browser:
            link = {"token": token, "password": GOOD}
            answer = await browser.post("/session/link", json=link)
            assert answer.status_code == 200
            assert answer.headers["set-cookie"].startswith("__Host-cordboard=")
            assert "strict-transport-security" in answer.headers
        async with page(port) as plain:
            with pytest.raises(httpx2.TransportError):
                await plain.get("/session")
    finally:
        await engine.stop(grace=0)


@pytest.mark.parametrize("fault", ["missing", "no certificate", "not its key", "a folder"])
async def test_a_certificate_that_cannot_be_used_is_one_clear_error(
    tmp_path: Path, fault: str
) -> None:
    files = certificate(tmp_path)
    if fault == "missing":
        Path(files["certificate"]).unlink()
    elif fault == "no certificate":
        Path(files["certificate"]).write_text("hello")
    elif fault == "a folder":
        files["key"] = str(tmp_path)
    else:
        (tmp_path / "other").mkdir()
        files["key"] = certificate(tmp_path / "other")["key"]
    engine = Engine(config(tmp_path, tls=files))
    with pytest.raises(ListenError, match=r"c\.pem .* cannot be used: .* \(admin\.ui\.tls\)"):
        await engine.start()
    await engine.stop(grace=0)


async def test_a_port_in_use_and_a_folder_that_cannot_be_written_stop_the_start(
    tmp_path: Path,
) -> None:
    before = LeakSnapshot.take()
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    engine = Engine(config(tmp_path, port=port))
    with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{port} .*\(admin\.ui\.port\)"):
        await engine.start()
    server.close()
    await server.wait_closed()
    (tmp_path / "file").write_text("")
    engine = Engine(config(tmp_path, data=str(tmp_path / "file")))
    with pytest.raises(StoreUnavailable, match="accounts"):
        await engine.start()
    await before.assert_nothing_left()


OFF = """
import asyncio, sys
from pathlib import Path
import cordboard.runtime.engine
from cordboard.config.load import ConfigSource
from cordboard.config.schema import Config
config = Config.model_validate({"contexts": {"demo": {}}})
async def make():
    assert cordboard.runtime.engine.Engine(config).admin_port is None
asyncio.run(make())
ours = ("cordboard.admin", "cordboard.accounts", "cordboard.cluster", "nats")
print([name for name in sys.modules if name.startswith(ours)])
"""


def test_switched_off_it_costs_nothing() -> None:
    """No module of it is loaded."""
    done = subprocess.run([sys.executable, "-c", OFF], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
