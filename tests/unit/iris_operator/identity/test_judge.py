"""Whose request is signed: a worker Pod's own, about itself."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from iris_operator.api.core import CertificateSigningRequest, Pod
from iris_operator.api.slice import Slice
from iris_operator.identity.certificates import Request, Subject, make_request, new_key
from iris_operator.identity.judge import Claim, Deny, claim_of, judge
from iris_operator.identity.names import POD_NAME_CLAIM, POD_UID_CLAIM
from tests.builders import NAMESPACE, slice_, worker

UID = "uid-s-worker-0"
HOST = f"{UID}.agent.iris.dev"
OURS = Subject(HOST, (HOST,), ("10.0.0.7",))
USER = f"system:serviceaccount:{NAMESPACE}:iris-agent"
EXTRA = {POD_NAME_CLAIM: ["s-worker-0"], POD_UID_CLAIM: [UID]}


def asked(subject: Subject = OURS, **spec: Any) -> CertificateSigningRequest:
    """The request of the agent of `worker()`, but for the fields given."""
    full = {
        "request": base64.b64encode(make_request(new_key(), subject)).decode(),
        "signerName": "iris.dev/agent", "usages": ["digital signature", "server auth"], "username": USER,
        "extra": EXTRA, **spec,
    }  # fmt: skip
    return CertificateSigningRequest.parse({"metadata": {"name": "c"}, "spec": full})


def pod(**meta: Any) -> Pod:
    owner = {"apiVersion": "iris.dev/v1alpha1", "kind": "Slice", "name": "s", "uid": "uid-s"}
    return worker().meta(**{"ownerReferences": [owner], **meta}).status(hostIP="10.0.0.7").build()


def verdict(request: CertificateSigningRequest, found: Pod | None = None, owner: Slice | None = None) -> Request | Deny:
    claim = claim_of(request)
    if isinstance(claim, Deny):
        return claim
    return judge(request, claim, found or pod(), owner or slice_().build(), "iris-agent")


def test_an_agents_own_request_is_signed_as_asked() -> None:
    found = verdict(asked())
    assert isinstance(found, Request)
    assert found.subject == OURS


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (asked(username="ann"), "no ServiceAccount"),
        (asked(username=f"system:serviceaccount:{NAMESPACE}:default"), "run as ServiceAccount iris-agent"),
        (asked(extra={POD_NAME_CLAIM: ["s-worker-0"]}), "bound to no Pod"),
        (asked(extra={**EXTRA, POD_UID_CLAIM: ["another"]}), "no Pod"),
        (asked(usages=["digital signature", "client auth"]), "client auth"),
        (asked(request=base64.b64encode(b"hello").decode()), "no certificate request"),
        (asked(Subject("iris-gateway", (HOST,))), "not for iris-gateway"),
        (asked(Subject(HOST, (HOST, "iris-gateway.iris.svc"))), "iris-gateway.iris.svc"),
        (asked(Subject(HOST, ("uid-s-worker-1.agent.iris.dev",))), "uid-s-worker-1"),
        (asked(Subject(HOST, (HOST,), ("10.0.0.8",))), "10.0.0.8"),
    ],
)
def test_what_else_is_asked_is_denied_with_a_word(request_: CertificateSigningRequest, words: str) -> None:
    found = verdict(request_)
    assert isinstance(found, Deny)
    assert words in found.message


@pytest.mark.parametrize(
    ("found", "owner", "words"),
    [
        (pod(uid="another"), None, "no Pod"),
        (pod(labels={}), None, "no worker Pod"),
        (pod(labels={"iris-managed": "true", "iris.dev/slice": "other", "iris.dev/rank": "0"}), None, "no Slice"),
        (pod(ownerReferences=[]), None, "no Slice"),
        (None, slice_().meta(uid="made-anew").build(), "no Slice"),
        (pod(labels={"iris-managed": "true", "iris.dev/slice": "s", "iris.dev/rank": "1"}), None, "rank 1"),
        (pod(labels={"iris-managed": "true", "iris.dev/slice": "s", "iris.dev/rank": "x"}), None, "rank x"),
    ],
)
def test_a_pod_that_only_looks_like_a_worker_is_denied(found: Pod | None, owner: Slice | None, words: str) -> None:
    denied = verdict(asked(), found, owner)
    assert isinstance(denied, Deny)
    assert words in denied.message


def test_on_a_network_of_its_own_the_pods_address_is_its_name() -> None:
    mine = asked(Subject(HOST, (HOST,), ("172.16.0.9",)))
    owner = {"apiVersion": "iris.dev/v1alpha1", "kind": "Slice", "name": "s", "uid": "uid-s"}
    there = worker().meta(ownerReferences=[owner]).status(hostIP="10.0.0.7", podIP="172.16.0.9").build()
    assert isinstance(verdict(mine, there), Request)
    nodes = verdict(asked(), there)
    assert isinstance(nodes, Deny)
    assert "172.16.0.9, not on 10.0.0.7" in nodes.message
    assert not nodes.not_yet
    early = verdict(mine, pod())  # the kubelet has told the API of no address yet
    assert isinstance(early, Deny)
    assert early.not_yet


def test_a_pod_that_is_gone_is_denied() -> None:
    claim = claim_of(asked())
    assert isinstance(claim, Claim)
    assert isinstance(judge(asked(), claim, None, None, "iris-agent"), Deny)
