"""Tiered storage of a node, made from its settings and put to work.

`remote.log.storage.manager.class.name` names where segments are kept:

| Name | Settings, after `rsm.config.` |
|---|---|
| `kaa.tier.ObjectStore`, the default | `url`, such as `s3://bucket/prefix`; others are its own |
| Kafka's `LocalTieredStorage` | `dir`: a directory that a JVM broker can share |

The metadata of remote segments is in the topic that Kafka's own class uses, reached over
`remote.log.metadata.manager.listener.name`, or else the listener on which brokers talk.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kaa.broker.directories import StartError
from kaa.broker.duties import persist
from kaa.config.unsupported import KAFKA_LOCAL_STORAGE
from kaa.limits import TIER_CHUNK_CACHE_BYTES_MAX, TIER_INDEX_CACHE_BYTES_MAX
from kaa.model.nodes import HostPort
from kaa.serving.remote_logs import ReadBounds, RemoteLogs
from kaa.tier.deletions import FileDeletions
from kaa.tier.manager import Pace, RemoteLogManager
from kaa.tier.metadata.topic import TopicMetadata, TopicSettings
from kaa.tier.quota import QuotaWindow
from kaa.tier.reading.cache import SegmentCache
from kaa.tier.reading.index_files import IndexFiles
from kaa.tier.reading.reader import RemoteReader
from kaa.tier.store.layout import LOCAL_ROOT
from kaa.tier.store.places import AddressError, open_store
from kaa.tier.store.segments import RemoteSegments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor
    from random import Random

    from kaa.config.server import BrokerConfig
    from kaa.log.files import Files
    from kaa.model.nodes import Endpoint
    from kaa.serving.view import NodeView
    from kaa.tier.store.objects import ObjectStore

_CLIENT_PREFIX: Final = "remote.log.metadata.common.client."
_URL: Final = "url"


def _options(config: BrokerConfig, prefix_name: str) -> dict[str, str]:
    prefix = config.get_string(prefix_name)
    return {
        name.removeprefix(prefix): text
        for name, text in config.texts.items()
        if name.startswith(prefix)
    }


def open_remote_store(config: BrokerConfig) -> ObjectStore:
    """Where the settings say that segments are kept; StartError says what to change."""
    options = _options(config, "remote.log.storage.manager.impl.prefix")
    prefix = config.get_string("remote.log.storage.manager.impl.prefix")
    if config.get_optional_string("remote.log.storage.manager.class.name") == KAFKA_LOCAL_STORAGE:
        folder = options.get("dir")
        if not folder:
            raise StartError(f"set {prefix}dir to the directory of remote storage")
        address, options = (Path(folder).absolute() / LOCAL_ROOT).as_uri(), {}
    else:
        address = options.pop(_URL, "")
        if not address:
            raise StartError(
                f"set {prefix}{_URL} to where remote segments are kept, such as "
                "s3://bucket/prefix or file:///var/tier"
            )
    try:
        return open_store(address, options)
    except AddressError as error:
        raise StartError(str(error)) from None
    except ImportError:
        raise StartError(
            "remote storage needs the package obstore: pip install 'kaa[tier]'"
        ) from None


def topic_settings(config: BrokerConfig, endpoints: Iterable[Endpoint]) -> TopicSettings:
    """The settings of the metadata topic; `endpoints` are where this broker can be reached."""
    options = _options(config, "remote.log.metadata.manager.impl.prefix")
    name = config.get_optional_string("remote.log.metadata.manager.listener.name")
    listener = name or config.listeners.inter_broker_name
    own = next((point for point in endpoints if point.listener == listener), None)
    if own is None:
        raise StartError(
            f"remote.log.metadata.manager.listener.name={name} is not a listener for brokers; "
            "name one of advertised.listeners"
        )
    client = {
        "bootstrap.servers": str(HostPort(own.host, own.port)),
        "client.id": f"remote-log-metadata-{config.node_id}",
    }
    client |= {
        key.removeprefix(_CLIENT_PREFIX): text
        for key, text in options.items()
        if key.startswith(_CLIENT_PREFIX)
    }

    def number(suffix: str, default: int) -> int:
        text = options.get(f"remote.log.metadata.{suffix}", str(default))
        try:
            return int(text)
        except ValueError:
            prefix = config.get_string("remote.log.metadata.manager.impl.prefix")
            raise StartError(
                f"{prefix}remote.log.metadata.{suffix}={text} is not a number"
            ) from None

    defaults = TopicSettings({})
    return TopicSettings(
        client,
        partitions=number("topic.num.partitions", defaults.partitions),
        replication_factor=number("topic.replication.factor", defaults.replication_factor),
        retention_ms=number("topic.retention.ms", defaults.retention_ms),
        min_insync_replicas=number("topic.min.isr", defaults.min_insync_replicas),
        consume_wait_ms=number("consume.wait.ms", defaults.consume_wait_ms),
        retry_interval_ms=number("initialization.retry.interval.ms", defaults.retry_interval_ms),
    )


def _pace(config: BrokerConfig) -> Pace:
    return Pace(
        interval_ms=config.get_int("remote.log.manager.task.interval.ms"),
        copies_max=config.get_int("remote.log.manager.copier.thread.pool.size"),
        expirations_max=config.get_int("remote.log.manager.expiration.thread.pool.size"),
        backoff_ms=config.get_int("remote.log.manager.task.retry.backoff.ms"),
        backoff_ms_max=config.get_int("remote.log.manager.task.retry.backoff.max.ms"),
        jitter=config.get_double("remote.log.manager.task.retry.jitter"),
        copy_bytes_per_second_max=config.get_int("remote.log.manager.copy.max.bytes.per.second"),
        custom_metadata_bytes_max=config.get_int("remote.log.metadata.custom.metadata.max.bytes"),
    )


def _read_bounds(config: BrokerConfig) -> ReadBounds:
    return ReadBounds(
        wait_ms_max=config.get_int("remote.fetch.max.wait.ms"),
        search_ms_max=config.get_int("remote.list.offsets.request.timeout.ms"),
        reads_max=config.get_int("remote.log.reader.threads"),
        waiting_max=config.get_int("remote.log.reader.max.pending.tasks"),
        bytes_per_second_max=config.get_int("remote.log.manager.fetch.max.bytes.per.second"),
    )


def _copy_window(config: BrokerConfig) -> QuotaWindow:
    seconds = config.get_int("remote.log.manager.copy.quota.window.size.seconds")
    return QuotaWindow(config.get_int("remote.log.manager.copy.quota.window.num"), seconds * 1_000)


def _fetch_window(config: BrokerConfig) -> QuotaWindow:
    seconds = config.get_int("remote.log.manager.fetch.quota.window.size.seconds")
    return QuotaWindow(config.get_int("remote.log.manager.fetch.quota.window.num"), seconds * 1_000)


class Tiering:
    """The parts of a node that work on remote storage."""

    def __init__(
        self,
        view: NodeView,
        endpoints: Iterable[Endpoint],
        *,
        files: Files,
        executor: Executor,
        random: Random,
        report: Callable[[str], None],
        store: ObjectStore | None = None,
    ) -> None:
        config = view.config
        segments = RemoteSegments(store or open_remote_store(config))
        self._metadata = TopicMetadata(
            topic_settings(config, endpoints),
            config.log_dirs[0],
            files,
            executor,
            random,
            report,
            clock=view.clock,
        )
        self._tasks = asyncio.TaskGroup()
        self._index_files = IndexFiles(
            config.log_dirs[0],
            files,
            executor,
            lambda: view.config.get_int("remote.log.index.file.cache.total.size.bytes"),
            report,
        )
        cache = SegmentCache(
            segments,
            self._tasks,
            index_bytes_max=TIER_INDEX_CACHE_BYTES_MAX,
            chunk_bytes_max=TIER_CHUNK_CACHE_BYTES_MAX,
            index_files=self._index_files,
        )
        self._manager = RemoteLogManager(
            view.node_id,
            self._metadata,
            segments,
            cache,
            executor=executor,
            clock=view.clock,
            random=random,
            report=report,
            pace=lambda: _pace(view.config),
            window=_copy_window(config),
            deletions=FileDeletions(config.log_dirs[0], files, executor, report),
        )
        self.remote_logs = RemoteLogs(
            self._manager,
            RemoteReader(cache),
            view.clock,
            lambda: _read_bounds(view.config),
            _fetch_window(config),
        )
        self._report = report
        self._task: asyncio.Task[None] | None = None
        self._is_serving = asyncio.Event()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """From then on partitions may be read; they may be announced before."""
        self._task = tasks.create_task(self._run())

    def serving(self) -> None:
        """The broker can be reached, and so can the topic of the metadata."""
        self._is_serving.set()

    async def _run(self) -> None:
        async with self._tasks:
            await self._index_files.load()
            await self._is_serving.wait()
            what = "reading the metadata of remote logs"
            self._tasks.create_task(persist(what, self._metadata.run, self._report))
            await self._manager.run()

    async def stop(self) -> None:
        """Ends what is under way; what the metadata topic said is kept for the next start."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._metadata.save_snapshot()
