"""Who may do what: least rights, in the watched namespaces only."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.chart.rendering import Chart, Rendered

pytestmark = pytest.mark.cluster

_READ = {"get", "list", "watch"}
_WATCHED = {"watchNamespaces": ["ml", "research"]}


def _verbs(role: dict[str, Any], resource: str) -> set[str]:
    """What the role allows on `group/resource` of any name."""
    group, _, name = resource.partition("/")
    rules = [rule for rule in role["rules"] if group in rule["apiGroups"] and name in rule["resources"]]
    return {verb for rule in rules if "resourceNames" not in rule for verb in rule["verbs"]}


def _resources(role: dict[str, Any]) -> set[str]:
    return {f"{group}/{name}" for rule in role["rules"] for group in rule["apiGroups"] for name in rule["resources"]}


@pytest.fixture
def rendered(chart: Chart) -> Rendered:
    return chart.render(_WATCHED)


def test_nobody_gets_a_wildcard(rendered: Rendered) -> None:
    for role in (*rendered.all("Role"), *rendered.all("ClusterRole")):
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]], role["metadata"]["name"]


class TestOperator:
    def test_changes_only_node_pools_cluster_wide(self, rendered: Rendered) -> None:
        role = rendered.one("ClusterRole", "iris-system-iris-operator")
        requests = "certificates.k8s.io/certificatesigningrequests"
        writing = {name for name in _resources(role) if _verbs(role, name) - _READ}
        assert writing == {"compute.coreweave.com/nodepools", f"{requests}/approval", f"{requests}/status"}
        assert _verbs(role, "compute.coreweave.com/nodepools") == _READ | {"create", "patch", "delete"}
        assert _verbs(role, "/pods") == {"list", "watch"}

    def test_works_in_the_watched_namespaces(self, rendered: Rendered) -> None:
        roles = [each for each in rendered.all("Role") if each["metadata"]["name"] == "iris-operator"]
        assert [each["metadata"]["namespace"] for each in roles] == ["ml", "research"]
        for role in roles:
            assert _verbs(role, "/pods") == _READ | {"create", "patch", "delete"}
            assert _verbs(role, "iris.dev/tasks") == _READ | {"patch", "create", "delete"}
            assert _verbs(role, "iris.dev/slices") == _READ | {"patch", "create", "delete"}
            assert _verbs(role, "iris.dev/irisclusters") == _READ | {"patch", "create"}
            assert _verbs(role, "coordination.k8s.io/leases") == _READ
            slices = _verbs(role, "discovery.k8s.io/endpointslices")
            assert slices == {"list", "watch", "create", "patch", "delete"}
            assert not _verbs(role, "/secrets") | _verbs(role, "/serviceaccounts")

    def test_leads_by_its_own_lease_in_its_own_namespace(self, rendered: Rendered) -> None:
        role = rendered.one("Role", "iris-operator-leader", "iris-system")
        assert _verbs(role, "coordination.k8s.io/leases") == {"create"}
        (named,) = [rule for rule in role["rules"] if "resourceNames" in rule]
        assert (named["resourceNames"], set(named["verbs"])) == (["iris-operator"], {"get", "patch", "update"})

    def test_signs_for_agents_only_and_keeps_its_two_secrets(self, rendered: Rendered) -> None:
        wide = rendered.one("ClusterRole", "iris-system-iris-operator")
        (signer,) = [rule for rule in wide["rules"] if rule["resources"] == ["signers"]]
        assert signer["resourceNames"] == ["iris.dev/agent"]
        role = rendered.one("Role", "iris-operator-identity", "iris-system")
        assert _verbs(role, "/secrets") == {"create"}
        (named,) = [rule for rule in role["rules"] if "resourceNames" in rule]
        assert (named["resourceNames"], named["verbs"]) == (["iris-ca", "iris-gateway-tls"], ["get", "patch"])

    def test_lists_events_of_node_pools_and_no_others(self, rendered: Rendered) -> None:
        role = rendered.one("Role", "iris-system-iris-operator-events", "default")
        assert _resources(role) == {"events.k8s.io/events"}
        assert _verbs(role, "events.k8s.io/events") == {"list"}
        assert not _verbs(rendered.one("ClusterRole", "iris-system-iris-operator"), "events.k8s.io/events")

    def test_bindings_lead_to_its_account_in_the_release_namespace(self, rendered: Rendered) -> None:
        account = {"kind": "ServiceAccount", "name": "iris-operator", "namespace": "iris-system"}
        bindings = [
            each
            for each in (*rendered.all("RoleBinding"), *rendered.all("ClusterRoleBinding"))
            if "operator" in each["metadata"]["name"]
        ]
        assert len(bindings) == 6
        assert all(each["subjects"] == [account] for each in bindings)


class TestAgent:
    def test_has_its_account_and_role_in_each_watched_namespace(self, rendered: Rendered) -> None:
        for kind in ("ServiceAccount", "Role", "RoleBinding"):
            found = [each for each in rendered.all(kind) if each["metadata"]["name"] == "iris-agent"]
            assert [each["metadata"]["namespace"] for each in found] == ["ml", "research"]

    def test_reports_tasks_and_reads_named_secrets(self, rendered: Rendered) -> None:
        role = rendered.one("Role", "iris-agent", "ml")
        assert _verbs(role, "iris.dev/tasks") == _READ | {"patch"}
        assert _verbs(role, "iris.dev/tasks/status") == {"get", "patch"}
        assert _verbs(role, "coordination.k8s.io/leases") == {"get", "create", "patch", "update"}
        assert _verbs(role, "/secrets") == _verbs(role, "/configmaps") == {"get"}
        assert _verbs(role, "/pods") == {"get"}
        assert not _verbs(role, "iris.dev/slices")

    def test_asks_for_certificates_and_approves_none(self, rendered: Rendered) -> None:
        role = rendered.one("ClusterRole", "iris-system-iris-agent")
        assert _resources(role) == {"certificates.k8s.io/certificatesigningrequests"}
        assert _verbs(role, "certificates.k8s.io/certificatesigningrequests") == {"create", "get"}
        subjects = rendered.one("ClusterRoleBinding", "iris-system-iris-agent")["subjects"]
        assert [each["namespace"] for each in subjects] == ["ml", "research"]


class TestGateway:
    def test_changes_nothing(self, rendered: Rendered) -> None:
        for namespace in ("ml", "research"):
            role = rendered.one("Role", "iris-gateway", namespace)
            verbs = {name: _verbs(role, name) for name in _resources(role)}
            assert verbs == {
                "iris.dev/tasks": {"get"},
                "iris.dev/slices": {"get"},
                "/pods": {"list"},
                "coordination.k8s.io/leases": {"list"},
            }
        wide = rendered.one("ClusterRole", "iris-system-iris-gateway")
        assert {name: _verbs(wide, name) for name in _resources(wide)} == {
            "authorization.k8s.io/subjectaccessreviews": {"create"}
        }

    def test_reads_its_own_certificate_and_no_authority(self, rendered: Rendered) -> None:
        (rule,) = rendered.one("Role", "iris-gateway-certificate", "iris-system")["rules"]
        assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (["secrets"], ["iris-gateway-tls"], ["get"])

    def test_can_be_left_out(self, chart: Chart) -> None:
        found = chart.render({"gateway": {"create": False}})
        assert not [each for each in found.objects if "gateway" in each["metadata"]["name"]]
        assert not found.all("APIService")


def test_an_editor_may_act_through_the_gateway(rendered: Rendered) -> None:
    role = rendered.one("ClusterRole", "iris-edit")
    found = {name: _verbs(role, name) for name in _resources(role) if name.startswith("stream.iris.dev/")}
    assert found == {
        "stream.iris.dev/tasks/exec": {"get", "create"},
        "stream.iris.dev/tasks/portforward": {"get", "create"},
        "stream.iris.dev/tasks/profile": {"create"},
        "stream.iris.dev/slices/images": {"create", "delete"},
    }


@pytest.mark.parametrize(("name", "aggregate"), [("iris-view", "view"), ("iris-edit", "edit"), ("iris-admin", "admin")])
def test_user_roles_are_part_of_kubernetes_own(rendered: Rendered, name: str, aggregate: str) -> None:
    labels = rendered.one("ClusterRole", name)["metadata"]["labels"]
    assert labels[f"rbac.authorization.k8s.io/aggregate-to-{aggregate}"] == "true"


def test_a_viewer_reads_all_four_kinds_and_changes_none(rendered: Rendered) -> None:
    role = rendered.one("ClusterRole", "iris-view")
    kinds = ["iris.dev/irisclusters", "iris.dev/scalegroups", "iris.dev/slices", "iris.dev/tasks"]
    streams = ("tasks/log", "tasks/stats", "slices/stats", "slices/images")
    wanted = {**dict.fromkeys(kinds, _READ), "iris.dev/scalegroups/scale": {"get"}}
    wanted |= {f"stream.iris.dev/{name}": {"get"} for name in streams}
    assert {name: _verbs(role, name) for name in _resources(role)} == wanted


def test_a_second_installation_leaves_shared_things_alone(chart: Chart) -> None:
    values = {"crds": {"install": False}, "userRoles": {"create": False}, "gateway": {"create": False}}
    one, two = (chart.render(values, namespace) for namespace in ("a", "b"))
    wide = [
        {(each["kind"], each["metadata"]["name"]) for each in r.objects if "namespace" not in each["metadata"]}
        for r in (one, two)
    ]
    assert not wide[0] & wide[1]


def test_the_binding_policy_spares_the_operator_and_covers_the_watched_namespaces(chart: Chart) -> None:
    rendered = chart.render({**_WATCHED, "bindingPolicy": {"extraUsers": ["me@example.com"]}})
    policy = rendered.one("ValidatingAdmissionPolicy", "iris-system.task-binding.iris.dev")
    binding = rendered.one("ValidatingAdmissionPolicyBinding", "iris-system.task-binding.iris.dev")
    (condition,) = policy["spec"]["matchConditions"]
    assert "['system:serviceaccount:iris-system:iris-operator','me@example.com']" in condition["expression"].replace(
        "', '", "','"
    )
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    (selector,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert selector["values"] == ["ml", "research"]


@pytest.mark.parametrize(
    ("value", "name"), [("bindingPolicy", "task-binding.iris.dev"), ("deletionPolicy", "slice-deletion.iris.dev")]
)
def test_a_policy_covers_the_watched_namespaces_and_can_be_left_out(chart: Chart, value: str, name: str) -> None:
    binding = chart.render(_WATCHED).one("ValidatingAdmissionPolicyBinding", f"iris-system.{name}")
    (selector,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert selector["values"] == ["ml", "research"]
    without = chart.render({value: {"enabled": False}})
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        left = [each["metadata"]["name"] for each in without.all(kind)]
        assert f"iris-system.{name}" not in left
        assert len(left) == 2


class TestCrds:
    def test_are_those_that_are_generated_and_stay_on_uninstall(self, rendered: Rendered) -> None:
        crds = rendered.all("CustomResourceDefinition")
        assert sorted(each["spec"]["names"]["kind"] for each in crds) == ["IrisCluster", "ScaleGroup", "Slice", "Task"]
        assert all(each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for each in crds)

    def test_the_policy_of_tasks_goes_with_them(self, chart: Chart) -> None:
        for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
            found = [one for one in chart.render({}).all(kind) if one["metadata"]["name"] == "task-spec.iris.dev"]
            assert [one["metadata"]["annotations"]["helm.sh/resource-policy"] for one in found] == ["keep"]
        without = chart.render({"crds": {"install": False}}).all("ValidatingAdmissionPolicy")
        assert "task-spec.iris.dev" not in [one["metadata"]["name"] for one in without]

    def test_go_with_the_release_or_come_from_elsewhere_if_wanted(self, chart: Chart) -> None:
        dropped = chart.render({"crds": {"keep": False}}).all("CustomResourceDefinition")
        assert all("annotations" not in each["metadata"] for each in dropped)
        assert not chart.render({"crds": {"install": False}}).all("CustomResourceDefinition")
