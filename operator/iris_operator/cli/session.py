"""What every command shares: which cluster, which namespace, and errors that say what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from iris_operator.adapters.kube.client import KubeClient
from iris_operator.adapters.kube.config import ConfigError, connect
from iris_operator.ports.errors import ApiError, ForbiddenError, InvalidError, NotFoundError, UnavailableError
from iris_operator.version import VERSION

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_DENIED = " denied request: "


@dataclass(frozen=True)
class Target:
    """The options that choose a cluster and a namespace."""

    kubeconfig: str | None
    context: str | None
    namespace: str | None


@dataclass(frozen=True)
class Session:
    """An API and the namespace to work in."""

    api: KubeClient
    namespace: str


def target_options(command: F) -> F:
    """Adds -n, --kubeconfig and --context."""

    for option in (
        click.option("--context", "context", metavar="NAME", help="Context of the kubeconfig to use."),
        click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="Kubeconfig file to use."),
        click.option("-n", "--namespace", metavar="NAME", help="Namespace. Default: the kubeconfig context's."),
    ):
        command = option(command)
    return command


@asynccontextmanager
async def session(target: Target) -> AsyncIterator[Session]:
    """Connect as kubectl would."""
    connection = await connect(target.kubeconfig, target.context)
    async with KubeClient(connection, user_agent=f"iris-cli/{VERSION}") as api:
        yield Session(api, target.namespace or connection.namespace)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work; what goes wrong becomes one line for a person. Ctrl-C ends it quietly, with 130."""
    try:
        return asyncio.run(work)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    except ApiError as error:
        raise click.ClickException(explain(error)) from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def explain(error: ApiError) -> str:
    """An API error with what to do about it."""
    if isinstance(error, UnavailableError) and error.status == 0:
        return f"the API server can't be reached ({error.message}). Is the kubeconfig's cluster up?"
    if isinstance(error, (ForbiddenError, InvalidError)) and _DENIED in error.message:
        return error.message.rpartition(_DENIED)[2]  # a policy's own words say what to do
    if isinstance(error, ForbiddenError):
        return f"not allowed: {error.message}. Ask for the rights, or use another --context"
    if missing_kinds(error):
        return "this cluster does not know Iris' kinds: is the chart installed? (helm install iris charts/iris)"
    if isinstance(error, InvalidError):
        return f"the API server refuses it: {error.message}"
    return str(error)


def missing_kinds(error: ApiError) -> bool:
    """Whether it is not the object that is missing but its whole kind."""
    return isinstance(error, NotFoundError) and "could not find the requested resource" in error.message
