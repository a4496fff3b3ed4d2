"""`tools:`: tools of five kinds in one catalogue, each under its exposed name.

    tools:
      transfer: {destinations: {sales: {target: "6001"}}}   # `kind: builtin` is understood
      weather: {kind: mcp, server: aviation_atis, tool: get_atis}
      find_customer: {kind: http, url: "https://crm.example/customers/{number}"}
      convert: {kind: python, function: "my_tools:convert"}
      book: {kind: workflow, steps: [...]}

The sections of `http` and `workflow` have files of their own beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from cordboard.config.alarms import AlarmEmail
from cordboard.config.chosen import Chosen
from cordboard.config.conversation import KEY_OR_NONE
from cordboard.config.hours import ZonedHours
from cordboard.config.patterns import (
    DEVICE,
    DIALPLAN_CLASS,
    DIALPLAN_CONTEXT,
    ENDPOINT,
    ENTRY_POINT,
    EXTENSION,
    Name,
    ServerId,
    ToolName,
)
from cordboard.config.section import Section
from cordboard.config.sections.tool import ToolRules, ToolSection
from cordboard.config.tools.http_tool import HttpTool
from cordboard.config.tools.messages import CallbackSettings, MessageSettings
from cordboard.config.tools.workflow_tool import WorkflowTool
from cordboard.config.trunks import TrunkName, trunk_of_endpoint

BUILTIN_TOOLS: Mapping[str, str] = {
    "hangup_call": "Ends the call when the agent has finished speaking.",
    "transfer": "Passes the caller on to one of `tools.transfer.destinations`.",
    "collect_digits": "Has the caller enter digits on the keypad; no agent receives secret ones.",
    "send_digits": "Presses keys for the far side.",
    "pause_recording": "Replaces the recording of the call by silence for a while.",
    "resume_recording": "Continues the recording.",
    "take_message": "Takes a message of the caller, and passes it on.",
    "request_callback": "Notes that the caller wants to be called back.",
    "send_email": "Sends an e-mail to fixed addresses; also a step after calls.",
}
"""The tools that need no server, with a description for the documentation."""
NEED_A_CALLER = BUILTIN_TOOLS.keys() - {"send_email"}
"""Those that no step before or after a call can run."""


class PythonTool(ToolSection):
    """A tool that is a Python function: its typed signature makes the schema of the arguments, its
    docstring the description."""

    kind: Literal["python"] = Field(description="The kind of tool.")
    function: str = Field(
        pattern=ENTRY_POINT,
        description="`module:function`, imported from the packages of the engine's Python.",
    )


class McpTool(ToolRules):
    """One offered tool of a server, with its name and speech. Rules that are left out come from
    the server's `defaults`."""

    name: str = Field(description="The tool's name as the server gives it.")
    expose_as: ToolName | None = Field(None, description="Default: mcp_{server}_{tool}.")


class McpToolEntry(ToolSection):
    """A tool of an MCP server; as if it stood under the server's `tools:` with this name."""

    kind: Literal["mcp"] = Field(description="The kind of tool.")
    server: ServerId = Field(description="Name under `mcp.servers`.")
    tool: str = Field(min_length=1, description="The tool's name as the server gives it.")


BRIEFING = (
    "Hello, this is the assistant on the phone. I have a caller for you. {reason} "
    "Press 1 to take the call, or 2 to decline it."
)
BRIEFING_AGAIN = "Press 1 to take the call, or 2 to decline it."
INTRODUCTION = "You are now connected."
LONGEST_RETURN_MS = 4 * 3_600_000
"""Longest `return_within_ms`."""
DIALPLAN_ONLY = ("queue", "ring_group", "voicemail", "dialplan", "refer")
"""Types that only the dialplan knows: no human of theirs can be asked first."""


