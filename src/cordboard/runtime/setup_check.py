"""Check of an installation, step by step: its state, and for each fault the lines that mend it.

    steps = await check_setup(source, ready)

`cordboard doctor` prints the steps, the admin port shows them. Nothing is changed: files are read,
Asterisk answers a few questions, ports are opened and closed at once. A step that depends on a
failed one is `skipped`.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from cordboard.agents.making import plugin_problems
from cordboard.agents.provider_health import ProviderHealth, agents_readiness
from cordboard.api.administration_view import Fix, Step, StepState
from cordboard.audio import g722
from cordboard.config.checks.surroundings import check_surroundings, nearest, why_not_writable
from cordboard.config.load import ConfigSource, LoadedConfig
from cordboard.config.remote_url import is_loopback
from cordboard.config.schema import MEDIA_CODECS, Asterisk, Config
from cordboard.errors import AsteriskError, ConfigError
from cordboard.runtime.doors import NO_WAY_IN
from cordboard.telephony.asterisk.dialplan import dialplan_for
from cordboard.telephony.asterisk.inspection import FIRST_VERSIONS, AsteriskFacts, inspect
from cordboard.vendors.local.model_files import INSTALL_COMMAND
from cordboard.vendors.local.models import Need, missing_models, needs_of

Ready: TypeAlias = Mapping[str, Any] | None
"""Body of the running engine's `/ready`; None while no engine runs."""

LEAST_FREE = 1024**3
"""Free bytes for ledgers and recordings, below which the disk is too full: about nine hours of
recordings (stereo, 16 bits, 8 kHz: 115 MB an hour)."""
MOST_CLOCK_DIFFERENCE = 2.0
"""Seconds between Asterisk's clock and ours, above which the times of ledgers and of Asterisk's own
records no longer show what belongs together."""

TEST_WORDS = "Hello, can you hear me?"
"""The words of a test call's caller."""

_ALWAYS = tuple(
    f"{name}.so"
    for name in (
        "app_stasis",
        "res_stasis",
        "res_stasis_answer",
        "res_http_websocket",
        "res_ari_applications",
        "res_ari_asterisk",
        "res_ari_bridges",
        "res_ari_channels",
        "res_ari_events",
    )
)
"""Modules that each call by ARI needs: 22.10.1 without any one of them brings no caller to us."""
_BY_MEDIA: Mapping[str, tuple[str, ...]] = {
    "audiosocket": ("chan_audiosocket.so", "res_audiosocket.so"),
    "websocket": ("chan_websocket.so",),
    "rtp": ("chan_rtp.so", "res_rtp_asterisk.so"),
}
"""Modules of each transport; plug-ins' transports are not known here."""
_BY_CODEC: Mapping[str, str] = {
    "ulaw": "codec_ulaw.so",
    "alaw": "codec_alaw.so",
    "slin16": "codec_resample.so",
    "g722": "codec_g722.so",
}
"""Module that translates each codec; slin needs none."""
_OF_PHONES = ("codec_ulaw.so", "codec_alaw.so")
"""Most telephone lines are one of these. Without `codec_ulaw` alone, Asterisk 22.10.1 translates by
way of a-law; without both, calls are silent."""


async def check_setup(
    source: ConfigSource, ready: Ready, *, freepbx: bool = False, least_free: int = LEAST_FREE
) -> list[Step]:
    """Check everything: a second, half a minute at most. `ready`: of the engine that runs with this
    file. `freepbx`: the dialplan is for FreePBX's file. `least_free`: as `LEAST_FREE`. Never
    raises for the state of the installation."""
    try:
        loaded = await asyncio.to_thread(source.load)
    except ConfigError as error:
        fix = Fix("Mend these lines; every key is explained in docs/configuration/.")
        return [Step("config", "bad", "configuration", str(error), fix)]
    config = loaded.config
    return [
        await asyncio.to_thread(_config, loaded),
        *await _asterisk(config, source.path, ready),
        await asyncio.to_thread(_ports, config, ready),
        _dialplan(config, freepbx),
        await asyncio.to_thread(_voices, config, source.environ),
        await asyncio.to_thread(_disk, config.calls.directory, least_free),
    ]


def _config(loaded: LoadedConfig) -> Step:
    surroundings = check_surroundings(loaded.config, loaded.document, loaded.secret_files)
    warnings = [*loaded.problems, *surroundings]
    if warnings:
        told = "\n".join(str(each) for each in warnings)
        return Step("config", "warn", "configuration", told)
    contexts = ", ".join(loaded.config.contexts)
    return Step("config", "ok", "configuration", f"{loaded.path}: in order; contexts: {contexts}")


