"""An Asterisk for several processes, at the level of the messages on ARI's websockets.

It does what `docs/cluster-asterisk.md` and the tests with a real one say: applications keep their
channels when their client is gone, any user may do anything to any channel, a user who was removed
gets 401 also on an open connection, and `/move` answers before it moves.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.http11 import Response

from .processes import Process, here, later

WAY_SECONDS = 0.0005
MOVE_SECONDS = 0.0015
DEAD_SECONDS = 7.5
"""Time after which a client notices that nothing answers its pings."""
OPEN_SECONDS = 5.0
FAMILY = "cordboard"


@dataclass(eq=False)
class Channel:
    id: str
    app: str = ""
    """The Stasis application that it is in."""
    state: str = "Ring"
    bridge: str = ""
    media_of: Process | None = None
    """Process with the other end of its sound; None: a caller."""
    variables: dict[str, str] = field(default_factory=dict)
    engines: list[str] = field(default_factory=list)
    """Applications that the dialplan has yet to try."""
    ended: str = ""
    """Why there is no such channel any more."""

    def json(self) -> dict[str, Any]:
        name = "Stasis" if self.app else ""
        return {
            "id": self.id,
            "state": self.state,
            "name": f"PJSIP/{self.id}",
            "caller": {"name": "", "number": "100"},
            "dialplan": {"exten": "s", "app_name": name},
        }


class Refused(Exception):
    """A request is answered with a status."""

    def __init__(self, status: int, text: str = "") -> None:
        self.status, self.text = status, text
        super().__init__(text)


class Wire:
    """A websocket, as both sides have it."""

    def __init__(self, asterisk: Asterisk, process: Process, app: str, user: str, key: str) -> None:
        self.asterisk, self.process = asterisk, process
        self.app, self.user, self.key = app, user, key
        self._arrived: asyncio.Queue[str | None] = asyncio.Queue()
        self.open_here = self.open_there = True
        """At the process, and at Asterisk."""
        self._held: list[tuple[bool, str]] = []
        """Messages on the way while the process is cut off; True: to Asterisk."""
        self.transport = self

    # The client's side

    async def send(self, text: str) -> None:
        if not self.open_here:
            raise ConnectionClosedError(None, None)
        later(WAY_SECONDS, self.pass_on, True, text)

    def __aiter__(self) -> Wire:
        return self

    async def __anext__(self) -> str:
        text = await self._arrived.get()
        if text is None:
            self._arrived.put_nowait(None)
            raise ConnectionClosedError(None, None)
        return text

    async def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        """Close, from the client's side."""
        if self.open_here:
            self.open_here = False
            self._arrived.put_nowait(None)
            later(WAY_SECONDS, self.closed_there)

    # The way

    def pass_on(self, to_asterisk: bool, text: str) -> None:
        if self.asterisk.is_cut(self.process):
            self._held.append((to_asterisk, text))
        elif to_asterisk:
            stalled = self.asterisk.stalled_until - asyncio.get_running_loop().time()
            if stalled > 0:
                later(stalled, self.pass_on, to_asterisk, text)
            elif self.open_there:
                self.asterisk.handle(self, text)
        else:
            self.process.do(self._arrived.put_nowait, text)

    def mended(self) -> None:
        held, self._held = self._held, []
        if not self.open_here:
            self.closed_there()
            return
        for to_asterisk, text in held:
            self.pass_on(to_asterisk, text)
        if not self.open_there:
            self.process.do(self.abort)

    # Asterisk's side

    def tell(self, message: dict[str, Any]) -> None:
        if self.open_there:
            later(WAY_SECONDS, self.pass_on, False, json.dumps(message))

    def closed_there(self) -> None:
        """Note that the client has closed it, unless that cannot be seen now."""
        if self.open_there and not self.asterisk.is_cut(self.process):
            self.drop()

    def drop(self) -> None:
        """Close, from Asterisk's side."""
        self.open_there = False
        self.asterisk.left(self)
        if not self.asterisk.is_cut(self.process):
            self.process.do(self.abort)


