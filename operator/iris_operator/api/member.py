"""What a member of a Task of several replicas knows of the others, and how a Task tells that it has members."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from iris_operator.api.base import Model
from iris_operator.api.life import Retries

MAX_REPLICAS = 256


class Peer(Model):
    """Where one member runs."""

    node_name: Annotated[str, Field(description="Its node.")]
    address: Annotated[str, Field(description="That node's address; empty when it is not known.")] = ""


class ContainerSeen(Model):
    """What a node has of a container that outlives its Tasks, as a member found it before its start."""

    running: Annotated[bool, Field(description="Whether it runs there.")]
    image: Annotated[str, Field(description="The image that it runs, as its first Task named it.")] = ""
    image_digest: Annotated[str, Field(description="That image's digest; empty when it can't be told.")] = ""
    tag_digest: Annotated[
        str, Field(description="The digest that the Task's image stands for on that node; empty when it can't be told.")
    ] = ""


class ContainerVerdict(Model):
    """What the members do, by what all their nodes have: enter what runs, make it anew, or fail."""

    action: Annotated[Literal["Attach", "Launch", "Refuse"], Field(description="The same for all members.")]
    reason: Annotated[str, Field(description="Why it is refused, as one CamelCase word.")] = ""
    message: Annotated[str, Field(description="Why it is refused, for people, with the nodes.")] = ""


class MemberBinding(Model):
    """One member's part of an attempt that all members make together."""

    rank: Annotated[int, Field(ge=0, description="Which member it is, from 0.")]
    peers: Annotated[
        list[Peer], Field(max_length=MAX_REPLICAS, description="Where each member runs, by rank, this one too.")
    ]
    container: Annotated[
        ContainerVerdict | None,
        Field(description="Where the container outlives its Tasks: what to do. Absent until all nodes have told."),
    ] = None
    retries: Annotated[Retries, Field(description="Retries so far of all members together.")] = Retries()