# --- Asterisk ------------------------------------------------------------------------------

_PARTS = {
    "app": "Stasis application",
    "modules": "modules of Asterisk",
    "codecs": "codecs",
    "clock": "clock",
}


async def _asterisk(config: Config, path: Path, ready: Ready) -> list[Step]:
    asterisk, ari = config.asterisk, "ARI user and version"
    if asterisk is None and config.audiosocket.context is None:
        copy = 'asterisk:\n  password: "${ASTERISK_ARI_PASSWORD}"'
        return [Step("ari", "warn", ari, NO_WAY_IN, Fix(f"Add it to {path}", copy))]
    if asterisk is None:
        said = "the file has no `asterisk`: calls come by the bare AudioSocket() application only"
        return [Step("ari", "skipped", ari, said)]
    try:
        facts = await inspect(asterisk)
    except AsteriskError as error:
        skipped = (
            Step(id_, "skipped", what, "not asked, because of ARI") for id_, what in _PARTS.items()
        )
        return [Step("ari", "bad", ari, str(error), _ari_fix(error, asterisk)), *skipped]
    return [
        _ari_user(facts, asterisk, ari),
        _app(facts, asterisk, path, ready),
        _modules(facts, config),
        _codecs(facts, asterisk),
        _clock(facts),
    ]


def _ari_fix(error: AsteriskError, asterisk: Asterisk) -> Fix:
    """Return the fix of an Asterisk that does not take the connection, or does not answer."""
    if error.status in (401, 403):
        return Fix(
            "ari.conf needs this user (FreePBX: ari_additional_custom.conf), and asterisk.password "
            "its password; docs/asterisk.md has the commands that make a password and its hash",
            _user_entry(asterisk),
        )
    if str(error).startswith("no ARI"):
        return Fix(
            "Enable ARI in ari.conf, and load its modules",
            "; ari.conf\n[general]\nenabled = yes\n\nasterisk -rx 'module load res_ari.so'\n"
            "asterisk -rx 'module load res_ari_events.so'",
        )
    if error.status:
        return Fix(
            "The module that answers this request is not loaded",
            "asterisk -rx 'module load res_ari_asterisk.so'\n"
            "asterisk -rx 'module load res_ari_applications.so'",
        )
    if "no answer within" in str(error):
        return Fix(
            f"Update Asterisk: it answers requests on the websocket from {FIRST_VERSIONS} on"
        )
    url = urlsplit(asterisk.url)
    return Fix(
        "Start Asterisk, and let its HTTP server listen at asterisk.url: http.conf (FreePBX: "
        "http_custom.conf), then `asterisk -rx 'core reload'`",
        f"; http.conf\n[general]\nenabled = yes\nbindaddr = {url.hostname}\n"
        f"bindport = {url.port or 8088}",
    )


def _user_entry(asterisk: Asterisk) -> str:
    return (
        f"; ari.conf\n[{asterisk.username}]\ntype = user\nread_only = no\n"
        "password_format = crypt\npassword = $6$rounds=1000$..."
    )


def _ari_user(facts: AsteriskFacts, asterisk: Asterisk, what: str) -> Step:
    said = f"Asterisk {facts.version} at {asterisk.url}, user {asterisk.username!r}"
    if facts.read_only:
        fix = Fix("Let the user of ari.conf write: calls are answered by it", "read_only = no")
        return Step("ari", "bad", what, f"{said}: the user may only read", fix)
    if facts.plain_password:
        fix = Fix("Keep a hash in ari.conf: docs/asterisk.md, section The password of the ARI user")
        told = f"{said}: every other ARI user can read its password in ari.conf"
        return Step("ari", "warn", what, told, fix)
    return Step("ari", "ok", what, said)


def _app(facts: AsteriskFacts, asterisk: Asterisk, path: Path, ready: Ready) -> Step:
    app, what = asterisk.app, _PARTS["app"]
    there = app in facts.applications
    if ready is not None:
        detail = _trouble(ready, "ari")
        if there and not detail:
            return Step("app", "ok", what, f"{app!r} is registered, by the engine that runs")
        said = f"the engine that runs has not registered {app!r}: {detail or 'Asterisk lacks it'}"
        return Step("app", "bad", what, said, Fix("Look at the engine's log, or restart it"))
    if there:
        said = f"{app!r} is registered, but not by an engine with this file"
        fix = Fix("End the other client of ARI, or choose another asterisk.app and dialplan")
        return Step("app", "warn", what, said, fix)
    said = f"{app!r} is not registered, because the engine does not run"
    return Step("app", "warn", what, said, Fix("Start the engine", f"cordboard run -c {path}"))


