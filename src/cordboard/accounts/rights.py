"""Permissions, roles, grants, and the scope of contexts. Pure.

A role gives permissions. A grant adds one that no role has, for each person singly. The scope
limits both to contexts by name or pattern: outside of it a call does not exist. A key of a program
has a subset of its owner's permissions and a scope within its owner's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TypeAlias


class Permission(StrEnum):
    """Each endpoint needs one (`cordboard.admin.endpoint`)."""

    CALLS_READ = "calls.read"
    CALLS_CONTROL = "calls.control"
    CALLS_LISTEN = "calls.listen"
    CALLS_PLACE = "calls.place"
    """Have the engine call numbers, within `outbound`."""
    CALLS_NOTE = "calls.note"
    """Notes, tags, reviews and flags."""
    CALLS_EXPORT = "calls.export"
    EVALUATIONS_EDIT = "evaluations.edit"
    """Scenarios, the tests of simulated calls."""
    RECORDINGS_PLAY = "recordings.play"
    PERSONAL = "personal"
    """Numbers and words unmasked."""
    CONFIG_READ = "config.read"
    CONFIG_DRAFT = "config.draft"
    CONFIG_PUBLISH = "config.publish"
    TOOLS_READ = "tools.read"
    TOOLS_TRY_READ_ONLY = "tools.try.read_only"
    TOOLS_TRY_IDEMPOTENT = "tools.try.idempotent"
    TOOLS_TRY_DESTRUCTIVE = "tools.try.destructive"
    MCP_READ = "mcp.read"
    TRY_CHAT = "try.chat"
    TRY_CALL = "try.call"
    MCP_CONTROL = "mcp.control"
    MCP_ACCEPT = "mcp.accept"
    """Accept changed definitions of a server's tools."""
    PROVIDERS_READ = "providers.read"
    PROVIDERS_CHECK = "providers.check"
    """Ask services that may cost money: checks, samples of voices."""
    SECRETS_LIST = "secrets.list"
    SECRETS_WRITE = "secrets.write"
    ANALYTICS_READ = "analytics.read"
    ALARMS_READ = "alarms.read"
    ALARMS_ACKNOWLEDGE = "alarms.acknowledge"
    DATA_ERASE = "data.erase"
    ENGINE_READ = "engine.read"
    ENGINE_CONTROL = "engine.control"
    PEOPLE_MANAGE = "people.manage"
    AUDIT_READ = "audit.read"


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Grant(StrEnum):
    """Rights that no role includes."""

    LISTEN = "listen"
    RECORDINGS = "recordings"
    PERSONAL = "personal"
    PUBLISH = "publish"


_P = Permission
_VIEWER = frozenset(
    {
        _P.CALLS_READ,
        _P.CALLS_NOTE,
        _P.CONFIG_READ,
        _P.TOOLS_READ,
        _P.MCP_READ,
        _P.PROVIDERS_READ,
        _P.ANALYTICS_READ,
        _P.ALARMS_READ,
        _P.ENGINE_READ,
    },
)
_OPERATOR = _VIEWER | {
    _P.CALLS_CONTROL,
    _P.CALLS_PLACE,
    _P.CALLS_EXPORT,
    _P.EVALUATIONS_EDIT,
    _P.CONFIG_DRAFT,
    _P.TRY_CHAT,
    _P.TRY_CALL,
    _P.ALARMS_ACKNOWLEDGE,
    _P.TOOLS_TRY_READ_ONLY,
    _P.TOOLS_TRY_IDEMPOTENT,
    _P.MCP_CONTROL,
}
_ADMIN = _OPERATOR | {
    _P.TOOLS_TRY_DESTRUCTIVE,
    _P.MCP_ACCEPT,
    _P.PROVIDERS_CHECK,
    _P.SECRETS_LIST,
    _P.SECRETS_WRITE,
    _P.DATA_ERASE,
    _P.ENGINE_CONTROL,
    _P.PEOPLE_MANAGE,
    _P.AUDIT_READ,
}
ROLES: Mapping[Role, frozenset[Permission]] = MappingProxyType(
    {Role.VIEWER: _VIEWER, Role.OPERATOR: _OPERATOR, Role.ADMIN: _ADMIN}
)
GRANTS: Mapping[Grant, Permission] = MappingProxyType(
    {
        Grant.LISTEN: _P.CALLS_LISTEN,
        Grant.RECORDINGS: _P.RECORDINGS_PLAY,
        Grant.PERSONAL: _P.PERSONAL,
        Grant.PUBLISH: _P.CONFIG_PUBLISH,
    }
)

_OF_ALL_CONTEXTS = frozenset(
    {
        _P.CONFIG_DRAFT,
        _P.CONFIG_PUBLISH,
        _P.MCP_CONTROL,
        _P.MCP_ACCEPT,
        _P.PROVIDERS_CHECK,
        _P.SECRETS_LIST,
        _P.SECRETS_WRITE,
        _P.DATA_ERASE,
        _P.ENGINE_CONTROL,
        _P.PEOPLE_MANAGE,
        _P.AUDIT_READ,
    }
)

Scope: TypeAlias = tuple[str, ...]
"""Names of contexts, or patterns of them (`sales-*`); `("*",)` for all, `()` for none."""
EVERYWHERE: Scope = ("*",)


@dataclass(frozen=True, slots=True)
class Rights:
    """Allowed acts, and the contexts in which they are allowed."""

    permissions: frozenset[Permission] = frozenset()
    scopes: tuple[Scope, ...] = (EVERYWHERE,)
    """A context must match a pattern of each: a key's own scope, and its owner's."""

    def may(self, permission: Permission) -> bool:
        """Return True if the permission is among the rights."""
        return permission in self.permissions

    def covers(self, context: str) -> bool:
        """Return True if the context is within the scope."""
        return all(any(fnmatchcase(context, pattern) for pattern in scope) for scope in self.scopes)

    @property
    def everywhere(self) -> bool:
        """True if the scope is not limited."""
        return all("*" in scope for scope in self.scopes)

    def narrowed(self, permissions: Collection[Permission], scope: Scope) -> Rights:
        """Return the rights of a key that the holder of these rights has made."""
        kept = self.permissions.intersection(permissions)
        return Rights(kept - _outside(scope), (*self.scopes, scope))


def rights_of(role: Role, grants: Collection[Grant], scope: Scope) -> Rights:
    """Return the rights of a person. An admin of some contexts manages neither people nor the
    engine, by which they could give themselves the others; nor do they see the whole file, or stop
    a server that the others need."""
    granted = {GRANTS[grant] for grant in grants}
    return Rights((ROLES[role] | granted) - _outside(scope), (scope,))


def _outside(scope: Scope) -> frozenset[Permission]:
    """Return the permissions that a scope excludes, because they are about all contexts."""
    return frozenset() if "*" in scope else _OF_ALL_CONTEXTS
