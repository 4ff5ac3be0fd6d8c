"""The operator's Deployment and Service, and the IrisCluster it is given."""

from __future__ import annotations

import subprocess
import tomllib
from typing import Any

import pytest
import yaml

from iris_devcluster.images.programs import program
from iris_operator.api.cluster import IrisCluster
from iris_operator.api.names import CONTROLLER_PORT
from tests.unit.chart.rendering import CHART, Chart, Rendered

pytestmark = pytest.mark.cluster


def _pod(rendered: Rendered) -> dict[str, Any]:
    spec: dict[str, Any] = rendered.one("Deployment", "iris-operator")["spec"]["template"]["spec"]
    return spec


def _clusters(rendered: Rendered) -> list[dict[str, Any]]:
    text = rendered.one("ConfigMap", "iris-cluster")["data"]["cluster.yaml"]
    return [each for each in yaml.safe_load_all(text) if each]


def test_helm_lint_has_nothing_to_say() -> None:
    argv = [str(program("helm")), "lint", "--strict", "--quiet", str(CHART)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "")


def test_versions_are_those_of_the_project() -> None:
    version = tomllib.loads((CHART.parents[1] / "pyproject.toml").read_text())["project"]["version"]
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (about["version"], about["appVersion"]) == (version, version)


def test_the_operator_is_told_namespaces_and_its_cluster_file(chart: Chart) -> None:
    rendered = chart.render({"watchNamespaces": ["ml", "research"]})
    (container,) = _pod(rendered)["containers"]
    assert container["command"] == ["iris-operator"]
    assert container["args"] == [
        "run",
        "--namespace=ml",
        "--namespace=research",
        "--cluster-file=/etc/iris/cluster.yaml",
        f"--port={CONTROLLER_PORT}",
        "--log-level=INFO",
    ]
    assert {each["name"] for each in container["env"]} == {"POD_NAME", "POD_NAMESPACE"}
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "cluster"]
    assert mount["mountPath"] == "/etc/iris"


def test_the_operator_has_no_privilege(chart: Chart) -> None:
    pod = _pod(chart.render())
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_gateway_has_no_privilege_and_a_service_of_its_own(chart: Chart) -> None:
    rendered = chart.render({"gateway": {"replicas": 2}})
    deployment = rendered.one("Deployment", "iris-gateway")["spec"]
    pod, operator = deployment["template"]["spec"], _pod(rendered)
    assert deployment["replicas"] == 2
    assert pod["securityContext"] == operator["securityContext"]
    assert pod["containers"][0]["securityContext"] == operator["containers"][0]["securityContext"]
    assert pod["containers"][0]["image"] == operator["containers"][0]["image"]
    labels = deployment["template"]["metadata"]["labels"].items()
    assert deployment["selector"]["matchLabels"].items() <= labels
    assert rendered.one("Service", "iris-gateway")["spec"]["selector"].items() <= labels
    assert not rendered.one("Service", "iris-controller-svc")["spec"]["selector"].items() <= labels
    service = rendered.one("APIService", "v1alpha1.stream.iris.dev")["spec"]["service"]
    assert service == {"name": "iris-gateway", "namespace": "iris-system", "port": 443}


def test_service_probes_and_port_follow_one_value(chart: Chart) -> None:
    rendered = chart.render({"service": {"port": 12000, "name": "iris-api"}})
    (container,) = _pod(rendered)["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": 12000}]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": "http"}
    (port,) = rendered.one("Service", "iris-api")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (12000, "http")
    (cluster,) = _clusters(rendered)
    assert cluster["spec"]["controller"] == {"port": 12000, "serviceName": "iris-api"}


def test_the_service_finds_the_pods_and_the_deployment_its_own(chart: Chart) -> None:
    rendered = chart.render()
    deployment = rendered.one("Deployment", "iris-operator")["spec"]
    labels = deployment["template"]["metadata"]["labels"].items()
    assert deployment["selector"]["matchLabels"].items() <= labels
    assert rendered.one("Service", "iris-controller-svc")["spec"]["selector"].items() <= labels


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ({}, "iris/operator:0.1.0"),
        ({"tag": "v2"}, "iris/operator:v2"),
        ({"tag": "sha256:" + "a" * 64}, "iris/operator@sha256:" + "a" * 64),
        ({"repository": "mine/op"}, "mine/op:0.1.0"),
    ],
)
@pytest.mark.parametrize("registry", ["", "registry.iris:5000", "registry.iris:5000/ml/"])
def test_image_references(chart: Chart, image: dict[str, str], reference: str, registry: str) -> None:
    rendered = chart.render({"image": {"registry": registry}, "operator": {"image": image}})
    prefix = registry.rstrip("/") + "/" if registry else ""
    assert _pod(rendered)["containers"][0]["image"] == prefix + reference


class TestCluster:
    def test_is_one_per_namespace_and_valid(self, chart: Chart) -> None:
        bodies = _clusters(chart.render({"watchNamespaces": ["a", "b"], "image": {"registry": "r:5000"}}))
        models = [IrisCluster.parse(body) for body in bodies]
        assert [(each.metadata.namespace, each.metadata.name) for each in models] == [
            ("a", "default"),
            ("b", "default"),
        ]
        assert models[0].spec.images.agent == "r:5000/iris/agent:0.1.0"
        assert models[0].spec.worker.service_account_name == "iris-agent"

    def test_takes_pull_secrets_and_pull_policy_from_the_images(self, chart: Chart) -> None:
        rendered = chart.render({"image": {"pullSecrets": ["one", "two"], "pullPolicy": "Always"}})
        secrets = [{"name": "one"}, {"name": "two"}]
        (cluster,) = _clusters(rendered)
        assert cluster["spec"]["worker"]["imagePullSecrets"] == secrets
        assert cluster["spec"]["images"]["pullPolicy"] == "Always"
        assert _pod(rendered)["imagePullSecrets"] == secrets

    def test_has_what_the_user_says_above_all(self, chart: Chart) -> None:
        spec = {"images": {"agent": "mine:1"}, "timeouts": {"bootSeconds": 60}}
        (cluster,) = _clusters(chart.render({"cluster": {"spec": spec}}))
        assert cluster["spec"]["images"] == {"agent": "mine:1", "pullPolicy": "IfNotPresent"}
        assert cluster["spec"]["timeouts"] == {"bootSeconds": 60}

    def test_restarts_the_operator_when_it_changes(self, chart: Chart) -> None:
        def checksum(spec: dict[str, Any]) -> str:
            pod = chart.render({"cluster": {"spec": spec}}).one("Deployment", "iris-operator")["spec"]["template"]
            return str(pod["metadata"]["annotations"]["iris.dev/cluster-checksum"])

        assert checksum({}) != checksum({"timeouts": {"bootSeconds": 60}})

    def test_can_be_left_to_the_user(self, chart: Chart) -> None:
        rendered = chart.render({"cluster": {"create": False}})
        assert not rendered.all("ConfigMap")
        assert not any("cluster" in each for each in _pod(rendered)["containers"][0]["args"])
        assert [each["name"] for each in _pod(rendered)["volumes"]] == ["tmp"]
