"""A trace: which Tasks come when, how long they run, what they need. From YAML or CSV text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from iris_operator.api.names import API_VERSION, GPU_RESOURCE
from iris_operator.api.task import Task
from iris_operator.simulation.spans import Span, parse_span

_CSV_EMPTY = ("", None)


class TraceError(Exception):
    """The file can't be used; the message says where and why."""


class Row(BaseModel):
    """Some Tasks that are alike. `at`: when they are submitted, as an offset (90, 15m, 2h) or a time (RFC 3339)."""

    model_config = ConfigDict(extra="forbid")

    at: Annotated[str | int | float | datetime, Field(description="Offset from the start, or a time of RFC 3339.")] = 0
    duration: Annotated[Span, Field(description="How long each runs.")]
    name: Annotated[str, Field(max_length=200, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$")] = ""
    cpu: Annotated[str, Field(description="Quantity, such as 500m or 4.")] = ""
    memory: Annotated[str, Field(description="Quantity, such as 16Gi.")] = ""
    gpus: Annotated[int, Field(ge=0)] = 0
    count: Annotated[int, Field(ge=1, le=1_000_000, description="So many Tasks like that.")] = 1
    gang: Annotated[bool, Field(description="They can only run all together.")] = False
    priority: Annotated[int, Field(ge=-1000, le=1000, description="spec.priority.")] = 0
    group: Annotated[str, Field(description="Only on slices of this ScaleGroup.")] = ""


@dataclass(frozen=True)
class Submission:
    """One Task of a trace. `at` and `life` in seconds; `gang` is empty, or names those it can only run together with."""

    at: float
    life: float
    task: Task
    gang: str = ""


@dataclass(frozen=True)
class Trace:
    """Submissions in order of time, and the time that second 0 stands for."""

    submissions: tuple[Submission, ...]
    start: datetime | None = None


def parse_trace(text: str, form: str) -> Trace:
    """`form`: csv, or yaml. Raises TraceError."""
    rows = list(_csv_rows(text) if form == "csv" else _yaml_rows(text))
    if not rows:
        raise TraceError("it has no Tasks: give rows with at, duration, cpu, memory, gpus")
    start = min((moment for _, row in rows if (moment := _moment(row.at)) is not None), default=None)
    made = [one for number, (where, row) in enumerate(rows) for one in _tasks(row, number, where, start)]
    names = [one.task.metadata.name for one in made]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TraceError(f"two Tasks are named {twice}: leave name out, or make it unique")
    return Trace(tuple(sorted(made, key=lambda one: one.at)), start)


def _csv_rows(text: str) -> Iterator[tuple[str, Row]]:
    lines = (line for line in io.StringIO(text) if line.strip() and not line.startswith("#"))
    for number, raw in enumerate(csv.DictReader(lines, skipinitialspace=True), start=1):
        yield f"row {number}", _row({name: value for name, value in raw.items() if value not in _CSV_EMPTY}, number)


def _yaml_rows(text: str) -> Iterator[tuple[str, Row]]:
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise TraceError(f"it is not YAML: {error}") from error
    listed = data.get("tasks") if isinstance(data, dict) else data
    if not isinstance(listed, list):
        raise TraceError("it has no list of Tasks: begin with `tasks:`")
    for number, raw in enumerate(listed, start=1):
        if not isinstance(raw, dict):
            raise TraceError(f"task {number} is no mapping: {raw!r}")
        yield f"task {number}", _row(raw, number)


def _row(raw: Mapping[str, Any], number: int) -> Row:
    # YAML reads 4 as a number where we want a quantity
    texts = {name: str(value) if name in ("cpu", "memory") else value for name, value in raw.items()}
    try:
        return Row.model_validate(texts)
    except ValidationError as error:
        raise TraceError(f"task {number}: {first_problem(error)}") from error


def first_problem(error: ValidationError) -> str:
    """One line of what pydantic found."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg'].removeprefix('Value error, ')}".strip(": ")


def _moment(at: str | int | float | datetime) -> datetime | None:
    if isinstance(at, datetime):
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    if isinstance(at, str) and re.match(r"^\d{4}-\d\d-\d\d[T ]", at):
        return _moment(datetime.fromisoformat(at.replace("Z", "+00:00")))
    return None


def _tasks(row: Row, number: int, where: str, start: datetime | None) -> Iterator[Submission]:
    moment = _moment(row.at)
    try:
        at = (moment - start).total_seconds() if moment is not None and start is not None else parse_span(row.at)
    except ValueError as error:
        raise TraceError(f"{where}: at: {error}") from error
    gang = (row.name or f"gang-{number}") if row.gang and row.count > 1 else ""
    for member in range(row.count):
        name = row.name or f"task-{number}"
        yield Submission(at, row.duration, _task(row, name if row.count == 1 else f"{name}-{member}", where), gang)


def _task(row: Row, name: str, where: str) -> Task:
    requests = {"cpu": row.cpu, "memory": row.memory, GPU_RESOURCE: str(row.gpus or "")}
    body = {
        "apiVersion": API_VERSION,
        "kind": "Task",
        "metadata": {"name": name},
        "spec": {
            "image": "simulated",
            "resources": {"requests": {resource: text for resource, text in requests.items() if text}},
            "placement": {"scaleGroupName": row.group},
            "priority": row.priority,
        },
    }
    try:
        return Task.parse(body)
    except ValidationError as error:
        raise TraceError(f"{where}: {first_problem(error)}") from error
