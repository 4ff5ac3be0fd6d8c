"""The EndpointSlice of a Task."""

from __future__ import annotations

from typing import Any

import pytest

from iris_operator.api.core import EndpointConditions, EndpointSlice
from iris_operator.manifests.endpoint_slice import endpoint_slice, says_the_same
from tests.builders import TaskBuilder, task

_READY = EndpointConditions(ready=True, serving=True)


def _task(name: str = "t", **status: Any) -> TaskBuilder:
    ports = [{"name": "web", "port": 20001}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    return task(name, serviceName="web").bound().status(**{"hostIP": "10.0.0.1", "ports": ports, **status})


def _found(built: TaskBuilder, conditions: EndpointConditions = _READY) -> EndpointSlice:
    return EndpointSlice.parse(endpoint_slice(built.build(), conditions))


def test_joins_the_service_with_the_task_s_ports() -> None:
    body = endpoint_slice(_task().build(), _READY)
    assert body["metadata"]["labels"] == {
        "kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "iris.dev",
    }  # fmt: skip
    assert (body["addressType"], body["endpoints"]) == (
        "IPv4",
        [
            {
                "addresses": ["10.0.0.1"],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "nodeName": "s-n0",
            }
        ],
    )
    assert body["ports"] == [
        {"name": "web", "port": 20001, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"},
    ]  # fmt: skip


def test_goes_with_its_task() -> None:
    (owner,) = _found(_task()).metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Task", "t", "uid-t", True)


def test_two_tasks_of_one_name_have_two() -> None:
    first, second = _found(_task().meta(uid="a" * 36)), _found(_task().meta(uid="b" * 36))
    assert (first.metadata.name, second.metadata.name) == ("t-aaaaaaaa", "t-bbbbbbbb")
    long = _found(_task("n" * 253).meta(uid="a" * 36)).metadata.name
    assert len(long) == 63 and long.endswith("-aaaaaaaa")


def test_an_address_of_the_other_family() -> None:
    assert _found(_task(hostIP="FD00::1")).address_type == "IPv6"
    assert _found(_task(hostIP="FD00::1")).endpoints[0].addresses == ["fd00::1"]
    with pytest.raises(ValueError, match="somewhere"):
        endpoint_slice(_task(hostIP="somewhere").build(), _READY)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (_found(_task()), True),
        (_found(_task().meta(labels={"a": "b"})), True),
        (_found(_task(), EndpointConditions()), False),
        (_found(_task(hostIP="10.0.0.2")), False),
        (_found(_task(ports=[])), False),
        (_found(_task().spec(serviceName="other")), False),
        (_found(_task().meta(uid="another")), False),
    ],
)
def test_what_is_there_already(other: EndpointSlice, same: bool) -> None:
    stranger = other.model_copy(
        update={"metadata": other.metadata.model_copy(update={"labels": {**other.metadata.labels, "x": "y"}})}
    )
    assert says_the_same(stranger, endpoint_slice(_task().build(), _READY)) == same
