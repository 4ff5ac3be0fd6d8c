"""How a Task is set up, how long it may take, how often it is tried, and how long its container lives."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from iris_operator.api.base import Model
from iris_operator.api.env import KeySelector
from iris_operator.api.rules import rules


class SetupCommand(Model):
    """A command before the main one, in the same container, with the same user, environment and log."""

    name: Annotated[str, Field(max_length=63, description="What it is called in messages. Empty: its number.")] = ""
    command: Annotated[list[str], Field(min_length=1, max_length=1024, description="Not run in a shell.")]


class TaskTimeouts(Model):
    """How long an attempt may take for each part of its way; absent: for ever. Each ends in a reason of its own."""

    scheduling_seconds: Annotated[
        int | None,
        Field(ge=1, le=31536000, description="Until it is placed; then Failed, reason SchedulingTimeout."),
    ] = None
    building_seconds: Annotated[
        int | None,
        Field(
            ge=1,
            le=31536000,
            description="From its placing until its command starts: pull, bundle, setup. Then the attempt fails, reason BuildingTimeout.",
        ),
    ] = None
    running_seconds: Annotated[
        int | None,
        Field(
            ge=1, le=31536000, description="The command's time; then it is stopped and fails, reason RunningTimeout."
        ),
    ] = None


class ExitCodeRule(Model):
    """What is made of certain exit codes of the command."""

    exit_codes: Annotated[
        list[Annotated[int, Field(ge=0, le=255)]],
        Field(min_length=1, max_length=64, description="The codes; 128 plus its number for a signal."),
    ]
    action: Annotated[
        Literal["Retry", "Fail", "Succeed"],
        Field(
            description="Retry: within the budget of user, counted against it. Fail: never again. Succeed: counts as done."
        ),
    ]


class Cause(StrEnum):
    """Whose fault an attempt's end was, and so which budget of the retry policy it counts against."""

    USER = "User"
    INFRASTRUCTURE = "Infrastructure"
    PREEMPTION = "Preemption"

    @property
    def budget(self) -> str:
        """The field of retryPolicy, and of status.retries, that it counts against."""
        return self.value.lower()


class RetryPolicy(Model):
    """How often a Task is run again, by whose fault an attempt ended."""

    user: Annotated[
        int, Field(ge=0, le=1000, description="Retries when the command, its set-up or its limits were at fault.")
    ] = 0
    infrastructure: Annotated[
        int,
        Field(
            ge=0,
            le=1000,
            description="Retries when the node or its worker was lost. A slice's drain or deletion costs none: the Task is placed elsewhere.",
        ),
    ] = 10
    preemption: Annotated[
        int, Field(ge=0, le=10000, description="Retries when its place was taken back: a spot node, or a preemption.")
    ] = 100
    on_exit_codes: Annotated[
        list[ExitCodeRule], Field(max_length=16, description="What is made of certain exit codes; the first that fits.")
    ] = Field(default_factory=list)
    backoff_seconds: Annotated[
        int,
        Field(ge=0, le=86400, description="Wait before the second try after a user failure; doubled by each more."),
    ] = 10
    max_backoff_seconds: Annotated[int, Field(ge=0, le=86400, description="The longest wait.")] = 300

    def budget(self, cause: Cause) -> int:
        """How many retries that cause has."""
        return int(getattr(self, cause.budget))


class Retries(Model):
    """How many retries were charged to each budget of retryPolicy."""

    user: Annotated[int, Field(ge=0, description="Charged to retryPolicy.user.")] = 0
    infrastructure: Annotated[int, Field(ge=0, description="Charged to retryPolicy.infrastructure.")] = 0
    preemption: Annotated[int, Field(ge=0, description="Charged to retryPolicy.preemption.")] = 0

    def of(self, cause: Cause) -> int:
        """Those charged to that budget."""
        return int(getattr(self, cause.budget))

    def one_more(self, cause: Cause) -> Retries:
        """With one more charged to that budget."""
        return self.model_copy(update={cause.budget: self.of(cause) + 1})


class SetupScript(Model):
    """A bash script for a fresh container, run once with pipefail: exactly one of these. At most 256 KiB."""

    model_config = rules(
        {
            "rule": "(has(self.inline) && self.inline != '' ? 1 : 0) + (has(self.configMapKeyRef) ? 1 : 0) + "
            "(has(self.packaged) && self.packaged != '' ? 1 : 0) == 1",
            "message": "setupScript takes exactly one of inline, configMapKeyRef and packaged",
        }
    )

    inline: Annotated[str, Field(max_length=262144, description="The script itself.")] = ""
    config_map_key_ref: Annotated[KeySelector | None, Field(description="A ConfigMap's key with it.")] = None
    packaged: Annotated[
        Literal["", "sshd"],
        Field(description="One that Iris brings. sshd: OpenSSH's server on port 2224, installed if it is absent."),
    ] = ""


class ContainerLifetime(Model):
    """How long the container lives that the command runs in.

    PerRun: as long as the Task. Persistent: it stays on its node under `name`, for the next Task of the namespace with
    the same name, which runs in it by exec. NoLaunch: it must be there already; nothing is started but the command.
    """

    model_config = rules(
        {
            "rule": "!has(self.launch)",
            "fieldPath": ".launch",
            "message": "launch was removed: write policy: PerRun for true, policy: NoLaunch for false",
        },
        {
            "rule": "!has(self.enabled)",
            "fieldPath": ".enabled",
            "message": "enabled was removed: leave it out; a Task always runs in a container (policy: PerRun)",
        },
        {
            "rule": "!has(self.policy) || self.policy == 'PerRun' || (has(self.name) && self.name != '')",
            "fieldPath": ".name",
            "message": "name is required unless policy is PerRun: Tasks of the namespace meet in the container of that name",
        },
        {
            "rule": "!has(self.policy) || self.policy != 'NoLaunch' || !has(self.setupScript)",
            "fieldPath": ".setupScript",
            "message": "setupScript does nothing with policy NoLaunch, which starts no container: leave it out",
        },
    )

    policy: Annotated[Literal["PerRun", "Persistent", "NoLaunch"], Field(description="Which of the three.")] = "PerRun"
    name: Annotated[
        str,
        Field(
            max_length=40,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
            description="Name of the container in its namespace, on its slice. Required unless PerRun.",
        ),
    ] = ""
    setup_script: Annotated[
        SetupScript | None,
        Field(
            description="Run once in a fresh container, before the set-up commands: by bash -eo pipefail, or by busybox' shell where there is no bash."
        ),
    ] = None
    start_timeout_seconds: Annotated[
        int, Field(ge=1, le=86400, description="For its image, its start and its set-up script.")
    ] = 900
    idle_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=31536000,
            description="How long a persistent container stays without a Task before it is taken away. 0: as long as its slice.",
        ),
    ] = 0
    enabled: Annotated[bool | None, Field(description="Removed: is refused, with what to write instead.")] = None
    launch: Annotated[bool | None, Field(description="Removed: is refused, with what to write instead.")] = None
