"""A broker inside a test: wire-true, in memory, on a free port, ready in milliseconds.

::

    from kaa.testing import Broker

    with Broker() as broker:
        topic = broker.topic("orders", partitions=3)
        run_my_code(broker.bootstrap_servers)
        topic.expect([("a", "1"), ("b", "2")])

With pytest there is nothing to import: a test asks for the fixture ``kafka`` (``plugin``). The
modules, in the order a test meets them:

``plugin``        fixtures, options and the marker; imports only pytest
``broker``        ``Broker``: start, stop, kill, restart, topics, waiting
``topic``         ``Topic``: seed, read, expect
``group``         ``Group``: committed offsets, lag, state
``faults``        what goes wrong on demand: ``broker.on(...)``; the requests that were seen
``fault_actions`` what the verbs of a rule do; ``request_parts``: what a request is about
``refusals``      the answer that says no, for any API
``differences``   expected against found, and the text that shows it
``client``        a small blocking client, so that helpers need no other package
``thread_node``   a node on a thread of this process; ``memory_files`` is its disk
``clock``         its time, which a test can move
``spark``         Spark in a test: a session, and streams that end
``registry``      ``Registry``: a schema registry in memory
``process_node``  a node as a child process, and a cluster that somebody else runs
``remote``        the rules and the time of such a child; ``process_child`` is its program

Importing this package imports nothing else: names are found when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaa.testing.broker import Broker
    from kaa.testing.client import RefusedError
    from kaa.testing.clock import Clock
    from kaa.testing.faults import Fault, Faults, On
    from kaa.testing.group import Group
    from kaa.testing.registry import Registry
    from kaa.testing.topic import Topic, TopicRecord
    from kaa.wire.errors import Errors
    from kaa.wire.registry import ApiKey

__all__ = [
    "ApiKey",
    "Broker",
    "Clock",
    "Errors",
    "Fault",
    "Faults",
    "Group",
    "On",
    "RefusedError",
    "Registry",
    "Topic",
    "TopicRecord",
]

_HOMES = {
    "ApiKey": "kaa.wire.registry",
    "Broker": "kaa.testing.broker",
    "Clock": "kaa.testing.clock",
    "Errors": "kaa.wire.errors",
    "Fault": "kaa.testing.faults",
    "Faults": "kaa.testing.faults",
    "Group": "kaa.testing.group",
    "On": "kaa.testing.faults",
    "RefusedError": "kaa.testing.client",
    "Registry": "kaa.testing.registry",
    "Topic": "kaa.testing.topic",
    "TopicRecord": "kaa.testing.topic",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
