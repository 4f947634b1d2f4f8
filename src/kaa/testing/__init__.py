"""A broker inside a test: wire-true, in memory, on a free port, ready in milliseconds.

    from kaa.testing import Broker

    with Broker() as broker:
        topic = broker.topic("orders", partitions=3)
        run_my_code(broker.bootstrap_servers)
        topic.expect([("a", "1"), ("b", "2")])

With pytest there is nothing to import: a test asks for the fixture `kafka` (`plugin`). The
modules, in the order a test meets them:

| module | what it owns |
|---|---|
| `plugin` | fixtures, options and the marker; imports only pytest |
| `broker` | `Broker`: start, stop, kill, restart, topics, waiting |
| `topic` | `Topic`: seed, read, expect |
| `group` | `Group`: committed offsets, lag, state |
| `share_group` | `ShareGroup`: records acknowledged, given up, in flight; expect, reset |
| `faults` | what goes wrong on demand: `broker.on(...)`; the requests that were seen |
| `fault_actions` | what the verbs of a rule do |
| `request_parts` | what a request is about |
| `refusals` | the answer that says no, for any API |
| `differences` | expected against found, and the text that shows it |
| `client` | a small blocking client, so that helpers need no other package |
| `thread_node` | a node on a thread of this process |
| `memory_files` | its disk |
| `cluster` | `Cluster`: several nodes as one cluster |
| `cluster_nodes` | its nodes: threads or processes |
| `cuts` | a loop that cannot reach some ports: how two nodes lose each other |
| `clock` | its time, which a test can move |
| `spark` | Spark in a test: a session, and streams that end |
| `registry` | `Registry`: a schema registry in memory |
| `process_node` | a node as a child process, and a cluster that somebody else runs |
| `remote` | the rules and the time of such a child |
| `process_child` | its program |
| `deliveries` | what a node hands to members of share groups: every delivery, what is in flight |
| `share_outcomes` | what a share group is done with, read from the records of its coordinator |
| `share_refusals` | a refused partition in ShareFetch and ShareAcknowledge |
| `state_calls` | rules about the calls with which a broker keeps the state of share groups |
| `report` | what a failed test shows of its broker: last requests, ends of topics, groups |

Importing this package imports nothing else: names are found when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.lazy import lazy_names

if TYPE_CHECKING:
    from kaa.client.consumer.records import ConsumerRecord
    from kaa.testing.broker import Broker
    from kaa.testing.client import RefusedError
    from kaa.testing.clock import Clock
    from kaa.testing.cluster import Cluster
    from kaa.testing.faults import Fault, Faults, On
    from kaa.testing.group import Group
    from kaa.testing.registry import Registry
    from kaa.testing.share_group import ShareGroup
    from kaa.testing.topic import Topic
    from kaa.wire.errors import Errors
    from kaa.wire.registry import ApiKey

__all__ = [
    "ApiKey",
    "Broker",
    "Clock",
    "Cluster",
    "ConsumerRecord",
    "Errors",
    "Fault",
    "Faults",
    "Group",
    "On",
    "RefusedError",
    "Registry",
    "ShareGroup",
    "Topic",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "kaa.client.consumer.records": ["ConsumerRecord"],
        "kaa.testing.broker": ["Broker"],
        "kaa.testing.client": ["RefusedError"],
        "kaa.testing.clock": ["Clock"],
        "kaa.testing.cluster": ["Cluster"],
        "kaa.testing.faults": ["Fault", "Faults", "On"],
        "kaa.testing.group": ["Group"],
        "kaa.testing.registry": ["Registry"],
        "kaa.testing.share_group": ["ShareGroup"],
        "kaa.testing.topic": ["Topic"],
        "kaa.wire.errors": ["Errors"],
        "kaa.wire.registry": ["ApiKey"],
    },
)
