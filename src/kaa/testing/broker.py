"""The broker of a test: its life, its topics, and what is done to it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from kaa import limits
from kaa.client.arguments import INT32_MAX, names_of, whole_number
from kaa.config.definition import ConfigProblem, InvalidConfigError
from kaa.config.server import hint_for_unknown, is_unknown
from kaa.testing.client import Client, RefusedError, check, setting_text
from kaa.testing.clock import machine_ns
from kaa.testing.faults import Faults, On, api_key
from kaa.testing.group import AnyGroup, Group
from kaa.testing.process_node import ForeignCluster, ProcessNode
from kaa.testing.remote import RemoteFaults
from kaa.testing.thread_node import ThreadNode
from kaa.testing.topic import Topic
from kaa.wire.errors import Errors
from kaa.wire.messages.k16_list_groups import ListGroupsRequest
from kaa.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Self

    from kaa.testing.clock import Clock
    from kaa.testing.share_group import ShareGroup
    from kaa.wire.registry import ApiKey

Answer = TypeVar("Answer")

_LOGGER: Final = logging.getLogger("kaa.testing")


class Broker:
    """A broker that lives as long as a block, on a free port, with its data in memory.

        with Broker(overrides={"num.partitions": 3}) as broker:
            client = AnyKafkaClient(broker.bootstrap_servers)

    `async with` does the same and does not block the loop meanwhile. `process=True` runs the
    broker as a child process instead, with its data in a temporary folder, and
    `bootstrap_servers` uses a cluster that runs already; rules about requests, capped versions
    and the clock need a broker of the test's own, in this process or in a child.
    """

    def __init__(
        self,
        *,
        overrides: Mapping[str, object] | None = None,
        process: bool = False,
        bootstrap_servers: str | None = None,
    ) -> None:
        settings = _settings(overrides or {})
        faults = self._faults = RemoteFaults() if process else Faults()
        self._node: ThreadNode | ProcessNode | ForeignCluster
        if bootstrap_servers is not None:
            if settings:
                raise ValueError("the settings of a cluster that runs already are its own")
            self._node = ForeignCluster(bootstrap_servers)
        elif isinstance(faults, RemoteFaults):
            self._node = ProcessNode(settings, faults)
        else:
            self._node = ThreadNode(settings, faults)
        self._client: Client | None = None
        self._numbers = itertools.count(1)
        # Those whose settings end with their test.
        self._share_groups: list[ShareGroup] = []
        # What the names of topics, and of groups that ask for one, begin with.
        self.prefix = ""

    # --- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        try:
            await asyncio.wrap_future(self._node.launch())
        except BaseException:
            self._ended()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._close_client()
        await asyncio.wrap_future(self._node.launch_stop())
        self._ended()

    def start(self) -> None:
        """Starts; the broker serves when this returns."""
        ready = self._node.launch()
        try:
            ready.result(limits.TESTING_START_SECONDS_MAX)
        except BaseException:
            self._ended()
            raise

    def stop(self) -> None:
        """Stops cleanly. What was in memory, or in the temporary folder, is gone."""
        self._close_client()
        self._node.launch_stop().result(limits.TESTING_STOP_SECONDS_MAX)
        self._ended()

    def kill(self, *, keep_unflushed: bool = False) -> None:
        """Ends at once, without a clean stop; `restart` goes on with what is left.

        Inside this process that is what a power cut leaves: records that were never flushed to
        disk are gone, acknowledged or not, since Kafka leaves flushing to the system. With
        `keep_unflushed` it is what a killed process leaves: all it has written. A child process
        is killed by SIGKILL and keeps what it has written.
        """
        node = self._own_node()
        self._close_client()
        if isinstance(node, ProcessNode):
            node.kill()
            return
        node.cut(keep_unflushed=keep_unflushed)
        if not keep_unflushed:
            _LOGGER.warning("killed: what the broker had not flushed to disk is lost")
        node.launch_stop().result(limits.TESTING_STOP_SECONDS_MAX)
        node.join()

    def restart(self) -> None:
        """Starts again on the same data and the same port, after a clean stop if it still runs."""
        self._restart(reset_clock=False)

    def _restart(self, *, reset_clock: bool) -> None:
        node = self._own_node()
        self._close_client()
        if node.is_running:
            node.launch_stop().result(limits.TESTING_STOP_SECONDS_MAX)
            node.join()
        if reset_clock:
            node.clock.reset()
        node.launch().result(limits.TESTING_START_SECONDS_MAX)

    def _ended(self) -> None:
        self._node.join()
        if isinstance(self._node, ProcessNode):
            self._node.clean_up()

    # --- facts

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT, as clients want it."""
        return self._node.bootstrap_servers

    @property
    def reports(self) -> list[str]:
        """What the broker said about itself: trouble that no client heard of."""
        return list(self._node.reports)

    @property
    def requests(self) -> list[str]:
        """The requests that came in, oldest first, in a few words each."""
        return self._faults.requests()

    @property
    def pid(self) -> int | None:
        """The process in which the broker runs, for debuggers and signals; None if it is not known,
        or does not run.
        """
        if isinstance(self._node, ProcessNode):
            return self._node.pid
        return os.getpid() if isinstance(self._node, ThreadNode) else None

    # --- topics

    def topic(self, name: str | None = None, partitions: int = 1, **configs: object) -> Topic:
        """Makes a topic. Its name begins with `prefix`; settings are written with `_` for `.`
        (`cleanup_policy="compact"`).
        """
        full = self.name(name)
        partitions = whole_number(partitions, "partitions", least=-1, most=INT32_MAX)
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=full,
                    num_partitions=partitions,
                    replication_factor=-1,
                    configs=[
                        CreatableTopicConfig(name=key.replace("_", "."), value=setting_text(value))
                        for key, value in configs.items()
                    ],
                )
            ]
        )
        result = self._send(request).topics[0]
        check(f"creating topic {full}", result.error_code, result.error_message)
        topic = self.existing_topic(full)
        if isinstance(self._node, ForeignCluster):
            # The brokers of a cluster learn of it one after the other.
            self.wait_for(topic.offsets, what=f"topic {full}")
        return topic

    def existing_topic(self, name: str) -> Topic:
        """A topic that exists already, or will, by its whole name."""
        return Topic(name, self._connected, self.wait_for)

    def name(self, name: str | None = None) -> str:
        """A name of this test's own, for a topic that is not made yet or for a group."""
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{name!r} is not a name; names are text")
        return f"{self.prefix}{name or f'topic-{next(self._numbers)}'}"

    def topic_names(self) -> list[str]:
        """The topics that are there, without those that the broker keeps for itself."""
        rows = self._connected().metadata(None).topics
        return sorted(row.name for row in rows if not row.is_internal and row.name is not None)

    def delete_topics(self, names: Iterable[str]) -> None:
        """Deletes topics; one that is gone already does not matter."""
        names = names_of(names)
        if not names:
            return
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=30_000)
        for row in self._send(request).responses:
            if row.error_code != Errors.UNKNOWN_TOPIC_OR_PARTITION:
                check(f"deleting topic {row.name}", row.error_code)

    # --- groups

    def group(self, group_id: str | None = None) -> Group:
        """A consumer group, to ask about; its id begins with `prefix`."""
        return self.existing_group(self.name(group_id or f"group-{next(self._numbers)}"))

    def existing_group(self, group_id: str) -> Group:
        """A group by its whole id."""
        return Group(group_id, self._connected, self.wait_for)

    def share_group(self, group_id: str | None = None, **configs: object) -> ShareGroup:
        """A share group, to ask about; its id begins with `prefix`. Settings are written with `_`
        for `.` (`share_auto_offset_reset="earliest"`), and are there before it has members.
        """
        found = self.existing_share_group(self.name(group_id or f"group-{next(self._numbers)}"))
        if configs:
            found.configure(**configs)
        self._share_groups.append(found)
        return found

    def existing_share_group(self, group_id: str) -> ShareGroup:
        """A share group by its whole id."""
        from kaa.testing.share_group import ShareGroup

        return ShareGroup(
            group_id,
            self._connected,
            self.wait_for,
            lambda name: self._own_node().delivered(name),
            lambda name: self._own_node().held(name),
        )

    def group_ids(self) -> list[str]:
        """The groups that are there; of a foreign cluster those of one of its brokers."""
        return list(self.group_types())

    def group_types(self) -> dict[str, str]:
        """The same, with Kafka's word for their type: classic, consumer, share or streams. A broker
        that is too old for it says nothing.
        """
        answer = self._send(ListGroupsRequest())
        check("listing groups", answer.error_code)
        return dict(sorted((row.group_id, row.group_type) for row in answer.groups))

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Deletes groups; one that still has members stays."""
        for group_id in names_of(group_ids, "group"):
            coordinator_id = self.existing_group(group_id).coordinator_id()
            request = DeleteGroupsRequest(groups_names=[group_id])
            row = self._connected().send(request, coordinator_id).results[0]
            if row.error_code not in {Errors.GROUP_ID_NOT_FOUND, Errors.NON_EMPTY_GROUP}:
                check(f"deleting group {group_id}", row.error_code)

    @contextmanager
    def isolated(self, prefix: str) -> Iterator[Self]:
        """A block with a prefix of its own; what it made and changed is gone after it.

        On a broker of ours that is every topic and group that was not there before; on a foreign
        cluster it is what begins with the prefix.
        """
        is_foreign = isinstance(self._node, ForeignCluster)
        before = set() if is_foreign else {*self.topic_names(), *self.group_ids()}
        self.prefix, old_prefix = prefix, self.prefix
        try:
            yield self
        finally:
            self.prefix = old_prefix
            self._faults.clear()
            if self._faults.has_caps:
                self.cap_versions({})
            is_ahead = not isinstance(self._node, ForeignCluster) and self._node.clock.is_ahead
            if is_ahead or not self._node.is_running:
                self._restart(reset_clock=True)

            def is_ours(name: str) -> bool:
                return name.startswith(prefix) if is_foreign else name not in before

            self.delete_topics(filter(is_ours, self.topic_names()))
            self.delete_groups(filter(is_ours, self.group_ids()))
            while self._share_groups:
                self._share_groups.pop().take_back_settings()

    # --- waiting

    def wait_for_group(
        self, group: AnyGroup | str, *, timeout: float = 10.0, **wanted: int | str | None
    ) -> None:
        """Waits until a group is as wanted; a name is that of a consumer group."""
        __tracebackhide__ = True
        found = self.existing_group(group) if isinstance(group, str) else group
        figures = found.figures(name for name, value in wanted.items() if value is not None)
        seen: dict[str, object] = {}

        def is_so() -> bool:
            seen.update({name: figure.look(found) for name, figure in figures.items()})
            return all(
                figure.is_enough(seen[name], wanted[name]) for name, figure in figures.items()
            )

        try:
            self.wait_for(is_so, timeout=timeout, what=f"group {found.id}")
        except TimeoutError as error:
            last = ", ".join(f"{name} {value}" for name, value in seen.items())
            raise TimeoutError(f"{error}; it has {last}") from None

    @overload
    def wait_for(
        self, condition: Callable[[], Answer], *, timeout: float = 10.0, what: str = ""
    ) -> Answer: ...

    @overload
    def wait_for(
        self,
        condition: Group | str,
        *,
        timeout: float = 10.0,
        lag: int | None = None,
        state: str | None = None,
        members: int | None = None,
    ) -> None: ...

    @overload
    def wait_for(
        self,
        condition: ShareGroup,
        *,
        timeout: float = 10.0,
        lag: int | None = None,
        state: str | None = None,
        members: int | None = None,
        acknowledged: int | None = None,
        archived: int | None = None,
        in_flight: int | None = None,
        delivered: int | None = None,
    ) -> None: ...

    def wait_for(
        self,
        condition: Callable[[], Answer] | AnyGroup | str,
        *,
        timeout: float = 10.0,
        what: str = "",
        **wanted: int | str | None,
    ) -> Answer | None:
        """Waits for a condition, or for a group: `wait_for(group, lag=0)` for at most this lag,
        `state`, `members`; and of a share group for records that are `in_flight`, or at least so
        many that are `acknowledged`, `archived` or `delivered`.
        """
        __tracebackhide__ = True
        if isinstance(condition, AnyGroup | str):
            self.wait_for_group(condition, timeout=timeout, **wanted)
            return None
        return self._wait_until(condition, timeout, what)

    def _wait_until(self, condition: Callable[[], Answer], timeout: float, what: str) -> Answer:
        """Asks again and again until the answer is true, and returns it; TimeoutError if never.

        A broker that is busy with something else may refuse for a moment; such refusals, which
        Kafka calls retriable, are waited for too.
        """
        __tracebackhide__ = True
        pause = threading.Event()
        end_ns = machine_ns() + int(timeout * 1e9)
        while True:
            refusal: RefusedError | None = None
            try:
                answer = condition()
            except RefusedError as error:
                if not error.error.retriable:
                    raise
                refusal = error
            else:
                if answer:
                    return answer
            if machine_ns() >= end_ns:
                name = what or getattr(condition, "__name__", "the condition")
                reason = f": {refusal}" if refusal is not None else ""
                raise TimeoutError(f"waited {timeout:g} s for {name}{reason}")
            pause.wait(limits.TESTING_POLL_SECONDS)

    # --- trouble on demand

    def on(
        self,
        api: ApiKey | str,
        *,
        topic: Topic | str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        group: AnyGroup | str | None = None,
    ) -> On:
        """The requests of one API, or those about one topic, partition, client or group: what
        happens to them is said by the verb that follows (`fail`, `delay`, `drop`,
        `answer`, `observe`).
        """
        self._own_node()
        return On(
            self._faults,
            api_key(api),
            topic=topic.name if isinstance(topic, Topic) else topic,
            partition=partition,
            client_id=client_id,
            group_id=group.id if isinstance(group, AnyGroup) else group,
        )

    @property
    def clock(self) -> Clock:
        """The time of the broker; `clock.advance(minutes=10)` lets timers fire now: retention,
        sessions of groups, open transactions, expiry of offsets.
        """
        return self._own_node().clock

    def cap_versions(self, versions: Mapping[ApiKey | str, int]) -> None:
        """Serves no higher versions than these, as an older broker would; a negative one takes the
        API away, and an empty mapping lifts every cap. Clients see it when they next connect.
        """
        node = self._own_node()
        node.cap({api_key(name): version for name, version in versions.items()})

    def _own_node(self) -> ThreadNode | ProcessNode:
        if isinstance(self._node, ThreadNode | ProcessNode):
            return self._node
        raise RuntimeError(
            "an external cluster cannot be killed or restarted, takes no rules about requests, "
            "versions or time, and does not report what is delivered or in flight"
        )

    # --- the client of the helpers

    def _send(self, request: Any) -> Any:
        return self._connected().send(request)

    def _connected(self) -> Client:
        if not self._node.is_running:
            raise RuntimeError("the broker is not running, or belongs to another process")
        if self._client is None:
            self._client = Client(self.bootstrap_servers)
        return self._client

    def _close_client(self) -> None:
        if self._client is not None and self._node.is_running:
            self._client.close()
        self._client = None


def _settings(overrides: Mapping[str, object]) -> list[str]:
    """Settings as a command line has them; a name that no broker knows is refused.

    A broker of one's own ignores such a name with a warning, as Kafka does. In a test it is a slip
    that would let the test prove something else.
    """
    names = names_of(overrides, "setting")
    unknown = [name for name in names if is_unknown(name)]
    if unknown:
        raise InvalidConfigError(
            ConfigProblem(name, f"No broker has a setting {name}.{hint_for_unknown(name)}")
            for name in unknown
        )
    return [f"{name}={setting_text(value)}" for name, value in overrides.items()]
