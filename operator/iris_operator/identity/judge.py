"""Whether a CertificateSigningRequest is one of an agent of ours, and about itself only. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from iris_operator.api.core import CertificateSigningRequest, Pod
from iris_operator.api.names import LABEL_MANAGED, LABEL_RANK, LABEL_SLICE, worker_pod_name
from iris_operator.api.slice import Slice
from iris_operator.identity.certificates import BadPem, Request, read_request
from iris_operator.identity.names import POD_NAME_CLAIM, POD_UID_CLAIM, agent_host

_USAGES = {"digital signature", "server auth"}
_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True)
class Claim:
    """Who the API server says has asked: a ServiceAccount, by a token bound to a Pod, or to none (both empty)."""

    namespace: str
    account: str
    pod_name: str
    pod_uid: str


@dataclass(frozen=True)
class Deny:
    """It is not signed; `message` says why. `not_yet`: what it asks for may be true in a moment."""

    message: str
    not_yet: bool = False


def claim_of(asked: CertificateSigningRequest) -> Claim | Deny:
    """Whose request it is."""
    user = asked.spec.username
    if not user.startswith(_PREFIX) or user.count(":") != 3:
        return Deny(f"{user} is no ServiceAccount: only agents in their worker Pods get certificates of this signer")
    namespace, account = user.removeprefix(_PREFIX).split(":")
    names, uids = (asked.spec.extra.get(claim, []) for claim in (POD_NAME_CLAIM, POD_UID_CLAIM))
    if not names and not uids:
        return Claim(namespace, account, "", "")
    if len(names) != 1 or len(uids) != 1:
        return Deny(f"the token of {user} is bound to no Pod")
    return Claim(namespace, account, names[0], uids[0])


def judge(
    asked: CertificateSigningRequest, claim: Claim, pod: Pod | None, owner: Slice | None, account: str
) -> Request | Deny:
    """What to sign. `pod`: the Pod of the claim's name; `owner`: the Slice that its label names; `account`: the workers'."""
    why_not = _foreign(claim, pod, owner, account)
    if why_not or pod is None:
        return Deny(why_not)
    # The kubelet tells the Pod its address sooner than the API.
    return checked(asked, f"Pod {claim.pod_name}", claim.pod_uid, pod.status.address, early=not pod.status.pod_ip)


def checked(
    asked: CertificateSigningRequest, who: str, uid: str, address: str, *, early: bool = False
) -> Request | Deny:
    """The request, if it is for that worker's own name and address, and for nothing else. `early`: it may have another
    address in a moment."""
    if why_not := _overreaching(asked):
        return Deny(why_not)
    try:
        request = read_request(asked.spec.request)
    except BadPem as error:
        return Deny(str(error))
    host, subject = agent_host(uid), request.subject
    if subject.common_name != host or subject.hosts != (host,):
        return Deny(f"{who} may ask for the name {host}, not for {_shown(subject.common_name, subject.hosts)}")
    if set(subject.addresses) - {address}:
        words = f"{who} is on {address or 'no address'}, not on {', '.join(subject.addresses)}"
        return Deny(words, not_yet=early)
    if request.others:
        return Deny(f"it asks for more than a name: {', '.join(request.others)}")
    return request


def _foreign(claim: Claim, pod: Pod | None, owner: Slice | None, account: str) -> str:
    """Why the one who asks is no agent of ours; empty when it is one."""
    if claim.account != account:
        return f"agents run as ServiceAccount {account}, not {claim.account}"
    if pod is None or pod.metadata.uid != claim.pod_uid:
        return f"there is no Pod {claim.namespace}/{claim.pod_name} of uid {claim.pod_uid}"
    labels = pod.metadata.labels
    if labels.get(LABEL_MANAGED) != "true" or LABEL_SLICE not in labels or LABEL_RANK not in labels:
        return f"Pod {claim.pod_name} is no worker Pod"
    if owner is None or owner.metadata.name != labels[LABEL_SLICE] or not _owned(pod, owner):
        return f"Pod {claim.pod_name} belongs to no Slice of ours"
    rank = labels[LABEL_RANK]
    if not rank.isdigit() or worker_pod_name(owner.metadata.name, int(rank)) != pod.metadata.name:
        return f"Pod {claim.pod_name} is not the worker of rank {rank} of Slice {owner.metadata.name}"
    return f"Pod {claim.pod_name} has ended" if pod.ended else ""


def _owned(pod: Pod, owner: Slice) -> bool:
    references = pod.metadata.owner_references
    return any(one.kind == Slice.KIND and one.uid == owner.metadata.uid for one in references)


def _overreaching(asked: CertificateSigningRequest) -> str:
    extra = sorted(set(asked.spec.usages) - _USAGES)
    return f"it asks for the usage {', '.join(extra)}; an agent only serves" if extra else ""


def _shown(common_name: str, hosts: tuple[str, ...]) -> str:
    return ", ".join(dict.fromkeys((common_name, *hosts))) or "no name"
