"""The forms of names in `ai-agent.yaml`, and their descriptions in messages and reference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field

from cordboard.config.conversation import KEY_OR_NONE

_NAME = r"^[a-z][a-z0-9_-]{0,62}$"
_SERVER_ID = r"^[a-z][a-z0-9_]{0,40}$"
_TOOL_NAME = r"^[a-zA-Z_][a-zA-Z0-9_]{0,63}$"
_TOOL_OR_GROUP = (
    r"^([a-zA-Z_][a-zA-Z0-9_]{0,63}|[a-z][a-z0-9_]{0,40}\.\*|mcp:[a-z][a-z0-9_]{0,40}:.{1,128})$"
)
_PARAMETER_NAME = r"^[a-zA-Z_][a-zA-Z0-9_]{0,62}$"
_VARIABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,79}$"
ENTRY_POINT = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"
URL = r"^https?://[^\s/@?#]+(/[^\s?#]*)?$"
PUBLIC_URL = r"^(https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?)?$"
SECURE_URL = r"^(https|wss)://[^\s/@?#]+(/[^\s?#]*)?$"
APP = r"^[A-Za-z0-9_.-]+$"
EXTENSION = r"^[A-Za-z0-9_*#+.-]{1,79}$"
MEDIA_TYPE = r"^[\x20-\x7e]+$"
LANGUAGE = r"^([a-z]{2,3})?$"
VOICE_ID = r"^[A-Za-z0-9_-]{1,64}$"
TIME_OF_DAY = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
HOST_NAME = r"^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?$"
DIAL_ENDPOINT = r"^[A-Za-z0-9]+/[A-Za-z0-9_.+@:{}/-]{1,200}$"
CALLER_ID = r"^(\+?[0-9]{3,15})?$"
CALLER_NAME = r'^[^\x00-\x1f\x7f"<>\\]*$'
DIALPLAN_CONTEXT = r"^[A-Za-z0-9_.-]{1,79}$"
COUNTRY = r"^[A-Z]{2}$"
SENT_KEYS = r"^[0-9*#A-Dw]{1,64}$"
NUMBER_PATTERN = r"^(\+[0-9]{1,15}\*?|[0-9]{1,15}\*?)$"
PLACE = (
    r"^(caller_number|called_number|variables\.[A-Za-z_][A-Za-z0-9_]{0,79}"
    r"|(pre_call|tools)\.[A-Za-z_][A-Za-z0-9_]{0,63}(\.[A-Za-z0-9_-]{1,64}){1,8})$"
)
DIALPLAN_CLASS = r"^[A-Za-z0-9_.-]{0,79}$"
ENDPOINT = r"^([A-Za-z]+/[A-Za-z0-9_*#+.@:/-]{1,120})?$"
DEVICE = r"^[A-Za-z]+[/:][A-Za-z0-9_*#+.@-]{1,80}$"
NODE = r"^[a-z][a-z0-9-]{0,30}$"
BUS_URL = r"^(nats|tls)://[A-Za-z0-9.\[\]:_-]+$"

TRUNK = r"^[A-Za-z0-9]+/[A-Za-z0-9_.+*#-]{1,80}$"

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
HEADER_VALUE = re.compile(r"[\x20-\x7e]*")

API_VERSION = r"^v[0-9]+[a-z0-9]*$"
LANGUAGE_TAG = r"^([a-z]{2,3}(-[A-Za-z0-9]{2,8})*)?$"
HARM_CATEGORY = r"^HARM_CATEGORY_[A-Z_]+$"
CURRENCY = r"^([A-Z]{3})?$"

PATTERNS_IN_WORDS = {
    API_VERSION: "a version such as v1 or v1beta",
    LANGUAGE_TAG: "a language such as en or nb-NO, or nothing",
    HARM_CATEGORY: "a name that begins with HARM_CATEGORY_",
    CURRENCY: "a currency as three capital letters, such as EUR, or nothing",
    _NAME: "a name (lower-case letters, digits, - and _, a letter first, at most 63)",
    _SERVER_ID: "an identifier (lower-case letters, digits and _, a letter first, at most 41)",
    _TOOL_NAME: "a tool name (letters, digits and _, no digit first, at most 64)",
    _TOOL_OR_GROUP: "a tool reference (a tool name: letters, digits and _, no digit first, at most "
    "64; or SERVER.*: all tools of that MCP server; or mcp:SERVER:TOOL: one of them)",
    _PARAMETER_NAME: "a parameter name (letters, digits and _, no digit first, at most 63)",
    _VARIABLE_NAME: "a variable name (letters, digits and _, no digit first, at most 80)",
    ENTRY_POINT: "a function as module:name, such as my_package.tools:convert",
    URL: "a URL such as http://127.0.0.1:8088, without user, password or query",
    SECURE_URL: "a URL that begins with https:// or wss://, without user, password or query",
    PUBLIC_URL: "an address such as https://voice.example.org, without a path, or nothing",
    APP: "an application name (letters, digits, and . - _)",
    EXTENSION: "an extension or queue (letters, digits, and * # + . - _, at most 79)",
    KEY_OR_NONE: "a key (0 to 9, * or #) or nothing",
    MEDIA_TYPE: "a media type such as text/xml; charset=utf-8",
    VOICE_ID: "a voice's id (letters, digits, _ and -, at most 64)",
    LANGUAGE: "a language code such as en, or nothing",
    TIME_OF_DAY: "a time of day as 17:30",
    HOST_NAME: "a host name (letters, digits, and . - _, at most 254)",
    SENT_KEYS: "a key sequence (0 to 9, *, #, A to D, w for a pause; at most 64)",
    COUNTRY: "a country code (two capital letters, such as NO)",
    NUMBER_PATTERN: "a number pattern (a number such as +4722123456, or the beginning of "
    "numbers such as +4782*)",
    PLACE: "a place (caller_number, called_number, variables.NAME, pre_call.NAME.field or "
    "tools.TOOL.field)",
    DIAL_ENDPOINT: "an endpoint of Asterisk such as PJSIP/{number}@trunk",
    CALLER_ID: "a number such as +4722000000, in quotes, or nothing",
    CALLER_NAME: "a name without quotes, < and >",
    DIALPLAN_CONTEXT: "a dialplan context (letters, digits, and . - _, at most 79)",
    DIALPLAN_CLASS: "a class (letters, digits, and . - _, at most 79) or nothing",
    ENDPOINT: "a channel such as PJSIP/6001 or PJSIP/+4722334455@trunk, or nothing",
    TRUNK: "a trunk as technology and endpoint, such as PJSIP/acme",
    DEVICE: "a device such as PJSIP/6001 or Custom:DND6001",
    NODE: "a node name (lower-case letters, digits and -, a letter first, at most 31)",
    BUS_URL: "an address such as nats://10.0.0.5:4222 or tls://nats.example.org:4222, without "
    "user or password",
}
"""Descriptions of the patterns in error messages and the reference."""

Name = Annotated[str, Field(pattern=_NAME)]
"""A name that operators choose: context, provider, destination."""
ServerId = Annotated[str, Field(pattern=_SERVER_ID)]
"""An MCP server's id; part of the exposed tool names, hence no hyphen."""
ToolName = Annotated[str, Field(pattern=_TOOL_NAME)]
"""An exposed tool name, safe for every provider."""
ToolOrGroup = Annotated[str, Field(pattern=_TOOL_OR_GROUP)]
"""An exposed tool name, or `server.*`: all tools of an MCP server."""
ParameterName = Annotated[str, Field(pattern=_PARAMETER_NAME)]
"""A parameter of a tool that the file describes."""
StepId = Annotated[str, Field(pattern=_SERVER_ID)]
"""A step of a workflow; part of the paths to its answer."""
HostName = Annotated[str, Field(pattern=HOST_NAME)]
"""A machine's name, as it stands in the Host header of HTTP requests."""
Port = Annotated[int, Field(ge=0, le=65535)]
"""A TCP port; 0 lets the system choose one."""
VariableName = Annotated[str, Field(pattern=_VARIABLE_NAME)]

MOST_PATH = 1_000
"""Characters of a path: each part of it is examined in turn."""


def checked_path(path: Path) -> Path:
    """Return the path. Raises `ValueError` if no system could open it."""
    if "\0" in str(path) or len(str(path)) > MOST_PATH:
        raise ValueError(f"expected a path of at most {MOST_PATH} characters, without NUL")
    return path
