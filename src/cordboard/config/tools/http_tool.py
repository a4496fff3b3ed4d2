"""A tool of `kind: http`: one request to a web service, and the selection of its answer's data.

    find_customer:
      kind: http
      description: "Finds a customer by number."
      url: "https://crm.example.com/customers/{number}"
      headers: {Authorization: "Bearer ${CRM_TOKEN}"}
      parameters: {number: {type: string, pattern: "^[0-9]{4,10}$"}}
      result: {name: customer.name, orders: customer.orders}
      speech_template: "{name} has {orders:number} {orders:plural(order,orders)}."

Texts are templates (`cordboard.config.templates`) over the arguments, and over the variables of
the call as `{call.caller_number}`. `cordboard.tools.http.request` builds the request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import jsonschema_rs
from pydantic import AfterValidator, Field, SecretStr, model_validator

from cordboard.config.patterns import HEADER_NAME, HEADER_VALUE, MEDIA_TYPE
from cordboard.config.sections.tool import ToolSection
from cordboard.config.templates import DataTemplateText, JsonTemplateValue, PathText
from cordboard.config.tools.parameters import parameters_schema
from cordboard.config.url_template import UrlTemplateText

HttpMethod: TypeAlias = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
CALL = "call"
"""Name of the call's variables beside the arguments."""
SECRET = "secret"  # noqa: S105 - the word, not one
"""Mark of a parameter; not a JSON Schema keyword."""

_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_HOST_PATTERN = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:.]+")
_OWN_HEADERS = {
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "idempotency-key",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-cordboard-signature",
    "x-cordboard-timestamp",
}
"""Headers set by the engine; other values would break the request, or reach another host."""


def _host_pattern(text: str) -> str:
    host = text.strip().lower().rstrip(".")
    if not _HOST_PATTERN.fullmatch(host):
        raise ValueError("expected a host such as api.example.com, or *.example.com for all of it")
    return host


def _status_code(code: int) -> int:
    if not 200 <= code <= 599:
        raise ValueError("expected a status code from 200 to 599")
    return code


Scalar: TypeAlias = bool | int | float | DataTemplateText
HostPattern = Annotated[str, AfterValidator(_host_pattern)]
StatusCode = Annotated[int, AfterValidator(_status_code)]


