"""What a Task can be given, on a real node: environment, volumes of each kind, bundles; and that nothing of it is left."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from iris_devcluster.nodes import Cluster
from tests.e2e.product.world import EXAMPLES, World

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("inputs_slice")]

_SLICE, _VALUE = "inputs", "hunter2-e2e"
_ALLOWED, _CLAIM = "/var/lib/e2e-allowed", "/var/cache/iris/e2e-claim"
_OBJECTS = f"""
apiVersion: v1
kind: PersistentVolume
metadata: {{name: e2e-inputs}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteMany]
  storageClassName: ""
  persistentVolumeReclaimPolicy: Retain
  hostPath: {{path: {_CLAIM}, type: DirectoryOrCreate}}
  claimRef: {{namespace: default, name: e2e-inputs}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: e2e-inputs}}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  volumeName: e2e-inputs
  resources: {{requests: {{storage: 1Gi}}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: e2e-inputs}}
stringData: {{password: {_VALUE}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: e2e-inputs}}
data: {{level: debug, 0bad: "", run.sh: "echo from the ConfigMap"}}
"""


@pytest.fixture(scope="module")
def inputs_slice(world: World) -> Iterator[None]:
    """A slice whose worker Pods mount a claim and a path of the node."""
    world.kubectl("apply", "-f", "-", stdin=_OBJECTS)
    world.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/e2e-inputs", "--timeout=60s")
    settings = {"policy": {"allowedHostPaths": [_ALLOWED]}, "worker": {"volumeClaims": [{"claimName": "e2e-inputs"}]}}
    _set(world, settings)
    world.apply("Slice", _SLICE, {"instanceType": "cd-gp-i64-erapids"})
    world.kubectl("wait", "--for=condition=Ready", f"slice/{_SLICE}", "--timeout=120s")
    yield
    world.kubectl("delete", "slice", _SLICE, "--timeout=60s")
    _set(world, {"policy": {"allowedHostPaths": []}, "worker": {"volumeClaims": []}})


@pytest.fixture(scope="module")
def bundle(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URL and digest of an archive on a server of the test's own, where nodes reach it."""
    folder = tmp_path_factory.mktemp("served")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        script = b"#!/bin/sh\necho from HTTP\n"
        info = tarfile.TarInfo("bin/run.sh")
        info.size, info.mode = len(script), 0o755
        archive.addfile(info, io.BytesIO(script))
    (folder / "code.tar.gz").write_bytes(out.getvalue())
    host = Cluster.open(world.root).registry_address.rpartition(":")[0]
    server = ThreadingHTTPServer((host, 0), partial(_Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{host}:{server.server_port}/code.tar.gz", f"sha256:{hashlib.sha256(out.getvalue()).hexdigest()}"
    server.shutdown()
    server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


def _set(world: World, spec: dict[str, Any]) -> None:
    world.kubectl("patch", "iriscluster", "default", "--type=merge", "-p", json.dumps({"spec": spec}))


def _task(world: World, name: str, script: str, volumes: dict[str, dict[str, Any]] | None = None, **spec: Any) -> None:
    """A Task on the slice; each volume is mounted at its name."""
    found = volumes or {}
    world.task(
        name, script, placement={"sliceName": _SLICE}, volumes=[{"name": key, **one} for key, one in found.items()],
        volumeMounts=[{"name": key, "mountPath": f"/{key}"} for key in found], **spec,
    )  # fmt: skip


def _log(world: World, name: str) -> list[str]:
    status = world.ended(name)
    log = world.iris("logs", name)
    assert status["phase"] == "Succeeded", (status, log)
    return log.splitlines()


def test_what_a_task_names_it_gets(world: World, bundle: tuple[str, str]) -> None:
    script = """set -e
        echo "$PASSWORD $LEVEL $ALL_level ${OPTIONAL-none}"; test -n "$WHERE"
        cat /secret/password; echo; cat /config/level; echo; cat /one; echo
        for place in secret memory; do grep -c " /$place tmpfs" /proc/mounts; done
        for place in scratch memory cache; do echo "$place" >/$place/word; cat /$place/word; done
        if echo x 2>/dev/null >/bundle/x; then echo writable; fi
        sh /bundle/run.sh"""
    volumes: dict[str, dict[str, Any]] = {
        "secret": {"secret": {"secretName": "e2e-inputs", "defaultMode": 0o400}},
        "config": {"configMap": {"name": "e2e-inputs", "items": [{"key": "level", "path": "level"}]}},
        "scratch": {"emptyDir": {"sizeLimit": "1Gi"}},
        "memory": {"emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
        "cache": {"nodeCache": {"name": "e2e"}},
    }
    world.apply("Task", "given", {
        "image": "iris/task:dev", "command": ["sh", "-c", script], "placement": {"sliceName": _SLICE},
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1000},
        "env": [
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "e2e-inputs", "key": "password"}}},
            {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "e2e-inputs", "key": "level"}}},
            {"name": "OPTIONAL", "valueFrom": {"secretKeyRef": {"name": "no", "key": "no", "optional": True}}},
            {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        ],
        "envFrom": [{"prefix": "ALL_", "configMapRef": {"name": "e2e-inputs"}}, {"configMapRef": {"name": "e2e-inputs"}}],
        "volumes": [{"name": key, **one} for key, one in volumes.items()],
        "volumeMounts": [*({"name": key, "mountPath": f"/{key}"} for key in volumes),
                         {"name": "config", "mountPath": "/one", "subPath": "level"}],
        "bundle": {"configMap": {"name": "e2e-inputs"}},
    })  # fmt: skip
    url, digest = bundle
    assert _log(world, "given") == [
        f"{_VALUE} debug debug none", _VALUE, "debug", "debug", "1", "1", "scratch", "memory", "cache",
        "from the ConfigMap",
    ]  # fmt: skip

    events = json.loads(world.kubectl("get", "events.v1.events.k8s.io", "-o", "json"))["items"]
    notes = [one["note"] for one in events if one["reason"] == "InvalidEnvironmentVariableNames"]
    assert notes == ["left out of envFrom: ConfigMap e2e-inputs: 0bad is no name of a variable"]

    # The next Task of the namespace finds the cache; what is on the node outlives Tasks.
    more = {
        "cache": {"nodeCache": {"name": "e2e"}},
        "claim": {"persistentVolumeClaim": {"claimName": "e2e-inputs"}},
        "host": {"hostPath": {"path": f"{_ALLOWED}/made", "type": "DirectoryOrCreate"}},
    }
    write = "set -e; cat /cache/word; echo kept >/claim/word; echo kept >/host/word; /bundle/bin/run.sh"
    _task(world, "given-more", write, more, bundle={"http": {"url": url}, "digest": digest})
    assert _log(world, "given-more") == ["cache", "from HTTP"]
    _task(world, "given-again", "cat /claim/word /host/word", more)
    assert _log(world, "given-again") == ["kept", "kept"]


