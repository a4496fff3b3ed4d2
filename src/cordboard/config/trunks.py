"""Names of trunks: the endpoint of the telephone system by which a call comes or goes.

A trunk is written as technology and endpoint, such as `PJSIP/acme`. Asterisk names a channel of an
endpoint `PJSIP/acme-0000001f`: the endpoint's id of its configuration, which no caller chooses, and
a running number of 8 hex digits (asterisk `channels/chan_pjsip.c`, `chan_pjsip_new`). The endpoint
of a dial string is behind the first `@`, else the whole part before the next slash (`request` in
the same file): `PJSIP/+4722123456@acme`, `PJSIP/acme/sip:+4722123456@host`, `DAHDI/g1/22123456`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cordboard.config.patterns import TRUNK

TrunkName = Annotated[str, Field(pattern=TRUNK)]
"""Technology and endpoint, such as `PJSIP/acme`."""


def trunk_of_endpoint(endpoint: str) -> str:
    """Return the trunk by which a dial string leaves; empty if it has none."""
    technology, _, rest = endpoint.partition("/")
    first = rest.partition("/")[0]
    name = first.partition("@")[2] or first
    return f"{technology}/{name}" if technology and name else ""


def trunk_of_channel(name: str) -> str:
    """Return the trunk of a channel, by the channel's name; empty if it has none."""
    endpoint, dash, _ = name.rpartition("-")
    return trunk_of_endpoint(endpoint) if dash else ""
