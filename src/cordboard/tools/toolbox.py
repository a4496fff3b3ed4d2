"""The toolbox: the tools of one call, and the only thing an agent can see or have run.

A call asks its generation's catalogue for a toolbox when it is admitted and keeps it to its end,
whatever is reloaded or restarted meanwhile. There is no way from here to a tool that the call's
context does not list: a name that is not in the box does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cordboard.tools.known_secrets import NO_SECRETS, KnownSecrets
from cordboard.tools.result_cache import ResultCache
from cordboard.tools.schema.checker import ArgumentChecker
from cordboard.tools.secret_names import SecretNames, secret_names
from cordboard.tools.tool import Tool, ToolSpec


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as it stands in a catalogue: with its spec and its compiled argument check."""

    tool: Tool
    spec: ToolSpec
    arguments: ArgumentChecker
    _secrets: SecretNames | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def secrets(self) -> SecretNames:
        """Which of its arguments are secret; found out when it is first asked for."""
        known = self._secrets
        if known is None:
            known = secret_names(self.spec)
            object.__setattr__(self, "_secrets", known)
        return known


class Toolbox:
    """The tools of one call. Immutable, but for what is kept in its cache."""

    __slots__ = ("_offered", "cache", "known_secrets", "missing", "specs")

    def __init__(
        self,
        offered: Iterable[OfferedTool] = (),
        missing: Iterable[str] = (),
        cache: ResultCache | None = None,
        known_secrets: KnownSecrets = NO_SECRETS,
    ) -> None:
        self._offered: Mapping[str, OfferedTool] = {entry.spec.name: entry for entry in offered}
        self.specs: tuple[ToolSpec, ...] = tuple(entry.spec for entry in self._offered.values())
        """What the agent may see, in the order of the context's list."""
        self.missing: tuple[str, ...] = tuple(missing)
        """Names that the context lists but nobody offers at this time."""
        self.cache = cache
        """Answers of these tools that may be given to every call; None = they are not kept."""
        self.known_secrets = known_secrets
        """What is masked in whatever they answer."""

    def find(self, name: str) -> OfferedTool | None:
        """The tool of that exposed name, or None when it is not in this box."""
        return self._offered.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._offered

    def __len__(self) -> int:
        return len(self._offered)
