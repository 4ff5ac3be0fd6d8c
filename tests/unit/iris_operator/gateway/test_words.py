"""What is asked, by whom, and which agent has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iris_operator.api.core import Pod
from iris_operator.gateway.access import refusal, review
from iris_operator.gateway.answers import Refusal
from iris_operator.gateway.documents import documents
from iris_operator.gateway.headers import FrontProxy, NoFrontProxy, User, front_proxy, user_of
from iris_operator.gateway.routes import Ask, parse
from iris_operator.gateway.target import Target, Wanted, choose, of_slice, of_task
from tests.builders import slice_, task, worker

BASE = "/apis/stream.iris.dev/v1alpha1/namespaces/team"
HEADERS = {
    "requestheader-client-ca-file": "PEM",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
PROXY = front_proxy({"data": HEADERS})
PAST = [{"attempt": 2, "reason": "WorkerLost", "sliceName": "s", "nodeName": "s-n1"}, {"attempt": 1, "reason": "X"}]


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", "/tasks/hello/log", "get"),
        ("GET", "/tasks/hello/stats", "get"),
        ("GET", "/tasks/hello/exec", "create"),
        ("GET", "/tasks/hello/portforward", "create"),
        ("POST", "/tasks/hello/profile", "create"),
        ("GET", "/slices/a.b-c/stats", "get"),
        ("GET", "/slices/hello/images", "get"),
        ("POST", "/slices/hello/images", "create"),
        ("DELETE", "/slices/hello/images", "delete"),
    ],
)
def test_the_right_that_a_path_needs(method: str, path: str, verb: str) -> None:
    found = parse(method, BASE + path)
    assert isinstance(found, Ask)
    _, resource, name, subresource = path.split("/")
    assert found == Ask(found.verb, resource, subresource, "team", name)
    assert found.verb == verb


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/tasks/hello", 404),
        ("GET", "/tasks/hello/log/more", 404),
        ("GET", "/pods/hello/log", 404),
        ("GET", "/tasks/../log", 404),
        ("GET", "/tasks/a/b/log", 404),
        ("GET", "/tasks/hello/images", 404),
        ("DELETE", "/tasks/hello/log", 405),
        ("GET", "/tasks/hello/profile", 405),
    ],
)
def test_nothing_else_is_served(method: str, path: str, status: int) -> None:
    found = parse(method, BASE + path)
    assert isinstance(found, Refusal)
    assert found.body["code"] == status


class TestUser:
    def test_is_who_the_front_proxy_says(self) -> None:
        given = [
            ("x-remote-user", "ann"), ("X-Remote-Group", "a"), ("X-Remote-Group", "b"),
            ("X-Remote-Extra-Example.com%2fscope", "1"), ("Other", "x"),
        ]  # fmt: skip
        found = user_of(PROXY, "front-proxy-client", given)
        assert found == User("ann", ("a", "b"), "", {"example.com/scope": ("1",)})

    @pytest.mark.parametrize("peer", ["", "iris-agent", "kube-apiserver"])
    def test_nobody_else_is_believed(self, peer: str) -> None:
        assert user_of(PROXY, peer, [("X-Remote-User", "ann")]) is None

    def test_a_front_proxy_that_names_nobody_is_not_believed(self) -> None:
        assert user_of(PROXY, "front-proxy-client", [("X-Remote-Group", "system:masters")]) is None

    def test_without_names_every_client_of_that_authority_is_the_front_proxy(self) -> None:
        proxy = front_proxy({"data": {**HEADERS, "requestheader-allowed-names": "[]"}})
        assert user_of(proxy, "whoever", [("X-Remote-User", "ann")]) == User("ann")
        assert user_of(proxy, "", [("X-Remote-User", "ann")]) is None

    @pytest.mark.parametrize(
        "data", [{}, {"requestheader-client-ca-file": ""}, {**HEADERS, "requestheader-allowed-names": "x"}]
    )
    def test_a_cluster_without_aggregation_is_told(self, data: dict[str, str]) -> None:
        with pytest.raises(NoFrontProxy):
            front_proxy({"data": data})


class TestAccess:
    ASK = Ask("create", "tasks", "exec", "team", "hello")

    def test_asks_for_the_very_right(self) -> None:
        spec = review(User("ann", ("a",), "7", {"k": ("v",)}), self.ASK)["spec"]
        assert spec["resourceAttributes"] == {
            "namespace": "team", "verb": "create", "group": "stream.iris.dev", "version": "v1alpha1",
            "resource": "tasks", "subresource": "exec", "name": "hello",
        }  # fmt: skip
        assert (spec["user"], spec["groups"], spec["uid"], spec["extra"]) == ("ann", ["a"], "7", {"k": ["v"]})

    def test_a_no_names_the_right(self) -> None:
        found = refusal({"status": {"allowed": False}}, User("vic"), self.ASK)
        assert found is not None
        assert found.status == 403
        assert 'User "vic" cannot create resource "tasks/exec" in API group "stream.iris.dev"' in found.message

    @pytest.mark.parametrize("status", [{}, {"allowed": False}, {"allowed": True, "denied": True}, {"allowed": "yes"}])
    def test_only_a_yes_is_a_yes(self, status: dict[str, Any]) -> None:
        assert refusal({"status": status}, User("vic"), self.ASK) is not None
        assert refusal({"status": {"allowed": True}}, User("vic"), self.ASK) is None


def _pod(node: str = "", **meta: Any) -> Pod:
    ports = [{"name": "agent", "containerPort": 10001}, {"name": "stream", "containerPort": 10022}]
    built = worker(node_name=node).meta(**meta).status(hostIP="10.0.0.7", phase="Running")
    return built.spec(containers=[{"name": "agent", "ports": ports}]).build()


class TestTarget:
    def test_is_the_very_worker_that_the_task_is_bound_to(self) -> None:
        wanted = of_task(task().bound().build(), "exec", "")
        assert isinstance(wanted, Wanted)
        host = "uid-s-worker-0.agent.iris.dev"
        assert choose(wanted, [_pod()]) == Target(
            "10.0.0.7", 10022, host, "/v1/tasks/uid-t/1/exec", "the agent in Pod s-worker-0 on node s-n0"
        )

    def test_another_pod_of_that_name_has_the_log_but_not_the_task(self) -> None:
        bound, anew = task().bound().build(), _pod(uid="made-anew")
        for subresource, kind in (("exec", Refusal), ("stats", Refusal), ("log", Target)):
            wanted = of_task(bound, subresource, "")
            assert isinstance(wanted, Wanted)
            assert isinstance(choose(wanted, [anew]), kind)
            assert isinstance(choose(wanted, [_pod("elsewhere", uid="made-anew")]), Refusal)

    def test_an_earlier_attempts_log_is_on_its_node(self) -> None:
        moved = task().bound("other", attempt=3).status(attempts=PAST).build()
        wanted = of_task(moved, "log", "2")
        assert wanted == Wanted("/v1/tasks/uid-t/2/log", "s", "s-n1", any_worker=True)
        assert isinstance(choose(wanted, [_pod("s-n1")]), Target)

    def test_between_two_attempts_it_is_the_last_ones(self) -> None:
        wanted = of_task(task().status(attempts=PAST).build(), "log", "")
        assert isinstance(wanted, Wanted)
        assert wanted.path.endswith("/2/log")

    @pytest.mark.parametrize(
        ("subresource", "attempt", "status"),
        [
            ("log", "x", 400),
            ("log", "0", 400),
            ("log", "-1", 400),
            ("log", "٣", 400),
            ("log", "7", 404),
            ("exec", "2", 409),
        ],
    )
    def test_what_can_not_be_is_refused(self, subresource: str, attempt: str, status: int) -> None:
        found = of_task(task().bound(attempt=3).status(attempts=PAST).build(), subresource, attempt)
        assert isinstance(found, Refusal)
        assert found.status == status

    def test_a_task_without_a_place_has_nothing(self) -> None:
        found = of_task(task().build(), "log", "")
        assert isinstance(found, Refusal)
        assert found.status == 404

    def test_of_several_replicas_one_has_to_be_named(self) -> None:
        found = of_task(task("train", replicas=3).status(attempts=PAST).build(), "log", "")
        assert isinstance(found, Refusal)
        assert (found.status, found.message.rpartition(": ")[2]) == (409, "name one of train-0 to train-2")

    def test_a_worker_of_an_older_iris_serves_nothing(self) -> None:
        wanted = of_task(task().bound().build(), "log", "")
        assert isinstance(wanted, Wanted)
        older = worker().status(hostIP="10.0.0.7").build()
        found = choose(wanted, [older])
        assert isinstance(found, Refusal)
        assert (found.status, "older Iris" in found.message) == (503, True)

    @pytest.mark.parametrize(("rank", "status"), [("", 0), ("1", 0), ("2", 404), ("x", 400), ("-1", 400)])
    def test_a_slices_node_is_named_by_its_rank(self, rank: str, status: int) -> None:
        found = of_slice(slice_().ready({"cpu": "1"}, {"cpu": "1"}).build(), "images", rank)
        if status:
            assert isinstance(found, Refusal)
            assert found.status == status
        else:
            number = rank or "0"
            assert found == Wanted("/v1/images", "s", f"s-n{number}", f"s-worker-{number}", f"uid-s-worker-{number}")


def test_discovery_lists_subresources_only() -> None:
    found = documents()
    assert json.dumps(found)
    names = [one["name"] for one in found["/apis/stream.iris.dev/v1alpha1"]["resources"]]
    assert "tasks/log" in names
    assert all("/" in name for name in names)


def test_a_front_proxy_is_as_the_config_map_says() -> None:
    found = front_proxy({"data": HEADERS})
    assert found == FrontProxy(
        b"PEM", ("front-proxy-client",), ("X-Remote-User",), ("X-Remote-Group",), ("X-Remote-Extra-",)
    )