class HttpTool(ToolSection):
    """A tool that makes one HTTP request."""

    kind: Literal["http"] = Field(description="The kind of tool.")
    method: HttpMethod = Field("GET", description="The method of the request.")
    url: UrlTemplateText = Field(
        description="Address: https:// or http://, with {placeholders} in its path and query.",
    )
    query: dict[str, Scalar] = Field(
        default_factory=dict,
        description="Additions to the URL's query; an entry without a value is left out, a list "
        "becomes several.",
    )
    headers: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Headers that are sent unchanged, including braces; never logged.",
    )
    header_templates: dict[str, DataTemplateText] = Field(
        default_factory=dict, description="Headers with {placeholders}; not for secrets."
    )
    body: JsonTemplateValue = Field(
        None,
        description="JSON that is sent. Its texts may have {placeholders}; a text that is only a "
        "placeholder keeps the type of its value, and is left out without one.",
    )
    form: dict[str, Scalar] | None = Field(
        None, description="Instead of `body`: fields of a form (application/x-www-form-urlencoded)."
    )
    text: DataTemplateText | None = Field(
        None,
        description="Instead of `body`: a text. Values are escaped for XML, HTML or JSON, by "
        "`content_type`; in any other text they are inserted unchanged.",
    )
    content_type: str = Field(
        "text/plain; charset=utf-8",
        pattern=MEDIA_TYPE,
        description="The media type of `text`.",
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict,
        description="Its arguments: name → JSON Schema, required unless it has a `default` or "
        "`required: false`; or one whole schema of `type: object`. `secret: true` in one keeps its "
        "values out of every record.",
    )
    allow_private: bool = Field(
        False,
        description="Allow addresses that are not public: this machine, your own network. "
        "Link-local addresses and metadata services never are.",
    )
    allow_hosts: tuple[HostPattern, ...] = Field(
        (),
        description="Hosts that a {placeholder} in the URL's host, or a redirect, may lead to "
        "besides the URL's own; `*.example.com` for all under it.",
    )
    follow_redirects: int = Field(
        3,
        ge=0,
        le=10,
        description="Highest number of redirects in a row; 0 = none. Never to another host that "
        "`allow_hosts` does not name.",
    )
    max_bytes: int = Field(
        262_144, ge=1_024, le=4_194_304, description="Longest answer in bytes, after decompression."
    )
    success: tuple[StatusCode, ...] = Field(
        (), description="The status codes that are a success. Default: 200 to 299."
    )
    result: dict[str, PathText] = Field(
        default_factory=dict,
        description="Parts of the answer for the result: names, and their paths in the JSON. "
        "Default: all of it.",
    )
    error_field: PathText | None = Field(
        None, description="Path to a message for the caller in the JSON of a refusal."
    )
    sign_with: SecretStr | None = Field(
        None,
        min_length=8,
        description="Secret for the signature of the request (HMAC-SHA256): docs/tools/http.md.",
    )

    @model_validator(mode="after")
    def _one_request(self) -> HttpTool:
        bodies = [
            name
            for name in ("body", "form", "text")
            if name in self.model_fields_set and getattr(self, name) is not None
        ]
        if len(bodies) > 1:
            raise ValueError(f"{bodies[1]}: there is `{bodies[0]}` already; a request has one body")
        if bodies and self.method in ("GET", "HEAD"):
            raise ValueError(f"{bodies[0]}: a {self.method} has no body; use `query`, or a POST")
        for key, headers in (
            ("headers", self.headers),
            ("header_templates", self.header_templates),
        ):
            for name in headers:
                if not HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
                    raise ValueError(f"{key}.{name}: it is not a header, or the engine's own")
        for name, value in self.headers.items():
            if not HEADER_VALUE.fullmatch(value.get_secret_value()):
                raise ValueError(f"headers.{name}: it has characters that HTTP does not allow")
        return self

    @model_validator(mode="after")
    def _arguments(self) -> HttpTool:
        for name, schema in self.properties.items():
            if not _ARGUMENT.fullmatch(name) or name == CALL:
                raise ValueError(
                    f"parameters.{name}: expected a name of letters, digits, - and _, not `{CALL}`"
                )
            if not isinstance(schema, dict):
                raise ValueError(
                    f"parameters.{name}: expected a JSON Schema such as {{type: string}}"
                )
            if not isinstance(schema.get(SECRET, False), bool):
                raise ValueError(f"parameters.{name}: expected true or false for `{SECRET}`")
        try:
            jsonschema_rs.meta.validate(self.schema_of_arguments)
        except jsonschema_rs.ValidationError as error:
            place = ".".join(map(str, error.instance_path))
            raise ValueError(f"parameters: {place}: not a JSON Schema: {error.message}") from None
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise ValueError(f"parameters: not a JSON Schema: {error}") from None
        return self

    @property
    def has_whole_schema(self) -> bool:
        """True if `parameters` is one schema, not a mapping of names to schemas."""
        return self.parameters.get("type") == "object"

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schemas of the arguments by name, as written."""
        if not self.has_whole_schema:
            return self.parameters
        properties = self.parameters.get("properties", {})
        return properties if isinstance(properties, dict) else {}

    @property
    def schema_of_arguments(self) -> dict[str, Any]:
        """Return one JSON Schema, without our own keywords."""
        whole = (
            dict(self.parameters) if self.has_whole_schema else parameters_schema(self.properties)
        )
        properties = whole.get("properties")
        if isinstance(properties, dict):
            whole["properties"] = {
                name: {key: value for key, value in schema.items() if key != SECRET}
                if isinstance(schema, dict)
                else schema
                for name, schema in properties.items()
            }
        return whole

    @property
    def secrets(self) -> frozenset[str]:
        """The arguments that are marked as secret."""
        return frozenset(name for name, schema in self.properties.items() if schema.get(SECRET))
