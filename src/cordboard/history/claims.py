"""Claims in a PostgreSQL index: the directory of calls that the rows of each node are of.

Several engines of a cluster share one database, each with its rows. An engine removes rows of calls
that are not in its directory, so that it may have only one: its own. A directory has an identity,
in a file of its own, and the index has that of each node. Everything here blocks.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select

from cordboard import private_files
from cordboard.history.tables import FACTS

NAME = "index_id"
NUMBERS = "numbers"
"""Beginning of the names of facts that are ids of keys."""
_LARGEST = 1_000
_CLAIM = "calls of "
"""Beginning of the names of facts that are claims; the node follows."""
_WAY_OUT = "`cordboard history rebuild --take-over` removes them"


def identity_of(directory: Path) -> str:
    """Return the identity of a directory of calls; it is made at the first use. Raises
    `OSError`."""
    path = directory / NAME
    private_files.make_folder(directory)
    with private_files.alone(directory):
        try:
            found = private_files.read(path, _LARGEST).decode("ascii", "replace").strip()
        except FileNotFoundError:
            found = ""
        if not found:
            found = secrets.token_hex(16)
            private_files.replace(path, f"{found}\n".encode(), sync=True)
    return found


def numbers_of(node: str) -> str:
    """Return the name of the fact that is the id of the key by which a node hashes numbers and tags
    of encrypted calls."""
    return f"{NUMBERS} {node}".rstrip()


def claims_in(connection: Connection) -> dict[str, str]:
    """Return the identity of the directory of each node."""
    chosen = select(FACTS.c.name, FACTS.c.value).where(FACTS.c.name.like(f"{_CLAIM}%"))
    found = connection.execute(chosen)
    return {row.name.removeprefix(_CLAIM): row.value.partition(" ")[0] for row in found}


def claim_of(connection: Connection, node: str) -> str:
    """Return the claim of a node: the identity, and a value that changes when its rows were removed
    and begin anew. Empty without one."""
    chosen = select(FACTS.c.value).where(FACTS.c.name == f"{_CLAIM}{node}")
    return connection.scalar(chosen) or ""


def set_claim(connection: Connection, node: str, identity: str) -> None:
    """Claim the rows of a node, which are empty: the key of its hashes is made anew."""
    name = f"{_CLAIM}{node}"
    connection.execute(delete(FACTS).where(FACTS.c.name.in_((name, numbers_of(node)))))
    value = f"{identity} {secrets.token_hex(8)}"
    connection.execute(insert(FACTS), {"name": name, "value": value})


def others_of(node: str, identity: str, claims: Mapping[str, str]) -> dict[str, str]:
    """Return the claims of other directories."""
    return {name: each for name, each in claims.items() if name != node and each != identity}


def refusal(node: str, identity: str, claims: Mapping[str, str]) -> str:
    """Return why an engine may not use a database with these claims; empty if it may. `node` is
    empty for an engine without a cluster."""
    others = others_of(node, identity, claims)
    if node and claims.get(node, identity) != identity:
        return (
            f"the database has calls of node {node} from another calls.directory: give each engine "
            f"a `cluster.node` of its own; {_WAY_OUT}"
        )
    if "" in others or (not node and (others or claims.get("", identity) != identity)):
        return (
            "the database has calls of another calls.directory: give each engine a database of its "
            f"own, or make them nodes of a cluster (`cluster`), which share one; {_WAY_OUT}"
        )
    again = [name for name, each in claims.items() if each == identity and name != node]
    if node and any(again):
        return (
            f"the database has the calls of this calls.directory as node {again[0]}, not {node}: "
            f"it is a copy, or the node was renamed; {_WAY_OUT}"
        )
    return ""
