"""When a worker Pod may leave the API: only once nothing that ran below it can run any more.

Its finalizer keeps the object, whoever deleted it and however. What the API shows of the end, in order:

- deletionTimestamp: asked for, by us or anyone; with `--force` the grace period is 0 from the beginning.
- phase Succeeded or Failed: the kubelet has stopped the Pod's containers. Nobody else says so of a Pod whose node
  stands (the Pod garbage collector does, of Pods whose Node object is gone).
- grace period 0: the kubelet has asked for the Pod's removal. It does that after it has killed what is left in the
  Pod's cgroup, our Tasks among it, and has removed the cgroup (kubelet, SyncTerminatedPod and status manager).

A forced deletion hides the last step: then the second must do, and a process that no SIGKILL ends (in the driver, say)
might outlive the Pod by as long as the kubelet needs for the cgroup. Hence: never delete a worker Pod by force.
"""

from __future__ import annotations

from iris_operator.api.core import Pod
from iris_operator.api.names import FINALIZER_WORKER


def may_leave(pod: Pod, node_stands: bool) -> bool:
    """Whether the finalizer of a worker Pod is to be taken off. `node_stands`: its Node object is in the API."""
    if not pod.deleting or FINALIZER_WORKER not in pod.metadata.finalizers:
        return False
    if not pod.spec.node_name or not node_stands:
        return True  # it never ran anywhere, or what ran it is gone
    return pod.ended and pod.metadata.deletion_grace_period_seconds == 0