def _trouble(ready: Mapping[str, Any], component: str) -> str:
    """Return why a component of the running engine is not ready; empty when it is."""
    state = ready.get("components", {}).get(component, {})
    if state.get("ready", True):
        return ""
    return str(state.get("detail") or "not ready")


def _modules(facts: AsteriskFacts, config: Config) -> Step:
    media = config.asterisk.media if config.asterisk is not None else ""
    needed = [*_ALWAYS, *_BY_MEDIA.get(media, ())]
    if config.audiosocket.context is not None:
        needed.append("app_audiosocket.so")
    missing = [name for name in needed if name not in facts.modules]
    if not missing:
        said = f"all that calls by {media} need are running"
        return Step("modules", "ok", _PARTS["modules"], said)
    said = f"not running: {', '.join(missing)}"
    return Step("modules", "bad", _PARTS["modules"], said, _load(missing))


def _load(modules: list[str]) -> Fix:
    lines = "\n".join(f"asterisk -rx 'module load {name}'" for name in modules)
    return Fix("Load them now, and delete their `noload` lines in modules.conf", lines)


def _codecs(facts: AsteriskFacts, asterisk: Asterisk) -> Step:
    what, chosen = _PARTS["codecs"], asterisk.codec
    carried = MEDIA_CODECS.get(asterisk.media, ()) if chosen == "auto" else (chosen,)
    codecs = [name for name in carried if name != "g722" or g722.installed() or chosen == name]
    needed = dict.fromkeys([*_OF_PHONES, *(_BY_CODEC[c] for c in codecs if c in _BY_CODEC)])
    missing = [name for name in needed if name not in facts.modules]
    if missing:
        state: StepState = "bad" if _BY_CODEC.get(chosen) in missing else "warn"
        said = f"not running: {', '.join(missing)}; calls that need them have a worse sound or none"
        return Step("codecs", state, what, said, _load(missing))
    if chosen == "g722" and not g722.installed():
        said = "asterisk.codec is g722, and the package G722 is not installed"
        return Step("codecs", "bad", what, said, Fix("Install it", "pip install 'cordboard[g722]'"))
    return Step("codecs", "ok", what, f"{asterisk.media}: {', '.join(codecs) or 'a plug-in'}")


def _clock(facts: AsteriskFacts) -> Step:
    ahead = facts.clock_ahead
    if abs(ahead) <= MOST_CLOCK_DIFFERENCE:
        return Step("clock", "ok", _PARTS["clock"], "Asterisk has the time of this machine")
    direction = "ahead of" if ahead > 0 else "behind"
    said = f"Asterisk's clock is {abs(ahead):.0f} s {direction} this machine's"
    fix = Fix("Let both machines follow a time server", "timedatectl set-ntp true")
    return Step("clock", "warn", _PARTS["clock"], said, fix)


# --- this machine --------------------------------------------------------------------------


def _ports(config: Config, ready: Ready) -> Step:
    what = "ports of the engine"
    if (unreachable := _unreachable(config)) is not None:
        return Step("ports", "bad", what, *unreachable)
    names = [name for name, *_ in _tcp_ports(config)]
    if ready is not None:
        if detail := _trouble(ready, "media"):
            return Step("ports", "bad", what, detail, Fix("Choose another port, and restart"))
        return Step("ports", "ok", what, f"the engine that runs has them: {', '.join(names)}")
    for name, host, port in _tcp_ports(config):
        if reason := _why_not_bound(host, port, socket.SOCK_STREAM):
            who = f"ss -ltnp 'sport = :{port}'"
            fix = Fix(f"End the program that has it (the line shows it), or change {name}", who)
            return Step("ports", "bad", what, f"{name} {host}:{port}: {reason}", fix)
    if config.asterisk is not None and config.asterisk.media == "rtp":
        return _rtp_ports(config, what)
    return Step("ports", "ok", what, f"free: {', '.join(names)}")


def _unreachable(config: Config) -> tuple[str, Fix] | None:
    """Return the error of an Asterisk elsewhere that would send the sound to its own loopback."""
    asterisk = config.asterisk
    if asterisk is None or asterisk.media not in ("audiosocket", "rtp"):
        return None
    section = config.audiosocket if asterisk.media == "audiosocket" else config.rtp
    host = urlsplit(asterisk.url).hostname or ""
    if is_loopback(host) or not is_loopback(section.advertise_host):
        return None
    key = f"{asterisk.media}.advertise_host"
    said = f"Asterisk is at {host}, and would send the sound to {section.advertise_host}: itself"
    fix = Fix(
        f"Set {key} to this machine's address as {host} sees it, and listen there",
        f"{asterisk.media}: {{host: ADDRESS, advertise_host: ADDRESS}}",
    )
    return said, fix