def test_what_it_must_not_have_it_does_not_get(world: World, bundle: tuple[str, str]) -> None:
    url, _ = bundle
    fill = "dd if=/dev/zero of=/scratch/f bs=1M count=8 && sleep 600"
    small = {"scratch": {"emptyDir": {"sizeLimit": "2Mi"}}}
    _task(world, "stuffed", fill, small, terminationGracePeriodSeconds=0)
    _task(world, "denied", "true", {"host": {"hostPath": {"path": "/etc"}}})
    _task(world, "unlike", "true", bundle={"http": {"url": url}, "digest": "sha256:" + "0" * 64})
    _task(world, "unfound", "true", bundle={"http": {"url": f"{url}.no"}, "digest": "sha256:" + "0" * 64})
    reasons = {name: world.ended(name)["reason"] for name in ("denied", "unlike", "unfound", "stuffed")}
    assert reasons == {
        "denied": "PolicyDenied", "unlike": "BundleDigestMismatch", "unfound": "BundleNotFound", "stuffed": "VolumeFull",
    }  # fmt: skip


def test_an_object_that_comes_later_is_waited_for(world: World) -> None:
    source = {"secretKeyRef": {"name": "e2e-late", "key": "word"}}
    _task(world, "early", 'echo "$WORD"', env=[{"name": "WORD", "valueFrom": source}])

    def told() -> bool:
        return ((world.get("task", "early") or {}).get("status") or {}).get("reason") == "SecretNotFound"

    world.until(told, "the missing Secret to be told")
    world.kubectl("create", "secret", "generic", "e2e-late", "--from-literal=word=came")
    assert _log(world, "early") == ["came"]


def test_the_example(world: World) -> None:
    world.kubectl("apply", "-f", str(EXAMPLES / "inputs.yaml"))
    lines = _log(world, "inputs")
    assert lines[0].startswith("level debug, attempt 1 on ")
    assert lines[0].endswith("; epochs: 3")
    assert lines[1:] == ["the token is the same both ways", "1"]


def test_nothing_is_left_and_nothing_was_told(world: World) -> None:
    """After the others: their Tasks deleted, the node has none of their files; no Secret's value in logs and Events."""
    names = ["given", "given-more", "given-again", "denied", "unlike", "unfound", "stuffed", "early", "inputs"]
    world.kubectl("delete", "task", *names, "--ignore-not-found", "--timeout=60s")
    files = _found(world, "/var/cache/iris/attempts", "/var/cache/iris/trash", "/var/cache/iris/shared", "-type", "f")
    assert "/var/cache/iris/shared/default/e2e/word" in files  # so it does look
    assert [path for path in files if "/shared/" not in path] == []
    memory = _found(world, "/var/lib/kubelet/pods", "-path", "*/volumes/*~empty-dir/secrets/*", "-type", "f")
    assert _found(world, "/var/lib/kubelet/pods", "-path", "*/volumes/*~empty-dir/secrets")
    assert memory == []
    said = world.kubectl("logs", f"{_SLICE}-worker-0", "--tail=-1") + world.kubectl("get", "events", "-o", "yaml")
    assert "removing sandbox" in said
    assert _VALUE not in said
    assert _VALUE not in world.kubectl("get", "tasks", "-o", "yaml")


def _found(world: World, *arguments: str) -> list[str]:
    """What `find` finds on the slice's node."""
    shown = Cluster.open(world.root).node_exec(world.node_of(_SLICE), ["find", *arguments])
    out = shown.stdout.decode() if isinstance(shown.stdout, bytes) else shown.stdout
    return out.split()
