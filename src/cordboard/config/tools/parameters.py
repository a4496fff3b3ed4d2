"""`parameters:` of a tool that is described in the file: name → JSON Schema.

    parameters:
      date: {type: string, format: date, description: "The day of the booking."}
      seats: {type: integer, minimum: 1, default: 2}
      note: {type: string, required: false}

A parameter is required unless it has a `default` or `required: false`. A missing argument has the
parameter's default. All parameters together are the tool's schema (`parameters_schema`). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import jsonschema_rs
from pydantic import AfterValidator

from cordboard.config.patterns import ParameterName

_REQUIRED = "required"


def _are_schemas(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, schema in parameters.items():
        try:
            jsonschema_rs.meta.validate(_plain(schema))
        except jsonschema_rs.ValidationError as error:
            place = ".".join(map(str, (name, *error.instance_path)))
            raise ValueError(f"{place}: not a JSON Schema: {error.message}") from None
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise ValueError(f"{name}: not a JSON Schema: {error}") from None
    return parameters


Parameters: TypeAlias = Annotated[dict[ParameterName, dict[str, Any]], AfterValidator(_are_schemas)]
"""The parameters of one tool by name."""


def parameters_schema(parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments: an object with these properties only."""
    required = [name for name, schema in parameters.items() if _is_required(schema)]
    whole: dict[str, Any] = {
        "type": "object",
        "properties": {name: _plain(schema) for name, schema in parameters.items()},
        "additionalProperties": False,
    }
    return whole | {"required": required} if required else whole


def parameter_defaults(parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the defaults of missing arguments."""
    return {name: schema["default"] for name, schema in parameters.items() if "default" in schema}


def _is_required(schema: Mapping[str, Any]) -> bool:
    said = schema.get(_REQUIRED)
    return said if isinstance(said, bool) else "default" not in schema


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without our own `required: true`; JSON Schema's `required` is a list."""
    return {
        key: value
        for key, value in schema.items()
        if key != _REQUIRED or not isinstance(value, bool)
    }
