"""Why a Task waits, fails to start, or ended: whose fault that is and what to do, by `status.reason`.

docs/operations.md shows the same rows, and a test compares them with each other and with what the code writes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """`whose`: for people. `do`: what a person can do."""

    whose: str
    do: str


_YOURS, _PLATFORM, _ADMIN, _NOBODY = "yours", "the platform's", "the administrator's", "nobody's"

WAITING = {
    "InsufficientResources": Reason(_NOBODY, "Wait for room, or add a slice or a ScaleGroup."),
    "Preempting": Reason(_NOBODY, "Wait: others leave it their room, within their grace periods."),
    "TooLarge": Reason(_YOURS, "Ask for less, or add a slice or group of larger nodes."),
    "NoSliceReady": Reason(_NOBODY, "Wait for a boot, or apply a Slice or a ScaleGroup."),
    "ScaleUpDelay": Reason(_NOBODY, "Wait: slices are made for it after autoscaler.scaleUpDelaySeconds."),
    "WaitingForBoot": Reason(_NOBODY, "Wait: a slice boots for it."),
    "WaitingForSlice": Reason(_NOBODY, "Wait: a slice on its way out is kept for it."),
    "AtMaxSlices": Reason(_ADMIN, "Raise maxSlices of the group, or wait for room."),
    "GroupBlocked": Reason(_PLATFORM, "iris group list says what blocks the group, and until when."),
    "GroupNotFound": Reason(_YOURS, "Make that ScaleGroup, or correct placement.scaleGroupName."),
    "SliceNotFound": Reason(_YOURS, "Make that Slice, or correct placement.sliceName."),
    "ClusterNotFound": Reason(_ADMIN, "Make the IrisCluster (the chart does), or correct clusterName."),
    "ClusterAmbiguous": Reason(_YOURS, "Name one of the IrisClusters in clusterName."),
    "BackOff": Reason(_YOURS, "It failed and rests before its next attempt: iris logs NAME --previous shows why."),
    "MemberNameTaken": Reason(_YOURS, "Delete the Task that the message names, or make this one anew under another name."),
    "Assigned": Reason(_PLATFORM, "Wait; if it stays, see its slice (kubectl get slices) and the worker Pod."),
}  # fmt: skip

STARTING = {
    "ImageNotFound": Reason(_YOURS, "Check spec.image: name, tag and registry."),
    "ImageUnauthorized": Reason(
        _YOURS, "Name a Secret of type kubernetes.io/dockerconfigjson in spec.imagePullSecrets."
    ),
    "ImageInvalid": Reason(_YOURS, "Check spec.image: it is no reference, or of another platform."),
    "ImagePullFailed": Reason(_PLATFORM, "Tried again: the registry is away or broke off."),
    "ImageRemoved": Reason(_PLATFORM, "Tried again: the image was collected just before the start."),
    "PullSecretInvalid": Reason(_YOURS, "Correct the Secret that spec.imagePullSecrets names."),
    "PullSecretUnread": Reason(_PLATFORM, "Tried again: the API server did not give the Secret."),
    "SecretNotFound": Reason(_YOURS, "Apply the Secret: it is looked for again until timeouts.buildingSeconds."),
    "ConfigMapNotFound": Reason(_YOURS, "Apply the ConfigMap: it is looked for again until timeouts.buildingSeconds."),
    "KeyNotFound": Reason(_YOURS, "Add the key to the object: it is looked for again until timeouts.buildingSeconds."),
    "ValueNotText": Reason(_YOURS, "A variable takes text without NUL: mount the key as a file instead."),
    "InputUnread": Reason(_PLATFORM, "Tried again: the API server did not give the object, or forbids the agent to read it."),
    "InputsFault": Reason(_PLATFORM, "Tried again: the node failed at it; see the agent's log."),
    "InvalidPath": Reason(_YOURS, "Correct the path that the message names."),
    "InvalidVolume": Reason(_YOURS, "Correct the volume or mount that the message names."),
    "SecretsUnmounted": Reason(_ADMIN, "Tried again: the worker Pod lacks its tmpfs for Secrets; make its slice anew."),
    "HostPathMissing": Reason(_YOURS, "Make the path on the node, or use type DirectoryOrCreate: it is looked for again."),
    "HostPathInvalid": Reason(_YOURS, "The path is not of the type that hostPath.type asks for."),
    "BundleNotFound": Reason(_YOURS, "Check the bundle's URL, key or path."),
    "BundleUnauthorized": Reason(_YOURS, "Check the bundle's secretName, and what that Secret may read."),
    "BundleSecretInvalid": Reason(_YOURS, "Give the bundle's Secret the keys that the message names."),
    "BundleRefused": Reason(_YOURS, "The server refuses the bundle's request: see its answer in the message."),
    "BundleDigestMismatch": Reason(_YOURS, "Set bundle.digest to what sha256sum prints, or bring the archive back."),
    "BundleInvalid": Reason(_YOURS, "Make the archive anew: .tar, .tar.gz, .tgz, .tar.zst or .zip, no path out of it."),
    "BundleTooLarge": Reason(_YOURS, "Mount a volume instead, or bring less."),
    "BundleUnreachable": Reason(_PLATFORM, "Tried again: the server is away, or the node has no way there."),
    "BundleDiskFull": Reason(_PLATFORM, "Tried again: the node's disk is full; images are collected."),
    "PortTaken": Reason(_YOURS, "Waits for the port: let containerPort be 0, or end what has it."),
    "GPUsBusy": Reason(_PLATFORM, "Tried again: the node's GPUs are not free yet."),
    "TooManyTasks": Reason(_PLATFORM, "Tried again: the node has worker.maxTasks already."),
    "ContainerNotRunning": Reason(_YOURS, "Run a Task with policy Persistent there first: NoLaunch starts no container."),
    "ContainerImageMismatch": Reason(_YOURS, "Name the image that the container runs, or another container."),
    "ContainerImageUnknown": Reason(_PLATFORM, "End the persistent container, or use another name."),
    "ContainerPartlyRunning": Reason(_YOURS, "End the container where it runs, or use another name: all nodes have it, or none."),
    "WaitingForMembers": Reason(_NOBODY, "Wait: all members tell what their nodes have of the container, then all go on."),
    "ContainerTooSmall": Reason(_YOURS, "Ask for no more GPUs than the persistent container has, or use another name."),
    "CommandNotFound": Reason(_YOURS, "Check spec.command: it must be a program of the image, with its path or on PATH."),
    "CommandNotExecutable": Reason(_YOURS, "Make the file executable in the image, or start it with its interpreter."),
    "InvalidSpec": Reason(_YOURS, "Correct the field that the message names."),
    "NotSupported": Reason(_YOURS, "Leave the field out, or ask for slices of another runtime."),
    "NodeFault": Reason(_PLATFORM, "Tried again; if it stays, drain its slice."),
    "RuntimeUnavailable": Reason(_PLATFORM, "Tried again: containerd (or the Engine) does not answer on the node."),
    "SetupFailed": Reason(_YOURS, "iris logs NAME shows what the set-up command wrote."),
    "SetupScriptTooLarge": Reason(_YOURS, "Bring what the script does in a bundle or an image."),
    "BuildingTimeout": Reason(_YOURS, "Raise timeouts.buildingSeconds, or bring less: the message says what took so long."),
    "StartTimeout": Reason(_YOURS, "Raise containerLifetime.startTimeoutSeconds, or have the script do less."),
    "StartupProbeFailed": Reason(_YOURS, "Give it longer (failureThreshold, periodSeconds), or see its log."),
}  # fmt: skip

ENDED = {
    "Completed": Reason(_NOBODY, "Nothing: it is done."),
    "Error": Reason(_YOURS, "The command's own exit code: iris logs NAME. retryPolicy.user runs it again."),
    "OOMKilled": Reason(_YOURS, "Raise spec.resources.limits.memory, or have the command use less."),
    "VolumeFull": Reason(_YOURS, "Raise emptyDir.sizeLimit, or have the command write less."),
    "RunningTimeout": Reason(_YOURS, "Raise timeouts.runningSeconds, or have the command do less."),
    "LivenessProbeFailed": Reason(_YOURS, "See its log; if it was well, give the probe longer."),
    "PolicyDenied": Reason(_ADMIN, "Leave the field out, or have the named setting of the IrisCluster allow it."),
    "SchedulingTimeout": Reason(_NOBODY, "Raise timeouts.schedulingSeconds, or mend what it waited for: the message says it."),
    "WorkerLost": Reason(_PLATFORM, "Run again within retryPolicy.infrastructure; used up: delete the Task and apply it again."),
    "SandboxLost": Reason(_PLATFORM, "Run again within retryPolicy.infrastructure; used up: delete the Task and apply it again."),
    "SpotReclaimed": Reason(_PLATFORM, "Run again within retryPolicy.preemption; used up: raise it, or leave spot nodes."),
    "Preempted": Reason(_NOBODY, "Run again within retryPolicy.preemption; used up: raise it."),
    "SliceDrained": Reason(_NOBODY, "Placed elsewhere, at no charge."),
    "SliceDeleted": Reason(_NOBODY, "Placed elsewhere, at no charge."),
    "SliceFailed": Reason(_PLATFORM, "Placed elsewhere, at no charge."),
    "WorkerDeleted": Reason(_NOBODY, "Placed elsewhere, at no charge: its worker Pod was deleted."),
    "MembersRestart": Reason(_NOBODY, "Placed again with all members, at no charge: one member's attempt is repeated."),
    "MemberDeleted": Reason(_NOBODY, "All members begin anew, at no charge: somebody deleted one. Delete their Task to end all."),
    "MemberFailed": Reason(_NOBODY, "Ended since another member failed: iris why shows the Task that it belongs to."),
    "TaskDeleted": Reason(_NOBODY, "Nothing: somebody deleted it."),
}  # fmt: skip

REASONS = {**WAITING, **STARTING, **ENDED}


def rows(reasons: dict[str, Reason]) -> list[str]:
    """Lines of a Markdown table."""
    return [f"| `{name}` | {one.whose} | {one.do} |" for name, one in reasons.items()]
