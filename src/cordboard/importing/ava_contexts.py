"""Contexts and agents of AVA."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from cordboard.config.yaml_document import dotted
from cordboard.importing.ava_files import Installation
from cordboard.importing.ava_keys import CONTEXT_KEYS, LOST_TOOLS, TOOLS, VARIABLES
from cordboard.importing.ava_providers import Providers
from cordboard.importing.ava_tools import Tools
from cordboard.importing.names import Names
from cordboard.importing.placeholders import prompt
from cordboard.importing.result import Imported, Part


def contexts_of(root: Part, found: Installation, result: Imported) -> list[tuple[str, Part]]:
    """Return the agents of the database, or else the contexts of the files."""
    of_files = list(root.parts("contexts"))
    if not found.agents:
        if of_files:
            return of_files
        llm = root.part("llm")
        only = {"prompt": llm.get("prompt"), "greeting": llm.get("initial_greeting")}
        return [("default", Part(only, ("llm",), result))]
    for name, _ in of_files:
        if name not in found.agents:
            reason = "AVA ignores it beside its agents database; Admin UI → Agents imports it"
            result.left.append((f"contexts.{name}", reason))
    agents = found.agents.items()
    return [(slug, Part(agent, ("agents", slug), result)) for slug, agent in agents]


@dataclass(slots=True)
class Contexts:
    """Reads contexts into `result.tree`, when providers and tools are known."""

    root: Part
    result: Imported
    names: Names
    tools: Tools
    providers: Providers
    missing: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Tool and reason → contexts that list it."""

    def read(self, name: str, context: Part) -> None:
        """Read one context."""
        ours = self.names.renamed("context", dotted(context.path), name)
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
            for output in self.tools.http.outputs.get(theirs, ())
        }
        own = {"prompt": context.text("prompt") or context.text("system_prompt")}
        own["greeting"] = context.text("greeting")
        speaker = self.providers.texts.get(context.text("provider"), {})
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
        self._provider_of(ours, context, entry)
        tools = self._tools_of(ours, context)
        if tools:
            entry["tools"] = tools
        if before:
            entry["pre_call"] = [step for _, step in before]
        if after := [step for _, step in self._phase("post_call", context, ours)]:
            entry["post_call"] = after
        self._silence(context, entry)
        self._barge_in(entry)
        failed = self.names.of("destination").get("provider_failure")
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

    def _provider_of(self, name: str, context: Part, entry: dict[str, Any]) -> None:
        wanted = context.text("pipeline") or context.text("provider")
        context.skip(("provider",))
        ours = self.names.of("provider").get(wanted)
        if wanted and ours is None:
            default = self.result.tree["default_provider"]
            reason = f"there is no provider for {wanted}; {default} speaks here"
            self.result.left.append((f"contexts.{name}.provider", reason))
        voice = context.text("voice")
        if voice:
            own = self.providers.with_voice(
                ours or self.result.tree["default_provider"], voice, name
            )
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
            if tool in self.tools.off or tool in without:
                self.missing.setdefault((tool, "switched off"), []).append(name)
            elif tool in LOST_TOOLS:
                self.missing.setdefault((tool, LOST_TOOLS[tool]), []).append(name)
            elif tool in self.tools.http.names:
                ours[self.tools.http.names[tool]] = None
            elif tool in TOOLS:
                ours[TOOLS[tool]] = None
                if tool in ("attended_transfer", "leave_voicemail"):
                    self.result.changed.append((place, "a blind transfer, to a destination"))
            else:
                ours[tool] = None  # of an MCP server; the check of the result knows
        return list(ours)

    def _everywhere(self, phase: str) -> list[str]:
        return [
            name for name in self.tools.http.everywhere if self.tools.http.phases[name] == phase
        ]

    def _phase(self, phase: str, context: Part, ours: str) -> list[tuple[str, dict[str, Any]]]:
        """Return AVA's tool and our step, for all that run before or after a context's calls."""
        key = f"disable_global_{phase}_tools"
        off = context.get(key)
        everywhere = [] if off is True else self._everywhere(phase)
        without = off if isinstance(off, list) else []
        names = [*context.names(f"{phase}_tools"), *everywhere]
        steps = []
        for name in dict.fromkeys(name for name in names if name not in without):
            if self.tools.http.phases.get(name) != phase:
                reason = "switched off" if name in self.tools.off else "there is no such HTTP tool"
                self.result.left.append((f"contexts.{ours}.{phase}: {name}", reason))
                continue
            step: dict[str, Any] = {"tool": self.tools.http.names[name]}
            if phase == "pre_call":
                step["save_as"] = self.tools.http.names[name]
            elif self.tools.http.arguments[name]:
                step["arguments"] = self.tools.http.arguments[name]
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
