"""Section `cluster`: several engines that know of each other, by NATS JetStream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from cordboard.config.patterns import BUS_URL, NODE, Name
from cordboard.config.section import Section

RENEWALS_PER_LEASE = 3
"""Renewals that fit into a lease at least: one may get lost."""


class NatsTls(Section):
    """TLS of the connections to NATS."""

    ca: Path | None = Field(
        None, description="PEM file of the authority that signed the servers' certificates. Left "
        "out: those that this machine trusts."
    )  # fmt: skip
    certificate: Path | None = Field(
        None, description="PEM file of this engine's own certificate, if the servers ask for one."
    )
    key: Path | None = Field(None, description="PEM file of its private key.")

    @model_validator(mode="after")
    def _a_pair(self) -> NatsTls:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key belong together")
        return self


class Nats(Section):
    """The NATS servers, with JetStream (version 2.11 or newer). At most one way to sign in."""

    servers: tuple[Annotated[str, Field(pattern=BUS_URL)], ...] = Field(
        min_length=1,
        description="Addresses such as nats://10.0.0.5:4222, or tls://…; of a cluster, all.",
    )
    user: str = Field("", description="User, with `password`.")
    password: SecretStr | None = Field(
        None, description='Password of the user, usually "${NATS_PASSWORD}".'
    )
    token: SecretStr | None = Field(None, description="Token, in place of a user.")
    credentials: Path | None = Field(
        None, description="File with a JWT and its key (`.creds`), in place of a user."
    )
    tls: NatsTls | None = Field(None, description="TLS. Left out: only for tls:// addresses.")
    replicas: Literal[1, 3, 5] = Field(
        1, description="Servers that keep a copy of each entry; 3 for a cluster of three."
    )

    @model_validator(mode="after")
    def _one_way_in(self) -> Nats:
        if bool(self.user) != (self.password is not None):
            raise ValueError("user and password belong together")
        ways = [self.user, self.token, self.credentials]
        if sum(map(bool, ways)) > 1:
            raise ValueError("expected only one of user and password, token, or credentials")
        return self


class Cluster(Section):
    """Several engines that know of each other. Needs the extra `cluster`."""

    node: Annotated[str, Field(pattern=NODE)] = Field(
        description="Name of this machine or process, different from all others of the cluster."
    )
    name: Name = Field(
        "cordboard", description="Name of the cluster; several may use the same NATS servers."
    )
    labels: tuple[Name, ...] = Field(
        (), max_length=20, description="What this node has, such as `gpu`."
    )
    region: str = Field("", max_length=63, description="Where this node is.")
    nats: Nats = Field(description="The NATS servers.")
    secret: SecretStr | None = Field(
        None,
        min_length=16,
        description='The same on all engines, usually "${CLUSTER_SECRET}": an administration page '
        "reaches the calls of another engine by messages that are encrypted with it. Needless with "
        "`privacy.encryption`, whose master key then serves for it. Without either, whoever may "
        "publish on the bus can send such messages.",
    )
    config: Literal["file", "bus"] = Field(
        "file",
        description="Source of contexts, tools and providers: `file`, this file; `bus`, the "
        "version that `cordboard cluster config publish` has put on the bus, for all engines.",
    )
    lease_ms: int = Field(
        2_000,
        ge=2_000,
        le=60_000,
        multiple_of=1_000,
        description="Time after its last sign of life at which an engine is taken for dead. Whole "
        "seconds.",
    )
    renew_ms: int = Field(500, ge=100, description="Time between two signs of life.")

    max_calls: int | None = Field(
        None,
        ge=1,
        description="Calls of all engines together; each also has its `calls.max_calls`. Left out: "
        "no limit.",
    )
    on_stop: Literal["hand_over", "finish"] = Field(
        "hand_over",
        description="An engine that is told to stop hands its calls over to other engines at its "
        "Asterisk, as far as they have room, within `calls.shutdown_grace_ms`; `finish`: they end "
        "there, as with one engine.",
    )

    @model_validator(mode="after")
    def _renews_in_time(self) -> Cluster:
        if self.renew_ms * RENEWALS_PER_LEASE > self.lease_ms:
            raise ValueError(
                f"renew_ms: expected at most a third of lease_ms, {self.lease_ms // 3} here"
            )
        return self
