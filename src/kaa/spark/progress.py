"""Progress of a query as the offsets of a consumer group, so that every lag tool sees it.

Three places know what was done, from late to exact:

- the source, whose `commit` Spark calls one batch late, and for the last batch of a run only in
  the next run;
- the sink of Kaa, which reads the offsets of the batch that it has just committed from the
  checkpoint (`publish_batch`), if it is in the cluster of the source;
- a listener on the driver, for queries with another sink (`watch`).

A group that has members would be disturbed, so it is refused when the query starts. After that, a
commit that fails is reported and never fails the query: the checkpoint is what counts.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from kaa.client.errors import ClientError, KafkaError
from kaa.client.group.offsets import OffsetAndMetadata, commit_offsets
from kaa.spark.brokers import brokers_of
from kaa.spark.errors import OptionError
from kaa.spark.offsets import StreamOffset
from kaa.spark.options import ClientSettings
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from kaa.spark.offsets import PartitionOffsets

_WITHOUT_MEMBERS = frozenset({"empty", "dead"})


def refuse_active_group(settings: ClientSettings, group: str) -> None:
    """Raises OptionError if the group has members."""
    brokers = brokers_of(settings)
    try:
        state = brokers.call(brokers.admin.describe_group(group)).state
    except KafkaError as error:
        if error.error is Errors.GROUP_ID_NOT_FOUND:
            return
        raise
    if state.lower() not in _WITHOUT_MEMBERS:
        raise OptionError(
            f"option commitGroup: group {group!r} has members (it is {state}); use a group of "
            "which this query is the only reader"
        )


def publish(settings: ClientSettings, group: str, offsets: PartitionOffsets) -> None:
    """Commits offsets; a failure is reported and nothing more."""
    brokers = brokers_of(settings)
    committed = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
    try:
        outcome = brokers.call(
            commit_offsets(brokers.cluster, group, committed, brokers.timeout_ms)
        )
        failure = next((error for error in outcome.values() if error is not None), None)
    except ClientError as error:
        failure = error  # type: ignore[assignment]  # Both are reported in the same way.
    if failure is not None:
        _tell(group, failure)


def _tell(group: str, failure: ClientError) -> None:
    warnings.warn(
        f"progress was not published to group {group!r}: {failure}; the query goes on",
        stacklevel=3,
    )


def publish_batch(settings: ClientSettings, checkpoint: str | None, batch_id: int) -> None:
    """Publishes a batch that the sink has committed, if its source asks for it."""
    for offset in _offsets_of_batch(checkpoint, batch_id):
        _publish_here(settings, offset)


def _publish_here(settings: ClientSettings, offset: StreamOffset) -> None:
    """Publishes an offset to the group of its source, if that is in the cluster of the settings.

    The group of a source in another cluster is left to the source itself.
    """
    if offset.group is None or offset.cluster_id is None:
        return
    try:
        here = brokers_of(settings).cluster_id()
    except ClientError as error:
        _tell(offset.group, error)
        return
    if here == offset.cluster_id:
        publish(settings, offset.group, offset.offsets)


def query_of_checkpoint(checkpoint: str | None) -> str | None:
    """The id of the query that a checkpoint on a disk of this machine belongs to."""
    folder = _local_path(checkpoint)
    if folder is None:
        return None
    try:
        found = json.loads((folder / "metadata").read_text("utf-8"))["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(found)


def _offsets_of_batch(checkpoint: str | None, batch_id: int) -> Iterator[StreamOffset]:
    """The offset log of Spark: a version, a line of metadata, then a line per source."""
    folder = _local_path(checkpoint)
    if folder is None:
        return
    try:
        lines = (folder / "offsets" / str(batch_id)).read_text("utf-8").splitlines()[2:]
    except OSError:
        return
    for line in lines:
        offset = _parse(line)
        if offset is not None:
            yield offset


def _local_path(checkpoint: str | None) -> Path | None:
    if not checkpoint:
        return None
    parts = urlsplit(checkpoint)
    if parts.scheme not in {"", "file"}:
        return None
    return Path(unquote(parts.path)) if parts.scheme else Path(checkpoint)


def _parse(text: str | None) -> StreamOffset | None:
    """An offset of ours; None for one of another source."""
    try:
        given = json.loads(text or "")
        return StreamOffset.read(given) if isinstance(given, dict) else None
    except (ValueError, AttributeError, TypeError):
        return None


def watch(spark: SparkSession, options: Mapping[str, str]) -> Callable[[], None]:
    """Publishes the progress of all queries of a session whose source has `commitGroup`.

    `options` are those of the source that reach the cluster (`kafka.bootstrap.servers` and so
    on); sources in other clusters are passed over. Gives a function that ends it.
    """
    from pyspark.sql.streaming.listener import StreamingQueryListener

    settings = ClientSettings(
        {
            name.lower().removeprefix("kafka."): value
            for name, value in options.items()
            if name.lower().startswith("kafka.")
        }
    )

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802  Spark's name.
            """Nothing is done yet."""

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802  Spark's name.
            for source in event.progress.sources:
                offset = _parse(source.endOffset)
                if offset is not None:
                    _publish_here(settings, offset)

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802  Spark's name.
            """Nothing was done."""

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  Spark's name.
            """What was done is published."""

    listener = Listener()
    spark.streams.addListener(listener)
    return lambda: spark.streams.removeListener(listener)
