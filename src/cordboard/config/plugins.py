"""The installed parts: the vendors of this package, and plug-ins of others.

A vendor is a folder under `cordboard/vendors` whose package offers `PROVIDERS`, a tuple of
descriptors (`cordboard.agent_api.provider.Provider`). A plug-in is another distribution with an
entry point in one of `GROUPS`, which names one descriptor or a tuple of them. The configuration
reads three facts of a descriptor: its role, its type as written in YAML, and its section.

A plug-in never keeps the engine from starting: an unusable one becomes a `BrokenPlugin`, which
`cordboard check` and `/ready` report with its distribution and version.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from traceback import format_exception
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import structlog
from pydantic import ValidationInfo

from cordboard.config.section import Section
from cordboard.config.sections.language_model import LanguageModelBrain
from cordboard.config.sections.parts import PartSection, Role
from cordboard.config.sections.service import Service
from cordboard.config.sections.tool import ToolSection
from cordboard.config.sentences import Effort

log = structlog.get_logger()

Kind: TypeAlias = Role | Literal["transport", "tool"]
"""The four roles of providers, the transports of Asterisk's media, and the kinds of tools."""

GROUPS: Mapping[str, tuple[Kind, ...]] = MappingProxyType(
    {
        "cordboard.providers": get_args(Role),
        "cordboard.transports": ("transport",),
        "cordboard.tools": ("tool",),
    }
)
"""Entry-point group → the roles that its descriptors may have."""
_BUILT_IN = "cordboard.vendors"
_BASES: Mapping[Kind, type[Section]] = {
    "agent": PartSection,
    "stt": PartSection,
    "llm": LanguageModelBrain,
    "tts": PartSection,
    "tool": ToolSection,
}
"""The base class that a role's section must have; a transport has no section."""
_TRANSPORTS = ("websocket", "audiosocket", "rtp")
_RESERVED: Mapping[Kind, tuple[str, ...]] = {
    "agent": ("pipeline",),
    "llm": ("rules",),
    "transport": _TRANSPORTS,
    "tool": ("builtin", "mcp", "http", "python", "workflow"),
}
"""Types of the engine's own, without a descriptor."""


@dataclass(frozen=True, slots=True)
class Source:
    """The plug-in that provides a descriptor."""

    group: str
    name: str
    """Name of the entry point. The plug-in's types are this name, or begin with it and `_`."""
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"plug-in {self.name} of {self.distribution} {self.version}"

    def owns(self, part_type: str) -> bool:
        """Return True if a type is in the name space of the plug-in."""
        return part_type == self.name or part_type.startswith(f"{self.name}_")


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """An unusable plug-in, or one unusable descriptor of it."""

    source: Source
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Plugins:
    """All parts that a configuration may name. Immutable; equal only to itself."""

    descriptors: Mapping[tuple[Kind, str], Any]
    """(role, type) → descriptor, the built-in ones first."""
    sources: Mapping[tuple[Kind, str], Source] = field(default_factory=dict)
    """Plug-ins by the (role, type) of their descriptors."""
    broken: tuple[BrokenPlugin, ...] = ()

    def sections(self, role: Kind) -> dict[str, type[Section]]:
        """Return type → section for a role: local parts first, then services; plug-ins last."""
        found = {kind: each.section for (of, kind), each in self.descriptors.items() if of == role}

        def place(kind: str) -> tuple[bool, bool, str]:
            return ((role, kind) in self.sources, issubclass(found[kind], Service), kind)

        return {kind: found[kind] for kind in sorted(found, key=place)}

    def transports(self) -> tuple[str, ...]:
        """Return the names for `asterisk.media`."""
        return (*_TRANSPORTS, *(kind for of, kind in self.sources if of == "transport"))

    def blamed(self, role: Kind, part_type: str) -> BrokenPlugin | None:
        """Return the broken plug-in whose name space a type is in; None when the type works, or
        when it belongs to no plug-in."""
        if (role, part_type) in self.descriptors:
            return None
        fitting = (b for b in self.broken if role in GROUPS[b.source.group])
        return next((broken for broken in fitting if broken.source.owns(part_type)), None)


@dataclass(frozen=True, slots=True)
class Reading:
    """The validation context of one configuration: pydantic hands it to every validator."""

    plugins: Plugins
    effort: Effort
    environ: Mapping[str, str] = field(default_factory=dict)
    """Source of the services' keys."""

    @classmethod
    def of(cls, info: ValidationInfo) -> Reading:
        """Return the context in force; without one, that of a `Config` made in code."""
        given = info.context
        return given if isinstance(given, Reading) else cls(installed(), Effort())


