"""Ports: found, refused, remembered, told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris_operator.agent.node.ports import (
    FIRST,
    LAST,
    HostPorts,
    PortTaken,
    allot,
    from_label,
    host_ports,
    read_tables,
    resolve,
    to_label,
    variables,
)
from iris_operator.api.probe import PortStatus
from iris_runtimes.errors import InvalidSpec
from tests.unit.iris_operator.agent.build import task
from tests.unit.iris_operator.agent.harness import Node, until

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 635 1 0000000018c58adc 100 0 0 10 0
   1: 0100007F:4E21 0100007F:8F7D 06 00000000:00000000 03:000002E3 00000000     0        0 0 3 00000000d2ffb21f
"""
UDP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt
   0: 00000000000000000000000000000000:0035 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000
"""


def port(name: str, number: int = 0, protocol: str = "TCP") -> dict[str, Any]:
    return {"name": name, "containerPort": number, "protocol": protocol}


def test_the_kernels_tables_are_read() -> None:
    found = read_tables([("TCP", TCP), ("UDP", UDP6)])
    assert found.used == {("TCP", 8080), ("TCP", 20001), ("UDP", 53)}
    assert found.served == {("TCP", 8080), ("UDP", 53)}


def test_this_machines_tables_are_read_and_absent_ones_are_empty(tmp_path: Path) -> None:
    assert all(0 <= number <= 65535 for _, number in host_ports().used)
    assert host_ports(tmp_path) == HostPorts()
    (tmp_path / "tcp").write_text(TCP)
    assert host_ports(tmp_path).served == {("TCP", 8080)}


def test_numbers_are_found_between_what_is_used() -> None:
    wanted = task(ports=[port("a"), port("b"), port("c", 9000), port("d", 0, "UDP")])
    first = allot(wanted, {}, HostPorts(), "n")
    assert [one.name for one in first] == ["a", "b", "c", "d"]
    assert first[2].port == 9000
    assert all(FIRST <= one.port <= LAST for one in (first[0], first[1], first[3]))
    others = {("TCP", first[0].port): "other"}
    again = allot(wanted, others, HostPorts(used=frozenset({("TCP", first[1].port)})), "n")
    numbers = {first[0].port, first[1].port, again[0].port, again[1].port}
    assert len(numbers) == 4


REFUSED = {
    "by a Task": ({("TCP", 8080): "web"}, HostPorts(), "port 8080 is taken on node n by Task web"),
    "by another program": (
        {},
        HostPorts(served=frozenset({("TCP", 8080)})),
        "port 8080 is taken on node n by a process that is no Task's",
    ),
}


@pytest.mark.parametrize(("taken", "host", "words"), REFUSED.values(), ids=REFUSED)
def test_a_fixed_port_that_is_taken_is_refused(taken: Any, host: HostPorts, words: str) -> None:
    with pytest.raises(PortTaken) as refused:
        allot(task(ports=[port("http", 8080)]), taken, host, "n")
    assert str(refused.value) == words


def test_a_fixed_port_is_free_beside_another_protocol_and_what_just_lingers() -> None:
    host = HostPorts(used=frozenset({("TCP", 8080)}), served=frozenset({("UDP", 8080)}))
    assert allot(task(ports=[port("http", 8080)]), {("UDP", 8080): "dns"}, host, "n")[0].port == 8080


def test_a_container_that_stays_may_serve_its_port_already() -> None:
    stays = task(ports=[port("ssh", 2224)], containerLifetime={"policy": "Persistent", "name": "dev"})
    assert allot(stays, {}, HostPorts(served=frozenset({("TCP", 2224)})), "n")[0].port == 2224


def test_no_free_number_is_said() -> None:
    full = HostPorts(used=frozenset(("TCP", number) for number in range(FIRST, LAST + 1)))
    with pytest.raises(PortTaken, match=f"no free TCP port from {FIRST} to {LAST} on node n for http"):
        allot(task(ports=[port("http")]), {}, full, "n")


def test_a_probe_of_no_port_is_the_users_mistake() -> None:
    probe = {"httpGet": {"port": "web"}}
    with pytest.raises(InvalidSpec, match=r"readinessProbe: port 'web' is no number .*: http, b"):
        allot(task(ports=[port("http"), port("b")], readinessProbe=probe), {}, HostPorts(), "n")
    allot(task(ports=[port("web")], readinessProbe=probe), {}, HostPorts(), "n")


@pytest.mark.parametrize(
    ("asked", "found"),
    [("http", 20001), (80, 80), ("81", 81), ("nope", None), (0, None), (70000, None), ("70000", None), ("²", None)],
)
def test_a_port_is_a_name_or_a_number(asked: int | str, found: int | None) -> None:
    assert resolve(asked, {"http": 20001}) == found


def test_the_command_is_told_in_its_environment() -> None:
    assert variables([PortStatus(name="my-http", port=8080)]) == [("IRIS_PORT_MY_HTTP", "8080")]


@given(st.lists(st.builds(PortStatus, name=st.from_regex(r"[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?", fullmatch=True),
                          port=st.integers(1, 65535), protocol=st.sampled_from(["TCP", "UDP"])), max_size=32))  # fmt: skip
def test_a_label_tells_them_back(ports: list[PortStatus]) -> None:
    assert from_label(to_label(ports)) == tuple(ports)


@given(st.text())
def test_any_label_is_read(text: str) -> None:
    assert all(1 <= one.port <= 65535 for one in from_label(text))


async def test_tasks_of_a_node_never_share_a_port_nor_after_a_restart(node: Node) -> None:
    web = [port("http"), port("admin")]
    async with node.agent():
        uids = [await node.bind(f"t{number}", ("sleep", "9"), ports=web) for number in range(6)]
        for number in range(6):
            status = await node.phase("Running", f"t{number}")
            assert [one["name"] for one in status["ports"]] == ["http", "admin"]
    async with node.agent():
        uids += [await node.bind(f"u{number}", ("sleep", "9"), ports=web) for number in range(6)]
        for number in range(6):
            await node.phase("Running", f"u{number}")
    envs = [dict(node.runtime.specs[f"task-{uid}-1"].env) for uid in uids]
    assert len({env[name] for env in envs for name in ("IRIS_PORT_HTTP", "IRIS_PORT_ADMIN")}) == 24


async def test_the_second_of_two_with_one_port_waits_and_says_so(node: Node) -> None:
    fixed = [port("http", 19999)]
    async with node.agent():
        first = await node.bind("first", ("sleep", "9"), ports=fixed)
        await node.phase("Running", "first")
        second = await node.bind("second", ("sleep", "9"), ports=fixed)
        told = await node.phase("Building", "second")
        assert told["reason"] == "PortTaken"
        assert "port 19999 is taken on node node-1 by Task first" in told["message"]
        assert f"task-{second}-1" not in node.runtime.sandboxes
        node.runtime.finish(f"task-{first}-1", 0)
        status = await node.phase("Running", "second")
    assert status["ports"] == [{"name": "http", "port": 19999, "protocol": "TCP"}]


async def test_a_task_without_ports_is_told_its_address_alone(node: Node) -> None:
    async with node.agent():
        uid = await node.bind(command=("sleep", "9"))
        status = await node.phase("Running")
        await until(lambda: f"task-{uid}-1" in node.runtime.specs)
    assert "ports" not in status
    assert not [name for name, _ in node.runtime.specs[f"task-{uid}-1"].env if name.startswith("IRIS_PORT")]
