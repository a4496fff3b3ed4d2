"""Alarms of a whole engine: a real call fires one, by a signed webhook and by e-mail."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from tests.calls.post_call.webhooks import receiver

from cordboard.alarms import watch
from cordboard.config.load import ConfigSource, load
from cordboard.runtime.engine import Engine
from cordboard.tools.http.request import is_signed
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.emulators.mail_server import MailServer
from cordboard_testkit.patience import PATIENCE, until

SECRET = "a shared secret"
CONFIG = """
contexts: {demo: {greeting: "Good morning."}}
health: {port: 0}
audiosocket: {port: 0, context: demo}
reload: {watch: false}
calls: {directory: calls, index: {enabled: true}}
admin: {ui: {data: admin}}
tools:
  tell: {kind: http, method: POST, url: "HOOK", allow_private: true, sign_with: "a shared secret",
         parameters: {text: {type: string}, calls: {type: array}},
         body: {text: "{text}", calls: "{calls}"}}
alarms:
  rules: {busy: {measure: calls, above: 0, over_minutes: 60}}
  tool: {tool: tell, arguments: {text: "{alarm.name} {alarm.state}", calls: "{alarm.calls}"}}
  email: {server: 127.0.0.1, port: PORT, security: none, sender: a@b.example, to: [c@b.example]}
"""


@pytest.mark.usefixtures("lent_models")
async def test_a_call_fires_an_alarm_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(watch, "INTERVAL", 0.2)
    path = tmp_path / "ai-agent.yaml"
    async with receiver(500, 200) as hook, MailServer() as mails:
        path.write_text(CONFIG.replace("HOOK", hook.url).replace("PORT", str(mails.port)))
        source = ConfigSource(path, {})
        engine = Engine(load(path, {}).config, source=source, sheds_load=False)
        await engine.start()
        try:
            async with SimulatedCaller("127.0.0.1", engine.audiosocket_port):
                await until(lambda: bool(engine.registry.calls), "the call")
                (call_id,) = engine.registry.calls
            await asyncio.wait_for(mails.taken.wait(), PATIENCE)
            await hook.wait_for(2)
            assert engine.alarms.alarm("busy").state.is_red
        finally:
            await engine.stop(grace=0)
    assert mails.mails[0].message["Subject"] == "ALARM busy"
    failed, done = hook.deliveries
    assert done.body == {"text": "busy firing", "calls": [call_id]}
    assert failed.key == done.key, "the receiver can tell a repeated one"
    signature, at = (done.headers[f"x-cordboard-{name}"] for name in ("signature", "timestamp"))
    assert is_signed(SECRET, at, signature, done.raw, time.time())
    stored = json.loads((tmp_path / "admin" / "alarms.json").read_bytes())
    assert stored["alarms"]["busy"]["stage"] == "firing"
    assert stored["pending"] == []
