"""How a running Task is asked how it is, and told to go; names and meaning are those of a Pod's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from iris_operator.api.base import Model
from iris_operator.api.rules import exactly_one, rules

_PORT = Field(
    json_schema_extra={
        "x-kubernetes-int-or-string": True,
        "minimum": 1,
        "maximum": 65535,
        "maxLength": 15,
        "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    },
    description="Number of the port, or the name of one of spec.ports.",
)


class ExecAction(Model):
    """A command in the container; exit code 0 is success."""

    command: Annotated[list[str], Field(min_length=1, max_length=1024, description="Not run in a shell.")]


class HttpHeader(Model):
    """One header of a request."""

    name: Annotated[str, Field(min_length=1, max_length=256, description="Name.")]
    value: Annotated[str, Field(max_length=8192, description="Value.")] = ""


class HttpGetAction(Model):
    """A GET; a status from 200 to 399 is success."""

    path: Annotated[str, Field(max_length=4096, description="Path of the request.")] = "/"
    port: Annotated[int | str, _PORT]
    scheme: Annotated[Literal["HTTP", "HTTPS"], Field(description="HTTPS: the certificate isn't checked.")] = "HTTP"
    http_headers: Annotated[list[HttpHeader], Field(max_length=32, description="More headers.")] = Field(
        default_factory=list
    )


class TcpSocketAction(Model):
    """A connection; that it is taken is success."""

    port: Annotated[int | str, _PORT]


class Probe(Model):
    """A question asked again and again: exactly one of exec, httpGet and tcpSocket."""

    model_config = rules(exactly_one("a probe", "exec", "httpGet", "tcpSocket"))

    exec: Annotated[ExecAction | None, Field(description="A command in the container.")] = None
    http_get: Annotated[HttpGetAction | None, Field(description="An HTTP GET to the Task's node.")] = None
    tcp_socket: Annotated[TcpSocketAction | None, Field(description="A TCP connection to the Task's node.")] = None
    initial_delay_seconds: Annotated[int, Field(ge=0, le=86400, description="After the start, before the first.")] = 0
    period_seconds: Annotated[int, Field(ge=1, le=86400, description="From one to the next.")] = 10
    timeout_seconds: Annotated[
        int, Field(ge=1, le=86400, description="Longer counts as a failure; a command is killed then.")
    ] = 1
    success_threshold: Annotated[
        int, Field(ge=1, le=1000, description="Successes in a row until it counts as well.")
    ] = 1
    failure_threshold: Annotated[int, Field(ge=1, le=1000, description="Failures in a row until it counts as ill.")] = 3


class PreStop(Model):
    """What is done before the stop signal, within the grace period: exactly one of these."""

    model_config = rules(exactly_one("preStop", "exec", "httpGet"))

    exec: Annotated[ExecAction | None, Field(description="A command in the container.")] = None
    http_get: Annotated[HttpGetAction | None, Field(description="An HTTP GET to the Task's node.")] = None


class Lifecycle(Model):
    """What is done around the command's end."""

    pre_stop: Annotated[PreStop | None, Field(description="Done before the stop signal, within the grace period.")] = (
        None
    )
    stop_signal: Annotated[
        str,
        Field(
            max_length=12,
            pattern=r"^SIG[A-Z0-9+]{2,9}$",
            description="Signal that asks the command to end, before SIGKILL.",
        ),
    ] = "SIGTERM"


class ContainerPort(Model):
    """A port that the command listens on, on its node's address. Given to the command as IRIS_PORT_<NAME>."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=15, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", description="Name of the port."),
    ]
    container_port: Annotated[
        int, Field(ge=0, le=65535, description="Its number. 0: a free one of the node is found, told in status.ports.")
    ] = 0
    protocol: Annotated[Literal["TCP", "UDP"], Field(description="Protocol.")] = "TCP"


class PortStatus(Model):
    """A port of a running attempt."""

    name: Annotated[str, Field(description="Name, as in spec.ports.")]
    port: Annotated[int, Field(ge=1, le=65535, description="Number on the node's address.")]
    protocol: Annotated[str, Field(description="TCP or UDP.")] = "TCP"
