"""Converts a function's typed signature to the JSON Schema of a tool's arguments, and back.

    def convert(amount: Annotated[float, Field(ge=0)], to: Literal["EUR", "USD"] = "EUR") -> str:
        \"""Convert an amount of Norwegian kroner.\"""

pydantic makes the schema: descriptions and bounds from `Annotated[..., Field(...)]`, choices from
`Literal` and enums, objects from dataclasses, `TypedDict`s and models. The engine itself fills a
parameter annotated `ToolRun`, which is not part of the schema. Pure; the function is inspected, not
called.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from cordboard.errors import SchemaRefused
from cordboard.tools.tool import JsonObject, ToolRun

MAX_DESCRIPTION = 2_000
"""Characters of a docstring that an agent receives."""
MAX_PROBLEMS = 5

_SECTION = re.compile(
    r"^(:\w|(Args|Arguments|Parameters|Params|Returns?|Raises|Yields|Examples?|Notes?)\s*:?\s*$)"
)
"""Matches the line where the part of a docstring for programmers begins."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function."""

    model: type[BaseModel]
    """Validates its arguments; each field has its parameter's name as alias."""
    parameters: JsonObject
    run: str = ""
    """The parameter that takes the `ToolRun`; empty if there is none."""

    def read(self, arguments: JsonObject) -> dict[str, Any]:
        """Convert the arguments to the values that the function expects.

        Raises `pydantic.ValidationError` for errors that the schema cannot express.
        """
        values = self.model.model_validate(arguments)
        return {
            str(field.alias): getattr(values, name)
            for name, field in type(values).model_fields.items()
        }


class _Schema(GenerateJsonSchema):
    """Generates no titles, because they only repeat the names."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def read_signature(function: Callable[..., Any]) -> Signature:
    """Read a function's signature. Raises `SchemaRefused` with the reason."""
    try:
        hints = typing.get_type_hints(_annotated_part(function), include_extras=True)
        parameters = inspect.signature(function).parameters
    except (NameError, TypeError, ValueError, AttributeError) as error:
        raise SchemaRefused(f"its signature cannot be read: {error}") from None
    fields: dict[str, Any] = {}
    run = ""
    for name, parameter in parameters.items():
        if hints.get(name) is ToolRun:
            run = name
            continue
        fields[f"argument_{len(fields)}"] = _field(parameter, hints)
    try:
        model = create_model(
            "Arguments", __config__=ConfigDict(extra="forbid", populate_by_name=False), **fields
        )
        schema = model.model_json_schema(schema_generator=_Schema)
    except PydanticUserError as error:
        reason = str(error).partition("\n")[0]
        raise SchemaRefused(f"its parameters have no JSON Schema: {reason}") from None
    schema.pop("title", None)
    return Signature(model, schema, run)


def _annotated_part(function: Callable[..., Any]) -> Any:
    """Return the object that holds the annotations of a callable."""
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return type(function).__call__


def _field(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> tuple[Any, FieldInfo]:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise SchemaRefused(f"it takes any number of arguments ({parameter}); name each one")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise SchemaRefused(f"its parameter {name} cannot be passed by name")
    if name not in hints:
        raise SchemaRefused(f"its parameter {name} has no type")
    default = parameter.default
    if isinstance(default, FieldInfo):
        raise SchemaRefused(
            f"its parameter {name} has a Field as default; write Annotated[..., Field(...)]"
        )
    if default is parameter.empty:
        return hints[name], Field(alias=name)
    return hints[name], Field(default, alias=name)


def problems_of(error: ValidationError) -> list[str]:
    """Return the problems for the model that called the tool; without values."""
    found = [
        f"{'.'.join(map(str, details['loc']))}: {details['msg']}".removeprefix(": ")
        for details in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return [*found[:MAX_PROBLEMS], *(["and more"] if len(found) > MAX_PROBLEMS else [])]


def description_of(function: Callable[..., Any]) -> str:
    """Return the docstring up to the part for programmers; empty if there is none."""
    told: list[str] = []
    for line in (inspect.getdoc(function) or "").splitlines():
        if _SECTION.match(line):
            break
        told.append(line)
    paragraphs = "\n".join(told).strip().split("\n\n")
    return "\n\n".join(" ".join(text.split()) for text in paragraphs)[:MAX_DESCRIPTION]