@cache
def installed() -> Plugins:
    """Return the parts of this environment. Imports every vendor's and plug-in's descriptors, once
    per process (about 20 ms); a vendor's heavy code is imported when one of its parts is made."""
    found = [point for group in GROUPS for point in entry_points(group=group)]
    return collect(built_in(), found)


def built_in() -> Iterator[Any]:
    """Return the descriptors of the folders under `cordboard/vendors`."""
    folder = importlib.import_module(_BUILT_IN)
    for module in pkgutil.iter_modules(folder.__path__, f"{_BUILT_IN}."):
        yield from importlib.import_module(module.name).PROVIDERS


def collect(own: Iterable[Any], points: Iterable[EntryPoint]) -> Plugins:
    """Return the built-in descriptors and those of entry points. If two plug-ins offer the same
    type, the first by distribution is used and the other is broken."""
    descriptors: dict[tuple[Kind, str], Any] = {(each.role, each.type): each for each in own}
    sources: dict[tuple[Kind, str], Source] = {}
    broken: list[BrokenPlugin] = []
    for source, point in sorted(((_source(p), p) for p in points), key=lambda pair: str(pair[0])):
        offered, problem = _loaded(point)
        if problem:
            broken.append(BrokenPlugin(source, problem))
        for each in offered:
            fault = _fault(each, source, descriptors)
            if fault:
                broken.append(BrokenPlugin(source, fault))
            else:
                descriptors[each.role, each.type] = each
                sources[each.role, each.type] = source
    return Plugins(descriptors, sources, tuple(broken))


def _source(point: EntryPoint) -> Source:
    dist = point.dist
    name, version = (dist.name, dist.version) if dist is not None else ("an unknown package", "")
    return Source(point.group, point.name, name, version)


def _loaded(point: EntryPoint) -> tuple[tuple[Any, ...], str]:
    try:
        value = point.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's code may raise anything
        return (), f"cannot be imported: {_told(error)}"
    return (value if isinstance(value, tuple) else (value,)), ""


def _fault(each: Any, source: Source, taken: Mapping[tuple[Kind, str], Any]) -> str:
    """The reason why a plug-in's descriptor cannot be used; empty when it can."""
    part_type, role = getattr(each, "type", None), getattr(each, "role", None)
    if not isinstance(part_type, str) or not callable(getattr(each, "make", None)):
        return f"offers a {type(each).__name__}, which is not a descriptor"
    allowed = GROUPS[source.group]
    if role not in allowed:
        return f"{part_type} has the role {role!r}; {source.group} takes {', '.join(allowed)}"
    if not source.owns(part_type):
        return f"the type {part_type} must be {source.name}, or begin with {source.name}_"
    if (role, part_type) in taken or part_type in _RESERVED.get(role, ()):
        return f"the {role} type {part_type} is taken"
    base = _BASES.get(role)
    return _wrong_section(each, base) if base is not None else ""


def _wrong_section(each: Any, base: type[Section]) -> str:
    section = getattr(each, "section", None)
    if not isinstance(section, type) or not issubclass(section, base):
        return (
            f"the section of {each.type} is not a {base.__name__}, which the role {each.role} needs"
        )
    key = "kind" if each.role == "tool" else "type"
    stated = section.model_fields.get(key)
    if stated is None or get_args(stated.annotation) != (each.type,):
        return f"the section of {each.type} needs `{key}: Literal[{each.type!r}]`"
    try:
        section.model_json_schema()  # messages and the reference are made from it
    except Exception as error:  # noqa: BLE001 - a stranger's code may raise anything
        return f"the section of {each.type} has no JSON schema: {_told(error)}"
    return ""


def failure_of(source: Source | None, doing: str, error: Exception, key: str = "") -> str:
    """Log that a plug-in's code failed, with its traceback. Return the reason to report, in at most
    500 characters. `key`: the service's key that the code was given, and may quote."""

    def masked(text: str) -> str:
        return text.replace(key, "***") if key else text

    traceback = masked("".join(format_exception(error)))
    log.error("plugin_failed", plugin=str(source), doing=doing, exception=traceback)
    return masked(f"{source}: {doing} failed: {type(error).__name__}: {error}")[:500]


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]
