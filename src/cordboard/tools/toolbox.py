"""The toolbox: the tools of one call, the only ones that its agent can see or run.

A call gets a toolbox from its generation's catalogue when it is admitted and keeps it until its
end, regardless of reloads and restarts. The toolbox gives no access to tools that the call's
context does not list: a name that is not in it does not exist.
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
    """A tool of a catalogue with its spec and its compiled argument check."""

    tool: Tool
    spec: ToolSpec
    arguments: ArgumentChecker
    _secrets: SecretNames | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def secrets(self) -> SecretNames:
        """The names of its secret arguments; computed on first use."""
        known = self._secrets
        if known is None:
            known = secret_names(self.spec)
            object.__setattr__(self, "_secrets", known)
        return known


class Toolbox:
    """The tools of one call. Immutable, except for its cache."""

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
        """The specs that the agent may see, in the order of the context's list."""
        self.missing: tuple[str, ...] = tuple(missing)
        """Names that the context lists but that no source offers at this time."""
        self.cache = cache
        """Cache of results that may be reused in every call; None = not kept."""
        self.known_secrets = known_secrets
        """The secrets to mask in all results."""

    @property
    def entries(self) -> Iterable[OfferedTool]:
        """The tools, in the order of the context's list."""
        return self._offered.values()

    def find(self, name: str) -> OfferedTool | None:
        """Return the tool of that exposed name; None if it is not in this toolbox."""
        return self._offered.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._offered

    def __len__(self) -> int:
        return len(self._offered)