class TransferDestination(Section):
    """One destination for transfers by the agent: docs/transfers.md."""

    type: Literal[
        "extension", "number", "queue", "ring_group", "voicemail", "dialplan", "refer"
    ] = Field("extension", description="Kind of `target`.")
    target: str = Field(
        pattern=EXTENSION,
        description="Extension of the dialplan: of a phone, a number, a queue, a voicemail.",
    )
    context: str = Field("default", pattern=DIALPLAN_CONTEXT, description="Dialplan context.")
    priority: int = Field(1, ge=1, description="Dialplan priority.")
    description: str = Field("", description="Description for the agent.")
    mode: Literal["blind", "attended", "warm"] = Field(
        "blind",
        description="`blind` = the caller is sent there. `attended` = the caller waits with music, "
        "the agent asks the human, and connects both. `warm` = the same, and the agent introduces "
        "them to each other. Only for `extension` and `number`.",
    )
    hours: ZonedHours | None = Field(
        None, description="When it is open; left out: always. The caller is not sent there else."
    )
    devices: tuple[Annotated[str, Field(pattern=DEVICE)], ...] = Field(
        (),
        max_length=8,
        description="Devices that must be free, such as `PJSIP/6001` and `Custom:DND6001`. A state "
        "that cannot be seen counts as not free.",
    )
    returns: bool = Field(
        False,
        description="For `blind`: the dialplan may hand the caller back by "
        "`Stasis(cordboard,return,KIND,STATUS)`, and the same conversation goes on.",
    )
    return_within_ms: int = Field(
        1_800_000, ge=1_000, le=LONGEST_RETURN_MS, description="For `returns`: the time for that."
    )
    endpoint: str = Field(
        "",
        pattern=ENDPOINT,
        description="For `attended` and `warm`: the channel to dial, such as `PJSIP/6001` or "
        "`PJSIP/+4722334455@trunk`. Not `Local/...`: its sound may pass in one direction only.",
    )
    trunk: TrunkName | None = Field(
        None,
        description="Trunk by which it leaves, such as `PJSIP/acme`, for the caps and prices of "
        "`firewall`. Left out: that of `endpoint`, if there is one.",
    )
    ring_ms: int = Field(
        25_000, ge=3_000, le=120_000, description="How long the human's phone rings."
    )
    briefing: str = Field(
        BRIEFING,
        max_length=500,
        description="Said to the human; {reason} is what the caller wants, in the agent's words "
        "(empty when an operator takes the call over).",
    )
    briefing_ms: int = Field(
        45_000, ge=5_000, le=300_000, description="Time from the answer to the human's decision."
    )
    accept: Literal["key", "key_or_words"] = Field(
        "key",
        description="`key` = only the key 1 takes the call, so a voicemail never does. "
        "`key_or_words` = a clear yes does too.",
    )
    introduction: str = Field(
        INTRODUCTION, max_length=300, description="For `warm`: said to both of them."
    )
    return_on_hangup: bool = Field(
        False,
        description="The caller comes back to the agent when the human hangs up. Otherwise the "
        "call ends then.",
    )
    cancel_key: str = Field(
        "*",
        pattern=KEY_OR_NONE,
        description="Key by which the waiting caller comes back; empty = none.",
    )
    takeover: bool = Field(
        False,
        description="An operator may take live calls over to this phone, or join them from it, by "
        "the admin port. Needs `endpoint`; who answers is asked as for `attended` (`briefing`, "
        "`accept`; to join needs the key).",
    )
    music: str = Field("", pattern=DIALPLAN_CLASS, description="Music class; empty: the default.")
    record: bool = Field(
        False,
        description="A recorded call is recorded while caller and human talk, too. Otherwise the "
        "recording pauses until the caller is back with the agent.",
    )

    @model_validator(mode="after")
    def _possible(self) -> TransferDestination:
        if self.mode != "blind" and self.type in DIALPLAN_ONLY:
            raise ValueError(f"mode: a {self.type} can only be blind")
        if self.mode != "blind" and (not self.endpoint or self.endpoint.startswith("Local/")):
            raise ValueError(f"endpoint: {self.mode} needs the phone's channel, such as PJSIP/6001")
        if self.takeover and (not self.endpoint or self.endpoint.startswith("Local/")):
            raise ValueError("endpoint: takeover needs the phone's channel, such as PJSIP/6001")
        if self.returns and self.mode != "blind":
            raise ValueError("returns: only of mode blind; see return_on_hangup")
        return self

    @property
    def leaves_by(self) -> str:
        """The trunk by which it leaves; empty if none is known."""
        return self.trunk if self.trunk is not None else trunk_of_endpoint(self.endpoint)


class BuiltinTool(ToolSection):
    """A built-in tool of the engine; its name selects the function."""

    kind: Literal["builtin"] = Field("builtin", description="The kind of tool.")
    destinations: dict[Name, TransferDestination] = Field(
        default_factory=dict,
        description="For `transfer`: the only places to which a call can be transferred.",
    )
    message: MessageSettings | None = Field(
        None, description="For `take_message`: how messages are taken, and who gets them."
    )
    callback: CallbackSettings | None = Field(
        None, description="For `request_callback`: when and how people are called back."
    )
    email: AlarmEmail | None = Field(
        None, description="For `send_email`: the server and the addresses."
    )


TOOLS = Chosen(
    "tool",
    (BuiltinTool, McpToolEntry, HttpTool, PythonTool, WorkflowTool),
    key="kind",
    about="A tool that a context may list under this name; `kind` is its kind.",
)
ToolEntry: TypeAlias = Annotated[ToolSection, TOOLS]
"""One tool under `tools:`."""


_GROUP = ".*"


def group_server(name: str) -> str | None:
    """Return the server of `server.*` in a list of tools; None for the name of a tool."""
    return name.removesuffix(_GROUP) if name.endswith(_GROUP) else None


def tools_of_servers(tools: Mapping[str, ToolEntry]) -> dict[str, tuple[McpTool, ...]]:
    """Return the tools of `kind: mcp` by their servers, as they would stand under the servers'
    `tools:`, in the order of the file."""
    found: dict[str, tuple[McpTool, ...]] = {}
    for name, entry in tools.items():
        if isinstance(entry, McpToolEntry):
            rules = {key: getattr(entry, key) for key in ToolRules.model_fields}
            tool = McpTool.model_validate({"name": entry.tool, "expose_as": name} | rules)
            found[entry.server] = (*found.get(entry.server, ()), tool)
    return found
