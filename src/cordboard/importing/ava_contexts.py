"""Contexts and agents of AVA."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cordboard.config.yaml_document import dotted
from cordboard.importing.ava_files import Installation
from cordboard.importing.ava_keys import CONTEXT_KEYS, LOST_TOOLS, TOOLS, VARIABLES
from cordboard.importing.ava_providers import Providers
from cordboard.importing.ava_tools import Tools
from cordboard.importing.result import Imported, Part

_PLACEHOLDER = re.compile(
    r"\$\$|\$\{[^}]{0,1000}\}|\{(\s*[A-Za-z_][\w.-]*(?: +[\w.-]+)*\s*(?:\|[^{}|]*)?)\}"
)
"""All that our prompts take for a placeholder, but not `${VARIABLE}`."""


def contexts_of(root: Part, found: Installation, result: Imported) -> list[tuple[str, Part]]:
    """Return the agents of the database, or else the contexts of the files."""
    of_files = list(root.part("contexts").parts())
    if not found.agents:
        llm = root.part("llm")
        only = {"prompt": llm.get("prompt"), "greeting": llm.get("initial_greeting")}
        return of_files or [("default", Part(only, ("llm",), result))]
    reason = "AVA ignores it beside its agents database; Admin UI → Agents imports it"
    others = (name for name, _ in of_files if name not in found.agents)
    result.left += [(f"contexts.{name}", reason) for name in others]
    agents = found.agents.items()
    return [(slug, Part(agent, ("agents", slug), result)) for slug, agent in agents]


@dataclass(slots=True)
class Contexts:
    """Reads contexts into `result.tree`, when providers and tools are known."""

    root: Part
    result: Imported
    tools: Tools
    providers: Providers
    missing: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Tool and reason → contexts that list it."""

    def read(self, name: str, context: Part) -> None:
        """Read one context."""
        origin = dotted(context.path)
        ours = self.result.renamed("context", origin, name)
        about = map(context.text, ("display_name", "role_label", "description", "notes"))
        entry: dict[str, Any] = {}
        self.result.put(
            "contexts", ours, entry, origin, "".join(f"; {one}" for one in about if one)
        )
        before = self._phase("pre_call", context, ours)
        self._texts(ours, context, entry, before)
        self._provider_of(ours, context, entry)
        if tools := self._tools_of(ours, context):
            entry["tools"] = tools
        if before:
            entry["pre_call"] = [step for _, step in before]
        if after := [step for _, step in self._phase("post_call", context, ours)]:
            entry["post_call"] = after
        self._silence(context, entry)
        self._barge_in(entry)
        if failed := self.result.names["destination"].get("provider_failure"):
            entry["on_failure"] = failed
        if extension := context.text("extension"):
            self.result.tree.setdefault("routes", {})[extension] = ours
        context.leave(CONTEXT_KEYS)
        context.skip(("profile", "provider"))
        context.rest()

    def _texts(
        self, name: str, context: Part, entry: dict[str, Any], before: list[tuple[str, Any]]
    ) -> None:
        """Read prompt and greeting: the context's own, its provider's, or those of `llm`."""
        variables = dict(VARIABLES)
        for theirs, step in before:
            for output in self.tools.http[theirs].outputs:
                variables[output] = f"{step['save_as']}.{output}|"
        speaker = self.providers.texts.get(context.text("provider"), {})
        llm = self.root.part("llm")
        for key, others, last in (
            ("prompt", ("system_prompt",), "prompt"),
            ("greeting", (), "initial_greeting"),
        ):
            own = [text for each in (key, *others) if (text := context.text(each))]
            if text := next(iter(own), "") or speaker.get(key, "") or llm.text(last):
                place = f"contexts.{name}.{key}"
                unknown = self._unknown_in(place)
                entry[key] = _with_our_names(text, variables, unknown)

    def _unknown_in(self, place: str) -> Callable[[str], None]:
        def note(name: str) -> None:
            words = f"{{{name}}} is no variable; it stays as it stands"
            self.result.changed.append((place, words))

        return note

    def _provider_of(self, name: str, context: Part, entry: dict[str, Any]) -> None:
        wanted = context.text("pipeline") or context.text("provider")
        ours = self.result.names["provider"].get(wanted)
        default = self.result.tree["default_provider"]
        if wanted and ours is None:
            reason = f"there is no provider for {wanted}; {default} speaks here"
            self.result.left.append((f"contexts.{name}.provider", reason))
        if voice := context.text("voice"):
            own = self.providers.with_voice(ours or default, voice, name)
            if own is None:
                reason = "this provider has no voice to choose for a context"
                self.result.left.append((f"contexts.{name}.voice", reason))
            ours = own or ours
        if ours:
            entry["provider"] = ours

    def _tools_of(self, name: str, context: Part) -> list[str]:
        """Return our names of the tools in a context's list, without repetitions."""
        key = "disable_global_in_call_tools"
        wanted = [*context.names("tools"), *context.names("in_call_http_tools")]
        if not context.truth(key, default=False):
            wanted += self._everywhere("in_call")
        without = context.names(key)
        ours: dict[str, None] = {}
        for tool in wanted:
            off = tool in self.tools.off or tool in without
            if reason := "switched off" if off else LOST_TOOLS.get(tool, ""):
                self.missing.setdefault((tool, reason), []).append(name)
            elif tool in self.tools.http:
                ours[self.tools.http[tool].ours] = None
            else:  # others are of an MCP server; the check of the result knows
                ours[TOOLS.get(tool, tool)] = None
                if tool in ("attended_transfer", "leave_voicemail"):
                    place = f"contexts.{name}.tools: {tool}"
                    self.result.changed.append((place, "a blind transfer, to a destination"))
        return list(ours)

    def _everywhere(self, phase: str) -> list[str]:
        tools = self.tools.http.items()
        return [name for name, tool in tools if tool.everywhere and tool.phase == phase]

    def _phase(self, phase: str, context: Part, ours: str) -> list[tuple[str, dict[str, Any]]]:
        """Return AVA's tool and our step, for all that run before or after a context's calls."""
        off = context.get(f"disable_global_{phase}_tools")
        without = off if isinstance(off, list) else []
        names = [*context.names(f"{phase}_tools")]
        names += [] if off is True else self._everywhere(phase)
        steps = []
        for name in dict.fromkeys(name for name in names if name not in without):
            tool = self.tools.http.get(name)
            if tool is None or tool.phase != phase:
                reason = "switched off" if name in self.tools.off else "there is no such HTTP tool"
                self.result.left.append((f"contexts.{ours}.{phase}: {name}", reason))
                continue
            step: dict[str, Any] = {"tool": tool.ours}
            if phase == "pre_call":
                step["save_as"] = tool.ours
            elif tool.arguments:
                step["arguments"] = tool.arguments
            steps.append((name, step))
        return steps

    def _silence(self, context: Part, entry: dict[str, Any]) -> None:
        everywhere, own = self.root.part("no_input"), context.part("no_input")
        rules = own if "enabled" in own else everywhere
        if not everywhere and not own:
            return
        self._once(everywhere, "grace_timeout_sec", "every re-prompt waits as long")
        self._once(everywhere, "outbound_enabled", "there are no outbound calls")
        if not (rules.truth("enabled") and rules.truth("inbound_enabled")):
            entry["silence"] = {"reprompts": [], "goodbye": ""}
            return
        silence: dict[str, Any] = {}
        if seconds := own.number("initial_timeout_sec") or everywhere.number("initial_timeout_sec"):
            silence["caller_after_ms"] = int(min(seconds, 1e6) * 1000)
        times = [part.number("max_check_ins") for part in (own, everywhere)]
        count = next((number for number in times if number is not None), 1)
        if words := own.text("check_in_message") or everywhere.text("check_in_message"):
            silence["reprompts"] = [words] * max(0, min(5, math.floor(count)))
        if final := own.text("final_message") or everywhere.text("final_message"):
            silence["goodbye"] = final
        if silence:
            entry["silence"] = silence

    def _once(self, part: Part, key: str, reason: str) -> None:
        line = (dotted((*part.path, key)), reason)
        if key in part and line not in self.result.left:
            self.result.left.append(line)

    def _barge_in(self, entry: dict[str, Any]) -> None:
        barge_in = self.root.part("barge_in")
        if barge_in and not barge_in.truth("enabled"):
            entry["barge_in"] = "off"
        elif barge_in:
            reason = "an interruption is told from echo and murmurs without thresholds; nearest: "
            reason += "`barge_in: greeting_protected`, `turn_taking.overlap_doubt_ms`"
            self._once(self.root, "barge_in", reason)


def _with_our_names(text: str, names: Mapping[str, str], unknown: Callable[[str], None]) -> str:
    """Return a prompt with our names; unknown placeholders are literal, as AVA speaks them."""

    def ours(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        if found[1] in names:
            return f"{{{names[found[1]]}}}"
        unknown(found[1])
        return f"{{{found[0]}}}"

    return _PLACEHOLDER.sub(ours, text)
