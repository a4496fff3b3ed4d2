"""An AVA installation as our configuration, with what has no counterpart and the dialplan.

Pure: `import_ava` takes what `ava_files` has read. Facts about AVA are from its source at v7.5.4.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cordboard.config.yaml_document import dotted
from cordboard.importing.ava_files import Installation
from cordboard.importing.ava_http import PHASES, HttpTools, read_http_tool
from cordboard.importing.ava_keys import (
    CONTEXT_KEYS,
    LOST_TOOLS,
    MCP_DEFAULT_KEYS,
    MCP_RESTART_KEYS,
    MCP_SERVER_KEYS,
    MCP_TOOL_KEYS,
    MEDIA,
    NOT_TOOLS,
    SECTIONS,
    TOOLS,
    VARIABLES,
)
from cordboard.importing.ava_providers import Providers
from cordboard.importing.placeholders import prompt
from cordboard.importing.result import Imported, Part

_ILLEGAL: Mapping[str, tuple[str, int]] = {
    "context": (r"[^a-z0-9_-]+", 63),
    "provider": (r"[^a-z0-9_-]+", 63),
    "destination": (r"[^a-z0-9_-]+", 63),
    "server": (r"[^a-z0-9_]+", 41),
    "tool": (r"[^a-z0-9_]+", 64),
}
"""Kind of name → characters that it may not have, and its greatest length."""
_APPLICATION = re.compile(r"(?i)stasis\([^,)]*")
_CHOICE = re.compile(r"(?i)set\(_{0,2}(AI_AGENT|AI_CONTEXT|AI_PROVIDER|AI_AUDIO_PROFILE)=([^)]*)\)")
_COMMON_DIALPLAN = """\
[cordboard]
exten => s,1,Stasis(cordboard)
 same => n,GotoIf($["${STASISSTATUS}" = "FAILED"]?closed)
 same => n,Hangup()
 same => n(closed),Answer()
 same => n,Playback(vm-nobodyavail)
 same => n,Hangup()
