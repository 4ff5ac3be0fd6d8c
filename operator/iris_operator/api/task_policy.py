"""That a Task's spec stays as it is: a ValidatingAdmissionPolicy beside the CRD.

As a CEL rule of the schema it would be evaluated at every write of status too, and there each field that is named has the API
server copy the schemas of all of them: 5 MB of garbage in the life of a Task, a fifth of what it costs the API server.
"""

from __future__ import annotations

from typing import Any

from iris_operator.api.names import GROUP

NAME = f"task-spec.{GROUP}"
MUTABLE = ("binding", "priority")
IMMUTABLE = "a Task's spec can't be changed: delete it and make another"
_API_VERSION = "admissionregistration.k8s.io/v1"
_KEPT = "[" + ", ".join(f"'{field}'" for field in MUTABLE) + "]"
_CHANGED = (
    f"object.spec.filter(f, !(f in {_KEPT}) && !(f in oldObject.spec && oldObject.spec[f] == object.spec[f]))"
    f" + oldObject.spec.filter(f, !(f in {_KEPT}) && !(f in object.spec))"
)


def policy() -> dict[str, Any]:
    """The policy; it names the fields that were changed."""
    return {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["tasks"]}
                ]
            },
            "variables": [{"name": "changed", "expression": _CHANGED}],
            "validations": [
                {
                    "expression": "variables.changed.size() == 0",
                    "reason": "Invalid",
                    "message": IMMUTABLE,
                    "messageExpression": f"\"{IMMUTABLE} (\" + variables.changed.join(', ') + ')'",
                }
            ],
        },
    }


def binding() -> dict[str, Any]:
    """What puts it in force, in every namespace."""
    return {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME, "validationActions": ["Deny"]},
    }