def _tcp_ports(config: Config) -> Iterator[tuple[str, str, int]]:
    """Yield key, host and port of each TCP port that the engine opens."""
    yield "health.port", config.health.host, config.health.port
    if config.admin.ui.enabled:
        yield "admin.ui.port", config.admin.ui.host, config.admin.ui.port
    by_ari = config.asterisk is not None and config.asterisk.media == "audiosocket"
    if by_ari or config.audiosocket.context is not None:
        yield "audiosocket.port", config.audiosocket.host, config.audiosocket.port


def _rtp_ports(config: Config, what: str) -> Step:
    rtp = config.rtp
    ports = range(rtp.first_port, rtp.last_port + 1)
    taken = [port for port in ports if _why_not_bound(rtp.host, port, socket.SOCK_DGRAM)]
    if len(taken) == len(ports):
        reason = _why_not_bound(rtp.host, ports[0], socket.SOCK_DGRAM)
        said = f"no UDP port of {rtp.host}:{ports[0]}-{ports[-1]} can be opened: {reason}"
        fix = Fix("Choose other ports (rtp.first_port, rtp.last_port) or another rtp.host")
        return Step("ports", "bad", what, said, fix)
    free = "any" if rtp.first_port == 0 else f"{len(ports) - len(taken)} of {len(ports)}"
    return Step("ports", "ok", what, f"free: health.port, UDP ports of rtp: {free}")


def _why_not_bound(host: str, port: int, kind: socket.SocketKind) -> str:
    """Return why a port cannot be opened; empty when it was, and is closed again."""
    try:
        found = socket.getaddrinfo(host or None, port, type=kind, flags=socket.AI_PASSIVE)
        family, _, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            if kind == socket.SOCK_STREAM:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            if kind == socket.SOCK_STREAM:
                probe.listen()  # two sockets may bind a port with SO_REUSEADDR, one may listen
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _dialplan(config: Config, freepbx: bool) -> Step:
    what = "dialplan"
    if config.asterisk is None:
        said = "docs/asterisk.md shows the lines for AudioSocket() without ARI"
        return Step("dialplan", "skipped", what, said)
    said = "ARI does not show the dialplan; if it does not lead to the engine yet, add these lines"
    reload = "then `asterisk -rx 'dialplan reload'`"
    file = "extensions_custom.conf" if freepbx else "extensions.conf (FreePBX: --freepbx)"
    fix = Fix(f"Add them to {file}, {reload}", dialplan_for(config, freepbx=freepbx).rstrip())
    return Step("dialplan", "skipped", what, said, fix)


def _voices(config: Config, environ: Mapping[str, str]) -> Step:
    what = "voices and models"
    missing = missing_models(needs_of(config))
    required = [str(error) for need, error in missing if need is Need.REQUIRED]
    unmade = dict(plugin_problems(config, environ))
    readiness = agents_readiness(config, environ, ProviderHealth(), unmade)
    if required or not readiness.ready:
        said = "\n".join(filter(None, [*required, readiness.detail]))
        copy = INSTALL_COMMAND if required else ""
        fix = Fix("Install what is missing, and set the keys in the engine's environment", copy)
        return Step("voices", "bad", what, said, fix)
    told = "\n".join(filter(None, [*(str(error) for _, error in missing), readiness.detail]))
    if told:
        return Step("voices", "warn", what, f"calls can be answered without, but: {told}")
    return Step("voices", "ok", what, "all are there; `cordboard check --online` asks services")


def _disk(folder: Path, least_free: int) -> Step:
    what = "disk for ledgers and recordings"
    if (reason := why_not_writable(folder)) is not None:
        fix = Fix("Let the engine's user write there, or choose another calls.directory")
        return Step("disk", "bad", what, f"{folder} cannot be written: {reason}", fix)
    free = shutil.disk_usage(nearest(folder)).free
    said = f"{folder}: {free / 1024**3:.1f} GiB are free"
    if free >= least_free:
        return Step("disk", "ok", what, said)
    fix = Fix(
        f"Make room ({least_free / 1024**3:.1f} GiB at least), choose another calls.directory, or "
        "let recordings be deleted by age (recording.keep_days of a context)",
        f"du -sh {folder}/*",
    )
    return Step("disk", "bad", what, said, fix)
