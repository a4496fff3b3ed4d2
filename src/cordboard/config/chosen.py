"""Values whose choices depend on what is installed: sections by `type` or `kind`, and names.

`Chosen("stt")` annotates a field: pydantic asks the installed parts for the section of the stated
type and validates with that. Its JSON schema is a mark; `config.shape` puts the choices there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import (
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SecretStr,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from cordboard.config.plugins import Kind, Plugins, Reading, failure_of
from cordboard.config.secrets import names_a_secret
from cordboard.config.section import Section
from cordboard.config.sections.parts import PartSection
from cordboard.config.sections.service import Service
from cordboard.config.sections.tool import ToolSection

MARK = "x-cordboard-chosen"
"""Key of the mark in the JSON schema; its value is the role."""


class BrokenPart(PartSection):
    """A section of an unusable plug-in: it takes any settings and never makes a part."""

    model_config = ConfigDict(extra="allow", frozen=True)

    problem: str = Field(exclude=True, description="The reason.")


class BrokenTool(ToolSection):
    """A tool of an unusable plug-in."""

    model_config = ConfigDict(extra="allow", frozen=True)

    problem: str = Field(exclude=True, description="The reason.")


@dataclass(frozen=True, slots=True)
class ChosenTransport:
    """The annotation of a field that holds the name of an installed transport, or of one whose
    plug-in is broken."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.with_info_after_validator_function(
            self._name, core_schema.str_schema(strict=True)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {MARK: "transport"}

    def _name(self, value: str, info: ValidationInfo) -> str:
        plugins = Reading.of(info).plugins
        if value not in plugins.transports() and plugins.blamed("transport", value) is None:
            raise PydanticCustomError("literal_error", "a transport that is not installed")
        return value


@dataclass(frozen=True, slots=True)
class Chosen:
    """The annotation of a field that holds a section of one of the installed types."""

    role: Kind
    own: tuple[type[Section], ...] = ()
    """The engine's own sections, which have no descriptor; they come first."""
    key: str = "type"
    bare: bool = False
    """True if the type alone may stand for its section."""
    about: str = ""
    """Description in the reference."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._section)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {MARK: self.role} | ({"description": self.about} if self.about else {})

    def sections(self, plugins: Plugins) -> dict[str, type[Section]]:
        """Return type → section for all choices."""
        own = {get_args(each.model_fields[self.key].annotation)[0]: each for each in self.own}
        return own | plugins.sections(self.role)

    def _section(self, value: Any, info: ValidationInfo) -> Section:
        plugins = Reading.of(info).plugins
        if self.bare and isinstance(value, str):
            value = {self.key: value}
        known = self.sections(plugins)
        if isinstance(value, Section) and isinstance(
            value, (*known.values(), BrokenPart, BrokenTool)
        ):
            return value
        stated = value.get(self.key) if isinstance(value, dict) else None
        if not isinstance(stated, str):
            raise PydanticCustomError("union_tag_not_found", "a section without its type")
        if stated in known:
            return self._validated(known[stated], stated, value, info)
        broken = plugins.blamed(self.role, stated)
        if broken is None:
            raise PydanticCustomError("union_tag_invalid", "a type that is not installed")
        return self._broken(value, str(broken))

    def _validated(
        self, section: type[Section], stated: str, value: dict[str, Any], info: ValidationInfo
    ) -> Section:
        reading = Reading.of(info)
        source = reading.plugins.sources.get((self.role, stated))
        try:
            made = section.model_validate(value, context=info.context)
            if source is not None:
                _try_out(made, reading.environ)
        except ValidationError:
            raise
        except Exception as error:  # border of a plug-in: reported by `check` and `/ready`
            if source is None:
                raise
            key = value.get("api_key")
            doing, key = f"the section of {stated}", key if isinstance(key, str) else ""
            return self._broken(value, failure_of(source, doing, error, key))
        return made

    def _broken(self, value: dict[str, Any], problem: str) -> Section:
        section = BrokenTool if self.role == "tool" else BrokenPart
        return section.model_validate({**_hidden(value), "problem": problem})


def _try_out(section: Section, environ: Mapping[str, str]) -> None:
    """Read what the engine will read of a plug-in's section. Raises what its code raises;
    `TypeError` for a value of another type."""
    if not isinstance(section, PartSection):
        return
    read: dict[str, tuple[Any, type]] = {"model_file": (section.model_file, str)}
    if isinstance(section, Service):
        models, key, needs_key = section.paid_models, section.key(environ), section.needs_key
        read |= {
            "paid_models": (models, tuple),
            "key": (key, tuple),
            "needs_key": (needs_key, bool),
            "missing_key": (section.missing_key(environ), str),
        }
    for name, (value, expected) in read.items():
        if not isinstance(value, expected):
            raise TypeError(f"{name} is a {type(value).__name__}, not a {expected.__name__}")


def _hidden(value: Any, name: str = "") -> Any:
    """A value of which no section says what is secret: texts under secret names are."""
    if isinstance(value, dict):
        return {key: _hidden(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_hidden(item, name) for item in value]
    return SecretStr(value) if isinstance(value, str) and names_a_secret(name) else value
