"""CEL rules of a Task's spec: what spans fields. What may not change: task_policy."""

from __future__ import annotations

from iris_operator.api.rules import Rule, at_creation

# 2 and "2" are one number: quantities may be written either way.
_GPU_WHOLE = " && ".join(
    f"(!has(self.{part}) || !('nvidia.com/gpu' in self.{part}) || "
    f"string(self.{part}['nvidia.com/gpu']).matches('^[0-9]+$'))"
    for part in ("requests", "limits")
)
_GPU_SAME = (
    "!has(self.requests) || !('nvidia.com/gpu' in self.requests) || "
    "!has(self.limits) || !('nvidia.com/gpu' in self.limits) || "
    "string(self.requests['nvidia.com/gpu']) == string(self.limits['nvidia.com/gpu'])"
)
RESOURCE_RULES: list[Rule] = [
    at_creation(
        {"rule": _GPU_WHOLE, "message": "nvidia.com/gpu is not a whole number: GPUs are whole devices, such as 1 or 8"}
    ),
    at_creation(
        {
            "rule": _GPU_SAME,
            "message": "nvidia.com/gpu in requests and limits differ: GPUs are whole devices, set just limits",
        }
    ),
]
_MOUNTED = (
    "!has(self.volumeMounts) || self.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name))"
)
_PORT_NUMBERS = (
    "!has(self.ports) || self.ports.all(p, !has(p.containerPort) || p.containerPort == 0 || "
    "self.ports.exists_one(q, has(q.containerPort) && q.containerPort == p.containerPort && q.protocol == p.protocol))"
)
_BUNDLE_VOLUME = (
    "!has(self.bundle) || !has(self.bundle.volume) || "
    "(has(self.volumes) && self.volumes.exists(v, v.name == self.bundle.volume.name))"
)


def _named_port(has: str, port: str) -> str:
    return f"!({has}) || type({port}) != string || (has(self.ports) && self.ports.exists(p, p.name == string({port})))"


_NAMED_PORTS = [
    (
        f".{probe}",
        f"!has(self.{probe}) || "
        + " && ".join(
            f"({_named_port(f'has(self.{probe}.{way})', f'self.{probe}.{way}.port')})"
            for way in ("httpGet", "tcpSocket")
        ),
    )
    for probe in ("startupProbe", "livenessProbe", "readinessProbe")
] + [
    (
        ".lifecycle",
        _named_port(
            "has(self.lifecycle) && has(self.lifecycle.preStop) && has(self.lifecycle.preStop.httpGet)",
            "self.lifecycle.preStop.httpGet.port",
        ),
    )
]
_OUTLIVES = (
    "has(self.containerLifetime) && has(self.containerLifetime.policy) && self.containerLifetime.policy != 'PerRun'"
)
_LIFETIME = [
    (
        ".placement.sliceName",
        "has(self.placement) && has(self.placement.sliceName) && self.placement.sliceName != ''",
        "placement.sliceName is required unless containerLifetime.policy is PerRun: the container lives on that slice",
    ),
    (
        ".setup",
        "!has(self.setup) || self.setup.size() == 0",
        "setup is for containers of policy PerRun: write a containerLifetime.setupScript, run once in a fresh container",
    ),
    (
        ".bundle",
        "!has(self.bundle)",
        "bundle is for containers of policy PerRun: one that is there already can't be given more; use a nodeCache volume",
    ),
    (
        ".volumes",
        "!has(self.volumes) || self.volumes.all(v, has(v.hostPath) || has(v.nodeCache) || has(v.persistentVolumeClaim))",
        "a container that outlives its Tasks takes only hostPath, nodeCache and persistentVolumeClaim volumes",
    ),
]
_SERVICE = "!has(self.serviceName) || self.serviceName == '' || (has(self.ports) && self.ports.size() > 0)"


_OF_FIXED_FIELDS: list[Rule] = [
    {
        "rule": _MOUNTED,
        "fieldPath": ".volumeMounts",
        "message": "a volumeMounts[].name is the name of no volume: add it to volumes, or mend the name",
    },
    {
        "rule": _SERVICE,
        "fieldPath": ".serviceName",
        "message": "serviceName needs ports: name the ports that the Service leads to",
    },
    *(
        {"rule": f"!({_OUTLIVES}) || ({rule})", "fieldPath": path, "message": message}
        for path, rule, message in _LIFETIME
    ),
    {
        "rule": _PORT_NUMBERS,
        "fieldPath": ".ports",
        "message": "two ports have one number: a number is taken once (0: a free one is found)",
    },
    {
        "rule": _BUNDLE_VOLUME,
        "fieldPath": ".bundle",
        "message": "bundle.volume.name is the name of no volume: add it to volumes, or mend the name",
    },
    *(
        {"rule": rule, "fieldPath": path, "message": "port is the name of no port: add it to ports, or give its number"}
        for path, rule in _NAMED_PORTS
    ),
]

TASK_RULES: list[Rule] = [
    {
        "rule": "!has(self.binding) || !has(self.replicas) || self.replicas == 1",
        "fieldPath": ".binding",
        "message": "a Task of several replicas is never placed itself, its members are: leave out binding",
    },
    *(at_creation(one) for one in _OF_FIXED_FIELDS),
]
