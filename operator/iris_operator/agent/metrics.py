"""The agent's counters, as Prometheus text. A page of code, where a client library would cost 4 MB on every node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class Metrics:
    """Counters by label; gauges are given when the text is made."""

    def __init__(self) -> None:
        self.api_writes: Counter[tuple[str, str]] = Counter()
        self.tasks_started = 0
        self.tasks_ended: Counter[str] = Counter()

    def wrote(self, verb: str, resource: str) -> None:
        """Count one write to the API, tried ones included."""
        self.api_writes[verb, resource] += 1

    def text(self, gauges: Mapping[str, float]) -> str:
        """Exposition format 0.0.4. `gauges`: name without prefix -> value."""
        lines = ["# HELP iris_agent_api_writes_total Writes to the Kubernetes API.",
                 "# TYPE iris_agent_api_writes_total counter"]  # fmt: skip
        for (verb, resource), number in sorted(self.api_writes.items()):
            lines.append(f'iris_agent_api_writes_total{{verb="{verb}",resource="{resource}"}} {number}')
        lines += ["# HELP iris_agent_tasks_started_total Tasks whose command was started.",
                  "# TYPE iris_agent_tasks_started_total counter",
                  f"iris_agent_tasks_started_total {self.tasks_started}",
                  "# HELP iris_agent_tasks_ended_total Tasks reported as ended.",
                  "# TYPE iris_agent_tasks_ended_total counter"]  # fmt: skip
        for phase, number in sorted(self.tasks_ended.items()):
            lines.append(f'iris_agent_tasks_ended_total{{phase="{phase}"}} {number}')
        for name, value in sorted(gauges.items()):
            lines += [f"# TYPE iris_agent_{name} gauge", f"iris_agent_{name} {value:g}"]
        return "\n".join(lines) + "\n"
