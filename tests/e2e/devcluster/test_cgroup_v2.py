"""The cluster on cgroup v2.

On a machine with v1 it runs in a mount namespace that shows nothing but the v2 hierarchy. The controllers that v1
holds are missing there, so this shows layout, delegation, a Ready node and clean-up; on a v2 machine also a Pod.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from iris_devcluster import cgroups
from iris_devcluster.identity import prefix_of
from tests.e2e.devcluster.kit import Traces, assert_nothing_left

pytestmark = pytest.mark.e2e

ONLY_V2 = """
set -e
mount --make-rprivate /
test -e /sys/fs/cgroup/cgroup.controllers || { umount -l /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; }
exec "$@"
"""

RUN = """
import json, sys
from pathlib import Path
from iris_devcluster import lifecycle
from iris_devcluster.progress import Progress
from tests.e2e.devcluster.kit import busybox_pod, run_pod
root = Path(sys.argv[1])
try:
    cluster = lifecycle.up(root, "own", Progress())

    def inside(*argv):
        done = cluster.node_exec("system-0", list(argv))
        assert done.returncode == 0, (argv, done.stderr)
        return done.stdout.strip()

    controllers = inside("cat", "/sys/fs/cgroup/cgroup.controllers").split()
    container = "1"
    if "memory" in controllers:  # or no runtime can set what every container has
        run_pod(cluster, busybox_pod("one", "system-0", "exec /busybox sleep 12345"))
        container = inside("pgrep", "-f", "busybox sleep 12345", "--newest")
    supervisor = cluster.machine("system-0").pid()
    print(json.dumps({
        "supervisor": Path(f"/proc/{supervisor}/cgroup").read_text().split(),
        "inside": inside("cat", "/proc/1/cgroup").split(),
        "container": inside("cat", f"/proc/{container}/cgroup").split(),
        "groups": inside("ls", "/sys/fs/cgroup").split(),
        "kinds": sorted({line.split()[2] for line in inside("grep", " /sys/fs/cgroup", "/proc/mounts").splitlines()}),
        "delegated": inside("cat", "/sys/fs/cgroup/cgroup.subtree_control").split() == controllers,
    }))
finally:
    lifecycle.down(root, "own", Progress())
"""


def test_a_node_is_ready_on_cgroup_v2_and_nothing_is_left(tmp_path: Path) -> None:
    argv = ["unshare", "--mount", "sh", "-c", ONLY_V2, "v2", sys.executable, "-c", RUN, str(tmp_path / "root")]
    repository = Path(__file__).parents[3]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=180, cwd=repository, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    prefix = prefix_of(tmp_path / "root", "own")
    assert f"0::/{prefix}/system-0/init" in found["supervisor"]
    assert "0::/init" in found["inside"]
    assert any(line.startswith(("0::/kubepods/", "0::/init")) for line in found["container"])
    assert {"init", "kubepods"} <= set(found["groups"])
    assert found["kinds"] == ["cgroup2"]
    assert found["delegated"]
    assert_nothing_left(Traces(prefix, tmp_path / "root"))
    assert not list(cgroups.groups_below(prefix))
