"""Endpoints of the cluster: its engines and bus, and orders to a node."""

from __future__ import annotations

from typing import Any

from cordboard.accounts.rights import Permission
from cordboard.admin.cluster_door import ClusterDoor, EngineSeen, NodeOrder
from cordboard.admin.endpoint import UNRECORDED, Ask, Endpoint, Gives, Scope, Takes
from cordboard.admin.other_engines import OtherEngines
from cordboard.errors import ClusterError, NodeGone, RequestRefused


class ClusterNode(Gives):
    """One engine."""

    node: str
    instance: str
    """Of this start of the engine; another one with each."""
    version: str
    labels: list[str]
    region: str
    free_slots: int | None
    """Calls that it would take now; 0 while it drains. Null for a scope of some contexts, as it
    tells the number of all calls."""
    live_calls: int | None
    """Within the caller's scope; null if that is limited and the calls cannot be seen."""
    draining: bool
    asterisk: str
    """`host:port`; empty: none."""
    started_at: str
    lease_age_ms: int | None
    """Time since its last sign of life arrived; null for the engine that answers."""
    own: bool
    """True for the engine that answers."""
    problem: str
    """Why its calls cannot be seen from here; empty if they can, or before the first look."""


class ClusterBus(Gives):
    connected: bool
    server: str
    problem: str
    """Why it cannot be used; empty if it can."""
    lease: str
    """State of the lease of the engine that answers: `held`, `in_doubt` or `lost`."""


class ClusterState(Gives):
    clustered: bool
    """False: the engine is alone, and the rest is empty."""
    bus: ClusterBus | None
    nodes: list[ClusterNode]


class Ordered(Gives):
    node: str
    draining: bool
    moving: int = 0
    """Calls that it hands over, as soon as that is possible."""


class DrainOf(Takes):
    hand_over: bool = False
    """Also hand the live calls over to the other engines (docs/cluster-calls.md)."""

    def facts(self) -> dict[str, Any]:
        """Return whether live calls are handed over."""
        return {"hand_over": self.hand_over}


async def show_cluster(ask: Ask) -> ClusterState:
    """Show the engines of the cluster, and whether the bus can be reached."""
    others = ask.services.others
    if others is None:
        return ClusterState(clustered=False, bus=None, nodes=[])
    everywhere = ask.who.rights.everywhere
    await (others.door.look() if everywhere else others.look())
    bus = others.door.bus
    return ClusterState(
        clustered=True,
        bus=ClusterBus(
            connected=bus.connected, server=bus.server, problem=bus.problem, lease=bus.lease
        ),
        nodes=[
            ClusterNode(
                node=each.node,
                instance=each.instance,
                version=each.version,
                labels=list(each.labels),
                region=each.region,
                free_slots=each.free_slots if everywhere else None,
                live_calls=each.live_calls if everywhere else _covered(ask, others, each),
                draining=each.draining,
                asterisk=each.asterisk,
                started_at=each.started_at,
                lease_age_ms=each.lease_age_ms,
                own=each.own,
                problem=others.problem(each.instance),
            )
            for each in others.door.engines()
        ],
    )


def _covered(ask: Ask, others: OtherEngines, engine: EngineSeen) -> int | None:
    """Return the number of an engine's calls within the caller's scope; None if unknown."""
    rights, services = ask.who.rights, ask.services
    if engine.own:
        return sum(rights.covers(call.context_name) for call in services.calls().values())
    if not others.sees(engine.instance):
        return None
    return services.feed.live.count_elsewhere(engine.instance, rights)


async def drain_node(ask: Ask) -> Ordered:
    """Have a node take no new calls; live ones go on there, or are handed over. Answers when it
    has begun."""
    return await _order(ask, "hand_over" if ask.body.hand_over else "drain")


async def undrain_node(ask: Ask) -> Ordered:
    """Have a node take calls again."""
    return await _order(ask, "undrain")


async def _order(ask: Ask, order: NodeOrder) -> Ordered:
    node, door = ask.params["node"], _door(ask)
    if node == door.node and order != "hand_over":  # also while the bus is away
        admission = ask.services.admission
        act = admission.begin_drain if order == "drain" else admission.end_drain
        act()
        return Ordered(node=node, draining=order == "drain")
    await door.look()
    if node not in {each.node for each in door.engines()}:
        raise RequestRefused(404, "not_there", f"there is no node {node[:64]!r} in the cluster")
    try:
        moving = await door.order(node, order)
    except ClusterError as error:
        code = "node_gone" if isinstance(error, NodeGone) else "bus_away"
        message = f"{node} has not got the order: {error}"
        raise RequestRefused(503, code, message, headers={"Retry-After": "2"}) from None
    return Ordered(node=node, draining=order != "undrain", moving=moving)


def _door(ask: Ask) -> ClusterDoor:
    if ask.services.others is None:
        raise RequestRefused(409, "no_cluster", "this engine is alone: it has no `cluster`")
    return ask.services.others.door


ENDPOINTS = (
    Endpoint(
        "GET",
        "/cluster",
        may=Permission.ENGINE_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=ClusterState,
        audit=UNRECORDED,
        does=show_cluster,
    ),
    *(
        Endpoint(
            "POST",
            f"/cluster/nodes/{{node}}/{does.__name__.removesuffix('_node')}",
            may=Permission.ENGINE_CONTROL,
            scope=Scope.NONE,
            takes=takes,
            gives=Ordered,
            audit=f"cluster.{does.__name__.removesuffix('_node')}",
            does=does,
        )
        for does, takes in ((drain_node, DrainOf), (undrain_node, None))
    ),
)
