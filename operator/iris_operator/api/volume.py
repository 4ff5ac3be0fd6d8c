"""Files and directories that a Task is given; names and meaning are those of a Pod's where it has them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from iris_operator.api.base import Model, Quantity
from iris_operator.api.rules import ABSOLUTE_PATH, RELATIVE_PATH, RELATIVE_PATH_OR_NONE, exactly_one, rules

_OBJECT = Field(min_length=1, max_length=253, description="Name of the object, in the Task's namespace.")
_MODE = Field(ge=0, le=0o777, description="Permissions of the files, such as 420 (0644 in octal).")
_ABSENT = Field(description="Whether the Task starts without it when the object or a named key is absent.")


class KeyToPath(Model):
    """One key as a file."""

    key: Annotated[str, Field(min_length=1, max_length=253, description="Key in the object.")]
    path: Annotated[
        str,
        Field(
            min_length=1,
            max_length=4096,
            pattern=RELATIVE_PATH,
            description="File's path below the volume, relative, without '..'.",
        ),
    ]


class EmptyDirVolume(Model):
    """An empty directory for this attempt alone; gone with it."""

    medium: Annotated[
        Literal["", "Memory"], Field(description="Memory: a tmpfs, which counts as the Task's memory. Empty: disk.")
    ] = ""
    size_limit: Annotated[
        Quantity | None,
        Field(
            description="Its most. On disk, a Task that goes over it fails, reason VolumeFull. Memory: 64Mi unless said."
        ),
    ] = None


class HostPathVolume(Model):
    """A path of the node; only below what IrisCluster spec.policy.allowedHostPaths names."""

    path: Annotated[
        str, Field(min_length=1, max_length=4096, pattern=ABSOLUTE_PATH, description="Absolute path, without '..'.")
    ]
    type: Annotated[
        Literal["", "Directory", "DirectoryOrCreate", "File"],
        Field(description="What must be there; DirectoryOrCreate makes it. Empty: anything."),
    ] = ""


class ConfigMapVolume(Model):
    """A ConfigMap's keys as files, as they are when the attempt starts."""

    name: Annotated[str, _OBJECT]
    items: Annotated[list[KeyToPath], Field(max_length=64, description="Only these keys. Empty: all, by name.")] = (
        Field(default_factory=list)
    )
    default_mode: Annotated[int, _MODE] = 0o644
    optional: Annotated[bool, _ABSENT] = False


class SecretVolume(Model):
    """A Secret's keys as files in memory, as they are when the attempt starts."""

    secret_name: Annotated[str, _OBJECT]
    items: Annotated[list[KeyToPath], Field(max_length=64, description="Only these keys. Empty: all, by name.")] = (
        Field(default_factory=list)
    )
    default_mode: Annotated[int, _MODE] = 0o644
    optional: Annotated[bool, _ABSENT] = False


class ClaimVolume(Model):
    """A PersistentVolumeClaim that the worker Pods mount: one of IrisCluster spec.worker.volumeClaims."""

    claim_name: Annotated[str, _OBJECT]
    read_only: Annotated[bool, Field(description="Mounted read-only.")] = False


class NodeCacheVolume(Model):
    """A directory on the node that all Tasks of the namespace share, and that outlives them; gone with the node."""

    name: Annotated[
        str,
        Field(
            max_length=63,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
            description="Which of the namespace's caches. Empty: the one named default.",
        ),
    ] = ""


class Volume(Model):
    """Something to mount: a name and exactly one source."""

    model_config = rules(
        exactly_one("a volume", "emptyDir", "hostPath", "configMap", "secret", "persistentVolumeClaim", "nodeCache")
    )

    name: Annotated[
        str,
        Field(
            min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", description="Name to mount it by."
        ),
    ]
    empty_dir: Annotated[
        EmptyDirVolume | None, Field(description="An empty directory for this attempt alone; gone with it.")
    ] = None
    host_path: Annotated[
        HostPathVolume | None,
        Field(description="A path of the node, below one of IrisCluster spec.policy.allowedHostPaths."),
    ] = None
    config_map: Annotated[
        ConfigMapVolume | None, Field(description="A ConfigMap's keys as files, as they are when the attempt starts.")
    ] = None
    secret: Annotated[
        SecretVolume | None,
        Field(description="A Secret's keys as files in memory, as they are when the attempt starts."),
    ] = None
    persistent_volume_claim: Annotated[
        ClaimVolume | None,
        Field(description="A claim that the worker Pods mount: one of IrisCluster spec.worker.volumeClaims."),
    ] = None
    node_cache: Annotated[
        NodeCacheVolume | None,
        Field(description="A directory on the node that all Tasks of the namespace share, and that outlives them."),
    ] = None