class Asterisk:
    def __init__(self, made_media: Callable[[Process, str], None], *, rtp: bool) -> None:
        """`made_media(process, channel)`: sound begins. `rtp`: media channels do not end with the
        process at their other end."""
        self._made_media = made_media
        self._rtp = rtp
        self.cut: set[Process] = set()
        """Processes whose sound does not get through."""
        self._cut_ari: set[Process] = set()
        """Processes whose websockets do not get through."""
        self._closed: set[str] = set()
        """Media channels whose other end was closed while it was cut off."""
        self.lost_media: Callable[[Process, str], None] = lambda process, channel: None
        self.callers: dict[str, Channel] = {}
        """All there ever were."""
        self._sockets: list[Wire] = []
        """Websockets that are not closed on both sides."""
        self.unanswered: set[str] = set()
        """Last words of the paths of requests that are done, and not answered."""
        self.stalled_until = 0.0
        """Loop time until which it does nothing."""
        self.startup = 0
        self.is_up = True
        self._forget_all()

    def _forget_all(self) -> None:
        self.startup += 1
        self.users = {FAMILY: "shared"}
        self.wires: dict[str, Wire] = {}
        self.channels: dict[str, Channel] = {}
        self.bridges: set[str] = set()
        self.variables: dict[str, str] = {}

    # What happens outside

    def is_cut(self, process: Process) -> bool:
        return process in self._cut_ari

    def cut_off(self, process: Process, *, sound: bool) -> None:
        self._cut_ari.add(process)
        if sound:
            self.cut.add(process)
        for wire in self._wires_of(process):
            later(DEAD_SECONDS, self._is_dead, wire)

    def _wires_of(self, process: Process) -> list[Wire]:
        self._sockets = [each for each in self._sockets if each.open_here or each.open_there]
        return [each for each in self._sockets if each.process is process]

    def _is_dead(self, wire: Wire) -> None:
        if self.is_cut(wire.process):
            wire.process.do(wire.abort)

    def mend(self, process: Process) -> None:
        self.cut.discard(process)
        self._cut_ari.discard(process)
        for wire in self._wires_of(process):
            wire.mended()
            if process.killed:
                wire.drop()

        for name in sorted(self._closed):
            self.sound_closed(name)

    def sound_closed(self, name: str) -> None:
        """The process at the other end of a media channel has closed it."""
        channel = self.channels.get(name)
        if channel is None or channel.media_of is None:
            self._closed.discard(name)
        elif channel.media_of in self.cut:
            self._closed.add(name)
        else:
            self._closed.discard(name)
            self.hang_up(channel, "sound closed")

    def killed(self, process: Process) -> None:
        """Its sockets close."""
        if not self.is_cut(process):
            for wire in self._wires_of(process):
                wire.drop()
        if not self._rtp:
            for channel in list(self.channels.values()):
                if channel.media_of is process:
                    self.hang_up(channel, "engine gone")

    def restart(self, seconds: float) -> None:
        """Everything ends."""
        for channel in self.channels.values():
            channel.ended = channel.ended or "asterisk"
            if channel.media_of is not None:
                self.lost_media(channel.media_of, channel.id)
        self._forget_all()
        self.is_up = False
        for wire in list(self._sockets):
            wire.drop()
        later(seconds, setattr, self, "is_up", True)

    def call(self, name: str) -> Channel:
        """A caller comes."""
        channel = self.callers[name] = self.channels[name] = Channel(name)
        listed = self.variables.get(f"CORDBOARD_ENGINES_{FAMILY}", "").split(",")
        room = {}
        for app in listed:
            says = self.variables.get(f"CORDBOARD_ROOM_{app}", "").partition("|")[0]
            if says and int(says) > 0:
                room[app] = int(says)
        channel.engines = sorted(room, key=lambda app: -room[app])
        self._next(channel)
        return channel

    def _next(self, channel: Channel) -> None:
        while channel.engines:
            app = channel.engines.pop(0)
            channel.variables["CORDBOARD_STATUS"] = ""
            if app in self.wires:
                self._enter(channel, app)
                return
        self.hang_up(channel, "no engine")

    def _enter(self, channel: Channel, app: str, arguments: list[str] | None = None) -> None:
        channel.app = app
        self._tell(app, "StasisStart", channel, args=arguments or [])

    def _place(self, channel: Channel, bridge: str) -> None:
        """Put a channel into a bridge; empty: into none."""
        before, channel.bridge = channel.bridge, bridge
        for kind, each in (("ChannelLeftBridge", before), ("ChannelEnteredBridge", bridge)):
            if each and channel.app:
                self._tell(channel.app, kind, channel, bridge={"id": each})

    def leave(self, channel: Channel) -> None:
        """Leave bridge and application."""
        self._place(channel, "")
        app, channel.app = channel.app, ""
        if app:
            self._tell(app, "StasisEnd", channel)

    def hang_up(self, channel: Channel, why: str) -> None:
        if channel.ended:
            return
        app, channel.ended = channel.app, why
        if app:
            self._tell(app, "ChannelHangupRequest", channel)
        self.channels.pop(channel.id, None)
        self.leave(channel)
        if app:
            self._tell(app, "ChannelDestroyed", channel)
        if channel.media_of is not None:
            self.lost_media(channel.media_of, channel.id)

    def _tell(self, app: str, kind: str, channel: Channel, **more: Any) -> None:
        wire = self.wires.get(app)
        if wire is not None:
            wire.tell({"type": kind, "application": app, "channel": channel.json(), **more})

    def left(self, wire: Wire) -> None:
        if self.wires.get(wire.app) is wire:
            del self.wires[wire.app]

    # The doors

    @asynccontextmanager
    async def connect(
        self, url: str, *, additional_headers: dict[str, str], **_: Any
    ) -> AsyncIterator[Wire]:
        """In place of `websockets.connect`."""
        process = here()
        if self.is_cut(process) or self.stalled_until > asyncio.get_running_loop().time():
            await asyncio.sleep(OPEN_SECONDS)
            raise TimeoutError
        if not self.is_up:
            raise OSError("connection refused")
        await asyncio.sleep(2 * WAY_SECONDS)
        app = parse_qs(urlsplit(url).query)["app"][0]
        pair = base64.b64decode(additional_headers["Authorization"].split()[1]).decode()
        user, _, key = pair.partition(":")
        if self.users.get(user) != key:
            raise InvalidStatus(Response(401, "Unauthorized", Headers()))
        wire = Wire(self, process, app, user, key)
        if (former := self.wires.get(app)) is not None:
            former.drop()
        self.wires[app] = wire
        self._sockets.append(wire)
        try:
            yield wire
        finally:
            wire.abort()

    def handle(self, wire: Wire, text: str) -> None:
        """Do one request of an open websocket."""
        request = json.loads(text)
        query = {each["name"]: each["value"] for each in request.get("query_strings", ())}
        body = json.loads(request["message_body"]) if "message_body" in request else {}
        answer: Any = None
        try:
            if self.users.get(wire.user) != wire.key:
                raise Refused(401)
            path = [unquote(each) for each in request["uri"].split("/")]
            answer = self._do(request["method"], path, query, body, wire)
            status = 200 if answer is not None else 204
        except Refused as error:
            status, answer = error.status, {"message": error.text}
        if request["uri"].rpartition("/")[2] in self.unanswered:
            return
        wire.tell(
            {
                "type": "RESTResponse",
                "request_id": request["request_id"],
                "status_code": status,
                "message_body": "" if answer is None else json.dumps(answer),
            }
        )

    def _do(
        self, method: str, path: list[str], query: dict[str, str], body: Any, wire: Wire
    ) -> Any:
        match path:
            case ["asterisk", "info"]:
                return {"status": {"startup_time": str(self.startup)}}
            case ["asterisk", "variable"]:
                self.variables[query["variable"]] = query["value"]
            case ["asterisk", "config", "dynamic", "res_ari", "user", name]:
                self._change_user(method, name, body)
            case ["applications", *app]:
                return self._of_applications(*app)
            case ["channels", *rest]:
                return self._of_channels(method, rest, query, wire)
            case ["bridges", *rest]:
                return self._of_bridges(method, rest, query)
            case ["playbacks", _]:
                raise Refused(404, "Playback not found")
            case _:
                raise AssertionError(path)
        return None

    def _of_applications(self, app: str = "") -> Any:
        if not app:
            return [self._application(each) for each in self._applications()]
        if app not in self._applications():
            raise Refused(404)
        return self._application(app)

    def _of_channels(self, method: str, path: list[str], query: dict[str, str], wire: Wire) -> Any:
        match (method, *path):
            case ("GET",):
                return [each.json() for each in self.channels.values()]
            case ("POST", "externalMedia"):
                return self._external_media(query, wire.process)
            case ("GET", name):
                return self._channel(name).json()
            case ("DELETE", name):
                self.hang_up(self._channel(name), f"by {wire.process.name}")
            case (_, name, "variable"):
                return self._variable(method, self._channel(name), query)
            case (_, name, command):
                self._command(self._in_stasis(name), command, query)
            case _:
                raise AssertionError((method, path))
        return None

    def _variable(self, method: str, channel: Channel, query: dict[str, str]) -> Any:
        name = query["variable"]
        if method == "POST":
            channel.variables[name] = query["value"]
            return None
        if name not in channel.variables:
            raise Refused(404, "Provided variable was not found")
        return {"value": channel.variables[name]}

    def _command(self, channel: Channel, command: str, query: dict[str, str]) -> None:
        if command == "move":
            later(MOVE_SECONDS, self._move, channel.id, query["app"], query["appArgs"])
        elif command == "continue":
            self._continue(channel)
        elif command == "answer":
            channel.state = "Up"
        else:
            assert command == "moh"

    def _of_bridges(self, method: str, path: list[str], query: dict[str, str]) -> Any:
        if not path:
            return [self._bridge(each) for each in self.bridges]
        name, *command = path
        if method == "POST" and not command:
            self.bridges.add(name)
            return self._bridge(name)
        if name not in self.bridges:
            raise Refused(404, "Bridge not found")
        if command:
            return self._change_bridge(command[0], name, query["channel"])
        self.bridges.discard(name)
        for channel in self.channels.values():
            if channel.bridge == name:
                self._place(channel, "")
        return None

    def _change_bridge(self, command: str, bridge: str, name: str) -> None:
        if name not in self.channels:
            raise Refused(400, "Channel not found")
        channel = self._in_stasis(name, 422)
        if command == "addChannel":
            self._place(channel, bridge)
        elif channel.bridge != bridge:
            raise Refused(422, "Channel not in this bridge")
        else:
            self._place(channel, "")

    def _change_user(self, method: str, name: str, body: Any) -> None:
        if method == "PUT":
            fields = {each["attribute"]: each["value"] for each in body["fields"]}
            self.users[name] = fields["password"]
        elif self.users.pop(name, None) is None:
            raise Refused(404, "no such user")

    def _applications(self) -> list[str]:
        held = {each.app for each in self.channels.values()} - {""}
        return sorted(held | self.wires.keys())

    def _application(self, app: str) -> dict[str, Any]:
        inside = [each.id for each in self.channels.values() if each.app == app]
        return {"name": app, "channel_ids": inside}

    def _bridge(self, name: str) -> dict[str, Any]:
        inside = [each.id for each in self.channels.values() if each.bridge == name]
        return {"id": name, "channels": inside}

    def _channel(self, name: str) -> Channel:
        channel = self.channels.get(name)
        if channel is None:
            raise Refused(404, "Provided channel was not found")
        return channel

    def _in_stasis(self, name: str, status: int = 409) -> Channel:
        channel = self._channel(name)
        if not channel.app:
            raise Refused(status, "Channel not in Stasis application")
        return channel

    def _external_media(self, query: dict[str, str], process: Process) -> Any:
        channel = Channel(query["channelId"], state="Up", media_of=process)
        if query["app"] in self.wires:
            self.channels[channel.id] = channel
            self._enter(channel, query["app"])
            later(WAY_SECONDS, self._begin_sound, channel)
        return channel.json()

    def _begin_sound(self, channel: Channel) -> None:
        process = channel.media_of
        if process is not None and process not in self.cut and not channel.ended:
            self._made_media(process, channel.id)

    def _move(self, name: str, app: str, arguments: str) -> None:
        channel = self.channels.get(name)
        if channel is not None and channel.app and app in self.wires:
            self._tell(channel.app, "StasisEnd", channel)
            self._enter(channel, app, [arguments])  # its bridge stays the same

    def _continue(self, channel: Channel) -> None:
        self.leave(channel)
        if channel.variables.get("CORDBOARD_STATUS"):
            self._next(channel)
        else:
            self.hang_up(channel, "dialplan")
