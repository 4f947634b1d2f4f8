"""Whose remote segments are being removed, kept until that is done.

A broker hears once that a topic was deleted, and after a restart nobody repeats it: the topic
is not in the metadata of the cluster any more. So it writes down what it has to remove before it
removes the first object, in the file `remote-log-deletions` of its first log directory, in the form
of Kafka's checkpoints:

    0                                      version
    1                                      entries
    <topic id> <partition> <topic>

and takes the entry out when the deletion is finished. A file that is damaged counts as empty, and
is reported: what it named stays in the store.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from kaa.log.checkpoints import decode_checkpoint, encode_checkpoint
from kaa.log.errors import CorruptFileError
from kaa.log.files import read_whole, write_atomically
from kaa.tier.metadata.model import TopicIdPartition
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor

    from kaa.log.files import Files

FILE: Final = "remote-log-deletions"
_FIELDS: Final = 3


class Deletions(Protocol):
    """Keeps the list of deletions that are under way, also over a restart."""

    async def load(self) -> list[TopicIdPartition]:
        """What was under way when this was last saved."""
        ...

    async def save(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Replaces it; OSError if it cannot be kept."""
        ...


class MemoryDeletions:
    """The twin in memory."""

    def __init__(self) -> None:
        self.kept: list[TopicIdPartition] = []

    async def load(self) -> list[TopicIdPartition]:
        return list(self.kept)

    async def save(self, partitions: Iterable[TopicIdPartition]) -> None:
        self.kept = list(partitions)


class FileDeletions:
    """In a file of `folder`."""

    def __init__(
        self, folder: str, files: Files, executor: Executor, report: Callable[[str], None]
    ) -> None:
        self._path = f"{folder}/{FILE}"
        self._files = files
        self._executor = executor
        self._report = report
        # One write at a time, and none that would change nothing.
        self._lock = asyncio.Lock()
        self._saved: list[TopicIdPartition] = []

    async def load(self) -> list[TopicIdPartition]:
        loop = asyncio.get_running_loop()
        try:
            data = await loop.run_in_executor(self._executor, read_whole, self._files, self._path)
            found = [
                TopicIdPartition(Uuid.parse(topic_id), topic, int(partition))
                for topic_id, partition, topic in decode_checkpoint(self._path, data, _FIELDS)
            ]
        except FileNotFoundError:
            return []
        except (CorruptFileError, ValueError, OSError) as error:
            self._report(f"{self._path} cannot be read, and deletions may not go on: {error}")
            return []
        self._saved = list(found)
        return found

    async def save(self, partitions: Iterable[TopicIdPartition]) -> None:
        async with self._lock:
            wanted = list(partitions)
            if wanted == self._saved:
                return
            data = encode_checkpoint(
                f"{one.topic_id} {one.partition} {one.topic}" for one in wanted
            )
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(
                self._executor, write_atomically, self._files, self._path, data
            )
            self._saved = wanted
