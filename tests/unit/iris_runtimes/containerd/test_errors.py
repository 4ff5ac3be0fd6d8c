"""Words of runc, containerd and registries, as seen, to typed errors."""

from __future__ import annotations

import pytest

from iris_runtimes import rpc
from iris_runtimes.containerd.pull_errors import pull_error
from iris_runtimes.containerd.start_errors import start_error
from iris_runtimes.errors import (
    CommandNotExecutable,
    CommandNotFound,
    ImageInvalid,
    ImageNotFound,
    ImagePullFailed,
    ImageUnauthorized,
    InvalidLimits,
    InvalidSpec,
    NodeFault,
    RuntimeFault,
    RuntimeUnavailable,
)
from tests.unit.iris_runtimes.containerd.build import failed

_RUNC = "failed to create shim task: OCI runtime create failed: runc create failed: "
_INIT = _RUNC + "unable to start container process: error during container init: "
_PULL = "failed to resolve image: unexpected status from HEAD request to http://r/v2/a/manifests/1?ns=r: "


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (_RUNC + 'unable to start container process: exec: "x": executable file not found in $PATH', CommandNotFound),
        (_RUNC + 'unable to start container process: exec: "x": stat x: no such file or directory', CommandNotFound),
        (_RUNC + 'unable to start container process: exec: "x": permission denied', CommandNotExecutable),
        (_RUNC + 'unable to start container process: exec: "x": is a directory', CommandNotExecutable),
        (_INIT + 'chdir to cwd ("/x") set in config.json failed: permission denied', InvalidSpec),
        (_RUNC + "Cwd must be an absolute path", InvalidSpec),
        (_INIT + "unable to set memory limit to 4096 (current usage: 1, peak usage: 2)", InvalidLimits),
        (
            _RUNC + "unable to start container process: container init was OOM-killed (memory limit too low?)",
            InvalidLimits,
        ),
        (_INIT + "unable to setup user: uids and gids must be in range 0-2147483647", InvalidSpec),
        (_INIT + 'error mounting "/a" to rootfs at "/b": stat /a: no such file or directory', NodeFault),
        ("write /x: no space left on device", NodeFault),
        ("something new", NodeFault),
    ],
)
def test_start(words: str, fault: type[RuntimeFault]) -> None:
    found = start_error(failed(words), "x", "image:1")
    assert type(found) is fault
    assert "\n" not in str(found)
    assert _RUNC not in str(found)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (_PULL + "401 Unauthorized", ImageUnauthorized),
        (_PULL + "403 Forbidden", ImageUnauthorized),
        ("failed to resolve image: failed to authorize: authorization failed", ImageUnauthorized),
        ("failed to resolve image: r/a:404: not found", ImageNotFound),
        (_PULL + "500 Internal Server Error", ImagePullFailed),
        (
            'failed to do request: Head "http://r:4040/v2/a/manifests/401": dial tcp: connection refused',
            ImagePullFailed,
        ),
        ("failed to extract layer: write /x: no space left on device", NodeFault),
        ("no match for platform in manifest: not found", ImageInvalid),
    ],
)
def test_pull(words: str, fault: type[RuntimeFault]) -> None:
    assert type(pull_error("r/a:1", failed(words), with_secret=False)) is fault


@pytest.mark.parametrize("code", [rpc.StatusCode.UNAVAILABLE, rpc.StatusCode.DEADLINE_EXCEEDED])
def test_no_answer_is_never_the_users_fault(code: rpc.StatusCode) -> None:
    words = "failed to connect to all addresses; last error: UNKNOWN: unix:/run/c.sock: connect failed: error: Connection refused"
    assert type(start_error(failed(words, code), "x", "i")) is RuntimeUnavailable
    found = pull_error("i", failed(words, code), with_secret=True)
    assert type(found) is RuntimeUnavailable
    assert str(found) == "containerd does not answer: Connection refused"
