"""Allowed hosts of a request, and allowed addresses of their names. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from cordboard.config.remote_url import Address, address_problem, inner_problem
from cordboard.errors import HttpAddressRefused


def host_allowed(host: str, patterns: Iterable[str]) -> bool:
    """Return True if a host is one of `allow_hosts`."""
    host = host.lower().rstrip(".")
    return any(
        host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
        for pattern in patterns
    )


def public_addresses(addresses: Iterable[Address]) -> list[Address]:
    """Return the public addresses. Raises `HttpAddressRefused` when there is none."""
    return _chosen(addresses, private=False)


def all_but_forbidden(addresses: Iterable[Address]) -> list[Address]:
    """Return the addresses for a tool with `allow_private`. Raises `HttpAddressRefused`."""
    return _chosen(addresses, private=True)


def _chosen(addresses: Iterable[Address], *, private: bool) -> list[Address]:
    good: list[Address] = []
    problem = "leads to no address"
    for address in addresses:
        kind = address_problem(address) if private else inner_problem(address)
        if kind is None:
            good.append(address)
        else:
            problem = f"leads to a {kind} address ({address})"
    if not good:
        raise HttpAddressRefused(f"its name {problem}")
    return good
