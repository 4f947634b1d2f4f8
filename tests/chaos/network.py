"""A network of its own for each cluster: a namespace for each node, a router between all of them.

    node 1 (namespace) ---+
    node 2 (namespace) ---+--- router (namespace) --- this process
    node 3 (namespace) ---+

Every line is a pair of virtual Ethernet devices with a net of four addresses. Cuts are rules of the
router, which drop what goes one way between two addresses: connections stay open and silent, new
ones get no answer, and TCP goes on where it was when the rule is gone. Slow links are token buckets
at both ends of a node's line. All of it needs root and Linux's `ip` and `tc`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

# A number that no node has: the line to this process.
OUTSIDE = 0
SLOW_QUEUE_MS = 400


def unsupported() -> str:
    """Why there can be no such network here; empty if there can."""
    if os.geteuid() != 0:
        return "namespaces need root"
    missing = [name for name in ("ip", "tc", "mkfs.ext4", "mount") if shutil.which(name) is None]
    if missing:
        return f"there is no {', '.join(missing)}"
    name = f"kaa-{os.getpid()}-try"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "namespaces are not allowed"
    _run("ip", "netns", "del", name)
    return ""


class Network:
    """See the module's text. As a context it is there, and is gone at the end."""

    def __init__(self, node_ids: Iterable[int]) -> None:
        self._node_ids = list(node_ids)
        self._name = f"kaa-{os.getpid()}"
        self._router = f"{self._name}-r"
        # Several runs at a time have different nets, as far as their process ids differ.
        number = os.getpid() % 8192
        self._net = f"10.{192 + number // 256}.{number % 256}"
        self._cuts: set[tuple[int, int]] = set()
        self._slow: set[int] = set()

    def __enter__(self) -> Self:
        _run("ip", "netns", "add", self._router)
        _run(
            "ip", "netns", "exec", self._router, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"
        )
        outside = f"kaa{os.getpid()}"
        _run(
            "ip",
            "link",
            "add",
            outside,
            "type",
            "veth",
            "peer",
            "name",
            "line0",
            "netns",
            self._router,
        )
        self._connect(OUTSIDE, ["ip"], outside)
        _run("ip", "route", "add", f"{self._net}.0/24", "via", self._gateway(OUTSIDE))
        for node_id in self._node_ids:
            name = self._namespace(node_id)
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run(
                *("ip", "link", "add", "eth0", "netns", name, "type", "veth"),
                *("peer", "name", f"line{node_id}", "netns", self._router),
            )
            self._connect(node_id, ["ip", "-n", name], "eth0")
            _run("ip", "-n", name, "route", "add", "default", "via", self._gateway(node_id))
        return self

    def __exit__(self, *exception: object) -> None:
        for name in (self._router, *map(self._namespace, self._node_ids)):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        # The other end of the line went with the router, which may take the kernel a moment.
        outside = ["ip", "link", "del", f"kaa{os.getpid()}"]
        subprocess.run(outside, capture_output=True, check=False)

    def _connect(self, node_id: int, ip: list[str], device: str) -> None:
        _run(*ip, "addr", "add", f"{self.address(node_id)}/30", "dev", device)
        _run(*ip, "link", "set", device, "up")
        router = ("ip", "-n", self._router)
        _run(*router, "addr", "add", f"{self._gateway(node_id)}/30", "dev", f"line{node_id}")
        _run(*router, "link", "set", f"line{node_id}", "up")

    def _namespace(self, node_id: int) -> str:
        return f"{self._name}-{node_id}"

    def _gateway(self, node_id: int) -> str:
        return f"{self._net}.{4 * node_id + 1}"

    def address(self, node_id: int) -> str:
        return f"{self._net}.{4 * node_id + 2}"

    def prefix(self, node_id: int) -> tuple[str, ...]:
        """What stands before a command that runs on the node's side."""
        return ("ip", "netns", "exec", self._namespace(node_id))

    # --- faults

    def cut(self, source: int, target: int) -> None:
        """Nothing goes from one node to the other; the way back is another one."""
        if (source, target) not in self._cuts:
            self._cuts.add((source, target))
            self._rule("add", source, target)

    def heal(self, source: int, target: int) -> None:
        if (source, target) in self._cuts:
            self._cuts.remove((source, target))
            self._rule("del", source, target)

    def _rule(self, verb: str, source: int, target: int) -> None:
        way = ("from", self.address(source), "to", self.address(target))
        _run("ip", "-n", self._router, "rule", verb, *way, "blackhole")

    def slow_down(self, node_id: int, kilobits: int) -> None:
        """Both ways of the node's line take so many kilobits a second."""
        if node_id in self._slow:
            return
        self._slow.add(node_id)
        for ip_n, device in self._ends(node_id):
            bucket = ("rate", f"{kilobits}kbit", "burst", "16kb", "latency", f"{SLOW_QUEUE_MS}ms")
            _run("tc", "-n", ip_n, "qdisc", "add", "dev", device, "root", "tbf", *bucket)

    def speed_up(self, node_id: int) -> None:
        if node_id in self._slow:
            self._slow.remove(node_id)
            for ip_n, device in self._ends(node_id):
                _run("tc", "-n", ip_n, "qdisc", "del", "dev", device, "root")

    def _ends(self, node_id: int) -> list[tuple[str, str]]:
        return [(self._namespace(node_id), "eth0"), (self._router, f"line{node_id}")]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
