"""The table of all endpoints, and its documents: OpenAPI 3.1, and the page of permissions.

    python -m cordboard.admin.table admin-ui/openapi.json docs/admin-permissions.md

writes them, and `make admin-types` also the TypeScript types, from the OpenAPI document.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import (
    GenerateJsonSchema,
    JsonSchemaMode,
    JsonSchemaValue,
    models_json_schema,
)
from pydantic_core.core_schema import DataclassSchema, ModelSchema

from cordboard.accounts.rights import GRANTS, ROLES, Permission
from cordboard.admin import (
    browser_calls,
    call_erasure,
    call_notes,
    calls,
    campaigns,
    caps,
    cluster,
    configuration,
    engine,
    history,
    insights,
    live,
    mcp,
    oidc_session,
    outbound,
    people,
    providers,
    recordings,
    secrets,
    session,
    steering,
    support_bundle,
    tools,
    trials,
    views,
)
from cordboard.admin.application import BASE
from cordboard.admin.endpoint import Content, Endpoint, Frames, Open, Scope
from cordboard.attribute_docs import attributes_of

ENDPOINTS: tuple[Endpoint, ...] = (
    *session.ENDPOINTS,
    *oidc_session.ENDPOINTS,
    *people.ENDPOINTS,
    *calls.ENDPOINTS,
    *steering.ENDPOINTS,
    *engine.ENDPOINTS,
    *cluster.ENDPOINTS,
    *support_bundle.ENDPOINTS,
    *mcp.ENDPOINTS,
    *tools.ENDPOINTS,
    *providers.ENDPOINTS,
    *configuration.ENDPOINTS,
    *secrets.ENDPOINTS,
    *browser_calls.ENDPOINTS,
    *insights.ENDPOINTS,
    *history.ENDPOINTS,
    *call_notes.ENDPOINTS,
    *call_erasure.ENDPOINTS,
    *recordings.ENDPOINTS,
    *views.ENDPOINTS,
    *live.ENDPOINTS,
    *trials.ENDPOINTS,
    *outbound.ENDPOINTS,
    *campaigns.ENDPOINTS,
    *caps.ENDPOINTS,
)

_REFERENCES = "#/components/schemas/{model}"
_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "at", "request"],
            "properties": {
                "code": {"type": "string", "description": "A stable word."},
                "message": {"type": "string"},
                "at": {"type": "array", "items": {"type": "object"}},
                "request": {"type": "string", "description": "Also in the log and the audit."},
            },
        }
    },
}


class _DescribedSchema(GenerateJsonSchema):
    """Describes each field by the string below it. pydantic's `use_attribute_docstrings` does the
    same at each start of an engine, which needs none: half of the time to import the port."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        kind = schema["cls"]
        aliases = {name: field.alias or name for name, field in kind.model_fields.items()}
        return self._described(super().model_schema(schema), kind, aliases)

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        return self._described(super().dataclass_schema(schema), schema["cls"], {})

    @staticmethod
    def _described(
        made: JsonSchemaValue, kind: type, aliases: Mapping[str, str]
    ) -> JsonSchemaValue:
        seen: set[str] = set()
        for base in kind.__mro__[:-1]:  # not `object`
            for name, _, text in attributes_of(base) if base is not BaseModel else ():
                described = made.get("properties", {}).get(aliases.get(name, name))
                if text and described is not None and name not in seen:
                    described.setdefault("description", text)
                seen.add(name)
        return made