class VolumeMount(Model):
    """Where a volume appears in the container."""

    name: Annotated[str, Field(min_length=1, max_length=63, description="Name of the volume.")]
    mount_path: Annotated[
        str, Field(min_length=1, max_length=4096, pattern=r"^/.+$", description="Absolute path in the container.")
    ]
    sub_path: Annotated[
        str,
        Field(
            max_length=4096,
            pattern=RELATIVE_PATH_OR_NONE,
            description="Only this path below the volume, without '..'; of an emptyDir, a configMap or a secret.",
        ),
    ] = ""
    read_only: Annotated[bool, Field(description="Mounted read-only.")] = False


class HttpSource(Model):
    """An archive by URL."""

    url: Annotated[str, Field(max_length=4096, pattern=r"^https?://.+$", description="Where it is.")]
    secret_name: Annotated[
        str, Field(max_length=253, description="Secret with key token (Bearer), or username and password (Basic).")
    ] = ""


class S3Source(Model):
    """An archive in S3-compatible object storage."""

    endpoint: Annotated[
        str,
        Field(max_length=4096, pattern=r"^(https?://.+)?$", description="URL of the service. Empty: AWS', by region."),
    ] = ""
    region: Annotated[str, Field(max_length=63, description="Region to sign for.")] = "us-east-1"
    bucket: Annotated[str, Field(min_length=1, max_length=255, description="Bucket.")]
    key: Annotated[str, Field(min_length=1, max_length=1024, description="Key of the object.")]
    secret_name: Annotated[
        str, Field(max_length=253, description="Secret with keys accessKeyID and secretAccessKey. Empty: anonymous.")
    ] = ""


class ConfigMapSource(Model):
    """An archive in a ConfigMap's binaryData, or all its keys as files."""

    name: Annotated[str, _OBJECT]
    key: Annotated[
        str, Field(max_length=253, description="Key that holds an archive. Empty: the keys are the files.")
    ] = ""


class VolumeSource(Model):
    """An archive or a directory on one of the Task's volumes."""

    name: Annotated[str, Field(min_length=1, max_length=63, description="Name of the volume.")]
    path: Annotated[str, Field(max_length=4096, pattern=RELATIVE_PATH_OR_NONE, description="Path below it.")] = ""


class Bundle(Model):
    """Code brought to the container before its command: fetched once per node, by digest, mounted read-only.

    Exactly one source. An archive is .tar, .tar.gz, .tgz, .tar.zst or .zip; the digest is the archive's.
    """

    model_config = rules(
        exactly_one("bundle", "http", "s3", "configMap", "volume"),
        {
            "rule": "!(has(self.http) || has(self.s3)) || (has(self.digest) && self.digest != '')",
            "message": "bundle.digest is required for http and s3: the sha256 of the archive, as sha256sum prints it",
        },
    )

    digest: Annotated[
        str,
        Field(
            max_length=71,
            pattern=r"^(sha256:[0-9a-f]{64})?$",
            description="sha256 of the archive; what is fetched must have it. Required for http and s3.",
        ),
    ] = ""
    mount_path: Annotated[str, Field(max_length=4096, pattern=r"^/.+$", description="Where it appears.")] = "/bundle"
    http: Annotated[HttpSource | None, Field(description="An archive by URL.")] = None
    s3: Annotated[S3Source | None, Field(description="An archive in object storage.")] = None
    config_map: Annotated[ConfigMapSource | None, Field(description="From a ConfigMap.")] = None
    volume: Annotated[VolumeSource | None, Field(description="From one of the Task's volumes.")] = None
