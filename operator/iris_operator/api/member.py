"""What a member of a Task of several replicas knows of the others, and how a Task tells that it has members."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from iris_operator.api.base import Model
from iris_operator.api.life import Retries

MAX_REPLICAS = 256


class Peer(Model):
    """Where one member runs."""

    node_name: Annotated[str, Field(description="Its node.")]
    address: Annotated[str, Field(description="That node's address; empty when it is not known.")] = ""


class MemberBinding(Model):
    """One member's part of an attempt that all members make together."""

    rank: Annotated[int, Field(ge=0, description="Which member it is, from 0.")]
    peers: Annotated[
        list[Peer], Field(max_length=MAX_REPLICAS, description="Where each member runs, by rank, this one too.")
    ]
    retries: Annotated[Retries, Field(description="Retries so far of all members together.")] = Retries()