def openapi() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of all endpoints."""
    taken: list[type[BaseModel]] = [
        kind for each in ENDPOINTS for kind in (each.takes, each.asks) if kind is not None
    ]
    given = [each.gives for each in ENDPOINTS if not isinstance(each.gives, (Content, Frames))]
    for each in ENDPOINTS:
        if each.frames is not None:
            taken += each.frames.receives
            given += each.frames.sends
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        *((kind, "validation") for kind in dict.fromkeys(taken)),
        *((kind, "serialization") for kind in dict.fromkeys(given)),
    ]
    _, schemas = models_json_schema(
        models, ref_template=_REFERENCES, schema_generator=_DescribedSchema
    )
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        operation = _operation(endpoint, schemas["$defs"])
        paths.setdefault(BASE + endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Cordboard's admin port", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": {**schemas["$defs"], "Error": _ERROR},
            "securitySchemes": {
                "session": {"type": "apiKey", "in": "cookie", "name": "__Host-cordboard"},
                "key": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(endpoint: Endpoint, definitions: Mapping[str, Any]) -> dict[str, Any]:
    def of(name: str) -> dict[str, Any]:
        return {"application/json": {"schema": {"$ref": _REFERENCES.format(model=name)}}}

    if isinstance(endpoint.gives, Content):
        content: dict[str, Any] = {kind: {} for kind in endpoint.gives.types}
    elif isinstance(endpoint.gives, Frames):
        content = {}
    else:
        content = of(endpoint.gives.__name__)
    about = (endpoint.does.__doc__ or "").strip().split("\n\n")
    operation: dict[str, Any] = {
        "operationId": endpoint.does.__name__,
        "summary": " ".join(about[0].split()),
        "description": " ".join(" ".join(about[1:]).split()),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in endpoint.parameters
        ],
        "responses": {
            **_success(endpoint, content),
            "default": {
                "description": "It was refused.",
                "content": of("Error"),
            },
        },
        "security": _security(endpoint),
        "x-permission": str(endpoint.may.value),
        "x-scope": _scope(endpoint),
        "x-elevated": endpoint.elevated,
        "x-audit": endpoint.audit,
        "x-forwards": endpoint.forwards,
    }
    if endpoint.asks is not None:
        query = definitions[endpoint.asks.__name__]
        operation["parameters"] += [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in query["properties"].items()
        ]
    if endpoint.repeatable:
        key = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}
        operation["parameters"].append({**key, "required": False})
    if endpoint.takes is not None:
        operation["requestBody"] = {
            "required": not endpoint.body_optional,
            "content": of(endpoint.takes.__name__),
        }
    return operation


def _success(endpoint: Endpoint, content: Mapping[str, Any]) -> dict[str, Any]:
    frames = endpoint.frames
    if frames is None:
        return {"200": {"description": "It was done.", "content": content}}

    def of(models: tuple[type[BaseModel], ...]) -> list[dict[str, str]]:
        return [{"$ref": _REFERENCES.format(model=model.__name__)} for model in models]

    websocket = {
        "protocol": frames.protocol,
        "ticket": frames.ticket,
        "client": of(frames.receives),
        "server": of(frames.sends),
    }
    return {"101": {"description": "A websocket.", "x-websocket": websocket}}


def _security(endpoint: Endpoint) -> list[dict[str, list[str]]]:
    if endpoint.may is Open.ANYONE:
        return []
    people_alone = endpoint.elevated or endpoint.may is Open.SIGNED_IN
    return [{"session": []}] if people_alone else [{"session": []}, {"key": []}]


def _scope(endpoint: Endpoint) -> str:
    return endpoint.scope.value if isinstance(endpoint.scope, Scope) else "one context"


_PAGE = """\
# Permissions of the admin port

<!-- Generated by `make admin-types`; do not edit. -->

How to use it: [the admin port](admin-api.md).

## Roles and grants

| permission | viewer | operator | admin | grant |
|---|---|---|---|---|
"""
_ENDPOINTS_HEAD = """
A grant is given to a person singly, and no role has it. A scope limits a person to contexts by name
or pattern: outside of it a call does not exist (404). A limited scope excludes what is about all
contexts: `people.manage`, `audit.read`, `engine.control`, `mcp.control`, `config.draft` and
`config.publish`.

## Endpoints

*Again* means: for ten minutes after the password or a code was given again; keys cannot. Each act
with a name is a line in the audit, written before it happens.

| method and path | permission | scope | again | audit | |
|---|---|---|---|---|---|
"""


def permissions_page() -> str:
    """Return the page of permissions, in Markdown."""
    grants = {permission: grant for grant, permission in GRANTS.items()}
    lines = [_PAGE.rstrip("\n")]
    for permission in Permission:
        roles = ["✓" if permission in ROLES[role] else "" for role in ROLES]
        lines.append(f"| `{permission}` | {' | '.join([*roles, grants.get(permission, '')])} |")
    lines += [*_ENDPOINTS_HEAD.rstrip("\n").split("\n")]
    for endpoint in ENDPOINTS:
        may = str(endpoint.may.value)
        cells = [
            f"`{endpoint.method} {endpoint.path}`" + (" (websocket)" if endpoint.frames else ""),
            f"`{may}`" if isinstance(endpoint.may, Permission) else may,
            "" if endpoint.scope is Scope.NONE else _scope(endpoint),
            "✓" if endpoint.elevated else "",
            f"`{endpoint.audit}`" if endpoint.audit else "",
            " ".join((endpoint.does.__doc__ or "").strip().split("\n\n")[0].split()),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def openapi_text() -> str:
    """Return the OpenAPI document as it is committed."""
    return json.dumps(openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(openapi_text(), "utf-8")
    Path(sys.argv[2]).write_text(permissions_page(), "utf-8")