"""
_MODULE = "src.mcp_servers."


def import_ava(found: Installation) -> Imported:
    """Translate an installation. Never raises for what the files hold."""
    work = _Import(Part(found.tree, (), result := Imported()), found, result)
    work.everything()
    return result


@dataclass(slots=True)
class _Import:
    root: Part
    found: Installation
    result: Imported
    names: dict[str, dict[str, str]] = field(default_factory=dict)
    """Kind → AVA's name → ours."""
    http: HttpTools = field(default_factory=HttpTools)
    off: set[str] = field(default_factory=set)
    """Tools that AVA has switched off."""
    missing: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Tool and reason → contexts that list it."""

    def everything(self) -> None:
        """Fill `result`, in the order of its file."""
        tree = self.result.tree
        tree |= {"default_context": "", "default_provider": ""}
        self._telephony()
        tree |= {"providers": {}, "contexts": {}, "tools": {}, "mcp": {"enabled": True}}
        contexts = self._contexts_of_both()
        names, variables = self._of("provider"), self.found.variables
        providers = Providers(self.root, self.result, self._renamed, names, variables)
        used = {context.text(key) for _, context in contexts for key in ("provider", "pipeline")}
        used |= {found[2].strip() for found in _CHOICE.finditer(self.found.dialplan)}
        default = self.root.text("default_provider")
        providers.read(used | {default})
        for key in ("providers", "pipelines"):
            self.root.skip((key,))
        self._defaults(default)
        self._mcp()
        self._tools()
        for name, context in contexts:
            self._context(name, context, providers)
        for (tool, reason), names_of in self.missing.items():
            self.result.left.append((f"tool {tool} (of {', '.join(names_of)})", reason))
        self._default_context()
        if not tree["tools"]:
            del tree["tools"]
        if not tree["mcp"].get("servers"):
            del tree["mcp"]
        for key, reason in SECTIONS.items():
            self.root.leave(key, reason)
        llm = self.root.part("llm")
        llm.skip(("prompt", "initial_greeting"))
        llm.rest()
        self.root.skip(("contexts",))
        self.root.rest()
        self.result.left += [(line, "AVA takes the last one") for line in self.found.duplicates]
        self.result.left += [
            (f"agent {slug}", "switched off in the database") for slug in self.found.inactive
        ]
        self.result.dialplan = self._dialplan()

    # --- names ---------------------------------------------------------------------------

    def _of(self, kind: str) -> dict[str, str]:
        return self.names.setdefault(kind, {})

    def _renamed(self, kind: str, place: str, name: str) -> str:
        """Return a free name of ours for a name of theirs, and report a change."""
        illegal, longest = _ILLEGAL[kind]
        plain = re.sub(illegal, "_", name.strip().lower()).strip("_-") or kind
        plain = plain if plain[0].isalpha() else f"{kind[0]}_{plain}"
        if kind in ("server", "tool"):
            plain = re.sub("_+", "_", plain)
        plain = plain[:longest]
        new, number = plain, 2
        taken = set(self._of(kind).values())
        while new in taken:
            new = f"{plain[: longest - len(str(number)) - 1]}_{number}"
            number += 1
        if new != name:
            self.result.changed.append((place, f"the {kind} {name} is called {new}"))
        self._of(kind)[name] = new
        return new

    # --- the engine ----------------------------------------------------------------------

    def _telephony(self) -> None:
        transport = self.root.text("audio_transport").lower() or "audiosocket"
        media = MEDIA.get(transport, "audiosocket")
        asterisk = self.root.part("asterisk")
        self.result.tree["asterisk"] = {
            "url": "${ASTERISK_ARI_SCHEME:-http}://${ASTERISK_HOST:-127.0.0.1}"
            ":${ASTERISK_ARI_PORT:-8088}",
            "username": "${ASTERISK_ARI_USERNAME:-asterisk}",
            "password": "${ASTERISK_ARI_PASSWORD}",
            "app": "cordboard",
            "media": media,
        }
        words = "The variables of AVA's .env. Its application stays free, so both can run at once."
        self.result.comment(("asterisk",), words)
        asterisk.skip(("app_name",))
        asterisk.rest("the engine keeps and restores the connection by itself")
        socket = self.root.part("audiosocket")
        found = socket.copy(("host", "port", "advertise_host"))
        if (variable := "AUDIOSOCKET_ADVERTISE_HOST") in self.found.variables:
            found["advertise_host"] = f"${{{variable}:-127.0.0.1}}"
        if found:
            self.result.tree["audiosocket"] = found
        codec = socket.text("format")
        external = self.root.part("external_media")
        if media == "rtp":
            rtp = external.copy({"rtp_host": "host", "advertise_host": "advertise_host"})
            if (variable := "EXTERNAL_MEDIA_ADVERTISE_HOST") in self.found.variables:
                rtp["advertise_host"] = f"${{{variable}:-127.0.0.1}}"
            first, _, last = external.text("port_range").partition(":")
            if first.isdecimal() and last.isdecimal() and len(first + last) < 12:
                rtp |= {"first_port": int(first), "last_port": int(last)}
            self.result.tree["rtp"] = rtp
            codec = external.text("codec")
            external.skip(("direction", "format", "rtp_port", "sample_rate"))
            external.rest("each call's port takes packets from its own channel only")
        if codec in ("ulaw", "slin16") and (codec == "slin16") == (media == "audiosocket"):
            self.result.tree["asterisk"]["codec"] = codec
        socket.skip(("format",))
        socket.rest()
        health = self.root.part("health")
        if copied := health.copy(("host", "port")):
            self.result.tree["health"] = copied
        health.rest()
        self.root.skip(("external_media",))
        self._profiles()

    def _profiles(self) -> None:
        profiles = self.root.part("profiles")
        default = profiles.text("default")
        names = [name for name, _ in profiles.parts() if name != "default"]
        if names:
            reason = "formats are negotiated with Asterisk and the provider for each call; "
            reason += "`asterisk.codec` fixes the line's"
            self.result.left.append((f"profiles ({', '.join(names)}; default {default})", reason))

    def _defaults(self, default: str) -> None:
        """Choose the provider of contexts that name none: an unknown one is a pipeline's name."""
        tree, known = self.result.tree, self._of("provider")
        active = self.root.text("active_pipeline")
        if not tree["providers"]:
            tree["providers"]["local"] = {"type": "pipeline"}
            self.result.comment(("providers", "local"), "The offline agent: no other was found.")
            known["local"] = "local"
        ours = known.get(default) or known.get(active) or next(iter(tree["providers"]))
        if default and default not in known:
            self.result.left.append(("default_provider", f"there is no {default}; {ours} here"))
        tree["default_provider"] = ours

    # --- tools ---------------------------------------------------------------------------

    def _mcp(self) -> None:
        mcp = self.root.part("mcp")
        self.result.tree["mcp"]["enabled"] = mcp.truth("enabled", default=False)
        servers: dict[str, Any] = {}
        for name, server in mcp.parts("servers"):
            ours = self._renamed("server", f"mcp.servers.{name}", name)
            servers[ours] = entry = server.copy(MCP_SERVER_KEYS)
            for key, keys in (("restart", MCP_RESTART_KEYS), ("defaults", MCP_DEFAULT_KEYS)):
                part = server.part(key)
                if copied := part.copy(keys):
                    entry[key] = copied
                part.rest()
            tools = []
            for tool in server.list_of_parts("tools"):
                tools.append(tool.copy(MCP_TOOL_KEYS))
                tool.rest()
            if tools:
                entry["tools"] = tools
            server.rest()
            self._own_server(ours, entry)
            self.result.taken.append(f"mcp.servers.{name} → mcp.servers.{ours}")
        mcp.rest()
        self.result.tree["mcp"]["servers"] = servers
        if servers:
            words = "AVA gives each server its whole environment; here it gets only what `env` says"
            self.result.changed.append(("mcp.servers", words))

    def _own_server(self, name: str, entry: dict[str, Any]) -> None:
        """Commands inside AVA's own source need another program, or AVA's folder."""
        command: Any = entry.get("command")
        place = f"mcp.servers.{name}.command"
        for index, word in enumerate(command if isinstance(command, list) else ()):
            if word == f"{_MODULE}aviation_atis_server":
                command[index] = "cordboard.mcp_servers.aviation_atis"
                words = "our own server of this kind; check its --config (docs/aviation-atis.md)"
                self.result.changed.append((place, words))
            elif isinstance(word, str) and word.startswith(_MODULE):
                words = f"{word} is in AVA's source: set `cwd` to AVA's folder, or replace it"
                self.result.changed.append((place, words))

    def _tools(self) -> None:
        tools = self.root.part("tools")
        for key, reason in NOT_TOOLS.items():
            tools.leave(key, reason)
        if not tools.truth("enabled", default=True):
            self.off |= {*TOOLS, *LOST_TOOLS}
        self._destinations(tools)
        inside = self.root.part("in_call_tools")
        for section, part, default in (
            ("tools", tools, ""),
            ("in_call_tools", inside, "in_call"),
        ):
            for name, tool in part.parts():
                phase = tool.text("kind") in PHASES or bool(default)
                if not tool.truth("enabled", default=True):
                    self.off.add(name)
                    if phase:
                        self.result.left.append((f"{section}.{name}", "switched off"))
                elif phase:
                    ours = self._renamed("tool", f"{section}.{name}", name)
                    read_http_tool(name, tool, ours, self.http, self.result, default)
                    self.result.comment(("tools", ours), f"From {section}.{name}.")
                    self.result.taken.append(f"{section}.{name} → tools.{ours} (http)")
                else:
                    reason = LOST_TOOLS.get(name, "unknown to this importer; see docs/from-ava.md")
                    self.result.left.append((f"{section}.{name}", reason))
        self.root.skip(("tools", "in_call_tools"))

    def _destinations(self, tools: Part) -> None:
        transfer = tools.part("transfer")
        homes = {
            "extension": transfer.text("extension_context") or "from-internal",
            "queue": transfer.text("queue_context") or "ext-queues",
            "ringgroup": transfer.text("ringgroup_context") or "ext-group",
        }
        found: dict[str, Any] = {}
        for name, place in transfer.parts("destinations"):
            kind = place.text("type") or "extension"
            found[self._renamed("destination", f"destinations.{name}", name)] = {
                "type": "extension" if kind == "extension" else "dialplan",
                "target": place.text("target"),
                "context": place.text("dialplan_context") or homes.get(kind, homes["extension"]),
                "description": place.text("description") or name,
            }
            place.skip(("live_agent", "attended_allowed"))
            place.rest("no counterpart in a destination; all transfers are blind")
        if not transfer.truth("enabled", default=True):
            self.off |= {name for name, ours in TOOLS.items() if ours == "transfer"}
        transfer.rest("transfers are made when the agent has finished speaking; all are blind")
        extensions = tools.part("extensions")
        for number, person in extensions.parts("internal"):
            name = person.text("name") or number
            if person.truth("transfer", default=True):
                ours = self._renamed("destination", f"extensions.internal.{number}", name)
                about = person.text("description") or name
                entry = {"target": number, "context": homes["extension"], "description": about}
                found[ours] = {"type": "extension", **entry}
                person.rest("no counterpart in a destination; all transfers are blind")
        extensions.rest()
        voicemail = tools.part("leave_voicemail")
        if not (voicemail.text("extension") and voicemail.truth("enabled", default=True)):
            self.off.add("leave_voicemail")
        else:
            ours = self._renamed("destination", "tools.leave_voicemail", "voicemail")
            target = f"vmu{voicemail.text('extension')}"
            entry = {"target": target, "context": "ext-local", "description": "The voice mailbox"}
            found[ours] = {"type": "dialplan", **entry}
        if self.root.text("on_provider_failure") == "dialplan_redirect":
            extension = self.root.text("provider_failure_redirect_extension") or "s"
            priority = self.root.number("provider_failure_redirect_priority") or 1
            found[self._renamed("destination", "on_provider_failure", "provider_failure")] = {
                "type": "dialplan",
                "target": extension,
                "context": self.root.text("provider_failure_redirect_context"),
                "priority": int(priority),
                "description": "For callers without an agent only",
            }
        for key in ("context", "extension", "priority"):
            self.root.skip((f"provider_failure_redirect_{key}",))
        self.root.skip(("on_provider_failure",))
        if found:
            self.result.tree["tools"]["transfer"] = {"destinations": found}
            self.result.taken.append(f"{len(found)} destinations → tools.transfer.destinations")

    # --- contexts ------------------------------------------------------------------------

    def _contexts_of_both(self) -> list[tuple[str, Part]]:
        """Return the agents of the database, or else the contexts of the files."""
        of_files = list(self.root.parts("contexts"))
        if not self.found.agents:
            if of_files:
                return of_files
            llm = self.root.part("llm")
            only = {"prompt": llm.get("prompt"), "greeting": llm.get("initial_greeting")}
            return [("default", Part(only, ("llm",), self.result))]
        for name, _ in of_files:
            if name not in self.found.agents:
                reason = "AVA ignores it beside its agents database; Admin UI → Agents imports it"
                self.result.left.append((f"contexts.{name}", reason))
        agents = self.found.agents.items()
        return [(slug, Part(agent, ("agents", slug), self.result)) for slug, agent in agents]

    def _context(self, name: str, context: Part, providers: Providers) -> None:
        ours = self._renamed("context", dotted(context.path), name)
        entry: dict[str, Any] = {}
        self.result.tree["contexts"][ours] = entry
        place = f"contexts.{ours}"
        about = [
            context.text(key) for key in ("display_name", "role_label", "description", "notes")
        ]
        words = "; ".join([f"From {dotted(context.path)}", *filter(None, about)])
        self.result.comment(("contexts", ours), f"{words}.")
        before = self._phase("pre_call", context, ours)
        saved = {
            output: f"{step['save_as']}.{output}|"
            for theirs, step in before
            for output in self.http.outputs.get(theirs, ())
        }
        own = {"prompt": context.text("prompt") or context.text("system_prompt")}
        own["greeting"] = context.text("greeting")
        speaker = providers.texts.get(context.text("provider"), {})
        llm = self.root.part("llm")
        last = {"prompt": llm.text("prompt"), "greeting": llm.text("initial_greeting")}
        for key in own:
            text = own[key] or speaker.get(key) or last[key]
            if text:
                entry[key] = prompt(
                    text,
                    {**VARIABLES, **saved},
                    lambda unknown, key=key: self.result.changed.append(  # type: ignore[misc]
                        (f"{place}.{key}", f"{{{unknown}}} is no variable; it stays as it stands")
                    ),
                )
        self._provider_of(ours, context, entry, providers)
        tools = self._tools_of(ours, context)
        if tools:
            entry["tools"] = tools
        if before:
            entry["pre_call"] = [step for _, step in before]
        if after := [step for _, step in self._phase("post_call", context, ours)]:
            entry["post_call"] = after
        self._silence(context, entry)
        self._barge_in(entry)
        failed = self._of("destination").get("provider_failure")
        if failed:
            entry["on_failure"] = failed
        extension = context.text("extension")
        if extension:
            self.result.tree.setdefault("routes", {})[extension] = ours
        for key, reason in CONTEXT_KEYS.items():
            context.leave(key, reason)
        context.skip(("profile",))
        context.rest()
        self.result.taken.append(f"{dotted(context.path)} → contexts.{ours}")

    def _provider_of(
        self, name: str, context: Part, entry: dict[str, Any], providers: Providers
    ) -> None:
        wanted = context.text("pipeline") or context.text("provider")
        context.skip(("provider",))
        ours = self._of("provider").get(wanted)
        if wanted and ours is None:
            default = self.result.tree["default_provider"]
            reason = f"there is no provider for {wanted}; {default} speaks here"
            self.result.left.append((f"contexts.{name}.provider", reason))
        voice = context.text("voice")
        if voice:
            own = providers.with_voice(ours or self.result.tree["default_provider"], voice, name)
            if own is None:
                reason = "this provider has no voice to choose for a context"
                self.result.left.append((f"contexts.{name}.voice", reason))
            ours = own or ours
        if ours:
            entry["provider"] = ours

    def _tools_of(self, name: str, context: Part) -> list[str]:
        """Return our names of the tools in a context's list, without repetitions."""
        wanted = [*context.names("tools"), *context.names("in_call_http_tools")]
        if not context.truth("disable_global_in_call_tools", default=False):
            wanted += self._everywhere("in_call")
        without = context.names("disable_global_in_call_tools")
        ours: dict[str, None] = {}
        for tool in wanted:
            place = f"contexts.{name}.tools: {tool}"
            if tool in self.off or tool in without:
                self.missing.setdefault((tool, "switched off"), []).append(name)
            elif tool in LOST_TOOLS:
                self.missing.setdefault((tool, LOST_TOOLS[tool]), []).append(name)
            elif tool in self.http.names:
                ours[self.http.names[tool]] = None
            elif tool in TOOLS:
                ours[TOOLS[tool]] = None
                if tool in ("attended_transfer", "leave_voicemail"):
                    self.result.changed.append((place, "a blind transfer, to a destination"))
            else:
                ours[tool] = None  # of an MCP server; the check of the result knows
        return list(ours)

    def _everywhere(self, phase: str) -> list[str]:
        return [name for name in self.http.everywhere if self.http.phases[name] == phase]

    def _phase(self, phase: str, context: Part, ours: str) -> list[tuple[str, dict[str, Any]]]:
        """Return AVA's tool and our step, for all that run before or after a context's calls."""
        key = f"disable_global_{phase}_tools"
        off = context.get(key)
        everywhere = [] if off is True else self._everywhere(phase)
        without = off if isinstance(off, list) else []
        names = [*context.names(f"{phase}_tools"), *everywhere]
        steps = []
        for name in dict.fromkeys(name for name in names if name not in without):
            if self.http.phases.get(name) != phase:
                reason = "switched off" if name in self.off else "there is no such HTTP tool"
                self.result.left.append((f"contexts.{ours}.{phase}: {name}", reason))
                continue
            step: dict[str, Any] = {"tool": self.http.names[name]}
            if phase == "pre_call":
                step["save_as"] = self.http.names[name]
            elif self.http.arguments[name]:
                step["arguments"] = self.http.arguments[name]
            steps.append((name, step))
        return steps

    def _silence(self, context: Part, entry: dict[str, Any]) -> None:
        everywhere, own = self.root.part("no_input"), context.part("no_input")
        rules = own if "enabled" in own else everywhere
        if not everywhere and not own:
            return
        self._once(everywhere, "grace_timeout_sec", "every re-prompt waits as long")
        self._once(everywhere, "outbound_enabled", "there are no outbound calls")
        if not (rules.truth("enabled", default=True) and rules.truth("inbound_enabled", True)):
            entry["silence"] = {"reprompts": [], "goodbye": ""}
            return
        silence: dict[str, Any] = {}
        seconds = own.number("initial_timeout_sec") or everywhere.number("initial_timeout_sec")
        if seconds:
            silence["caller_after_ms"] = int(min(seconds, 1e6) * 1000)
        times = own.number("max_check_ins")
        times = everywhere.number("max_check_ins") if times is None else times
        words = own.text("check_in_message") or everywhere.text("check_in_message")
        if words:
            silence["reprompts"] = [words] * max(
                0, min(5, math.floor(1 if times is None else times))
            )
        final = own.text("final_message") or everywhere.text("final_message")
        if final:
            silence["goodbye"] = final
        if silence:
            entry["silence"] = silence

    def _once(self, part: Part, key: str, reason: str) -> None:
        line = (dotted((*part.path, key)), reason)
        if key in part and line not in self.result.left:
            self.result.left.append(line)

    def _barge_in(self, entry: dict[str, Any]) -> None:
        barge_in = self.root.part("barge_in")
        if barge_in and not barge_in.truth("enabled", default=True):
            entry["barge_in"] = "off"
        elif barge_in:
            reason = "an interruption is told from echo and murmurs without thresholds; nearest: "
            reason += "`barge_in: greeting_protected`, `turn_taking.overlap_doubt_ms`"
            self._once(self.root, "barge_in", reason)

    def _default_context(self) -> None:
        names = self._of("context")
        default = names.get(self.found.default_agent) or names.get("default")
        first = next(iter(self.result.tree["contexts"]))
        self.result.tree["default_context"] = default or first

    # --- the dialplan --------------------------------------------------------------------

    def _dialplan(self) -> str:
        if self.found.dialplan:
            return "".join(self._changed_lines(self.found.dialplan.splitlines()))
        lines = ["; extensions.conf (FreePBX: extensions_custom.conf)"]
        numbers = {name: number for number, name in self.result.tree.get("routes", {}).items()}
        for name in self.result.tree["contexts"]:
            lines += [f"[cordboard-{name}]", f"exten => s,1,Set(AI_CONTEXT={name})"]
            lines.append(" same => n,Goto(cordboard,s,1)")
            if name in numbers:
                lines.append(f"exten => {numbers[name]},1,Goto(s,1)")
        return "\n".join(lines) + "\n" + _COMMON_DIALPLAN

    def _changed_lines(self, lines: Iterable[str]) -> Iterable[str]:
        kinds = {"AI_AGENT": "context", "AI_CONTEXT": "context", "AI_PROVIDER": "provider"}

        def ours(found: re.Match[str]) -> str:
            variable, name = found[1].upper(), found[2].strip()
            kind = kinds.get(variable)
            if kind is None:
                return f"NoOp({variable} has no counterpart)"
            known = self._of(kind).get(name)
            if known is None and "$" not in name:
                self.result.left.append((f"dialplan: {found[0]}", f"there is no {kind} {name}"))
            return f"Set({'AI_CONTEXT' if kind == 'context' else variable}={known or name})"

        for line in lines:
            yield _APPLICATION.sub("Stasis(cordboard", _CHOICE.sub(ours, line)) + "\n"
