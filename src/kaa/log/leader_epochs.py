"""Where each leader epoch starts: `leader-epoch-checkpoint` and its cache.

The file is a checkpoint (see `kaa.log.checkpoints`) of lines `epoch start-offset`, both rising.
The end of an epoch is the start of the next known one, or the end of the log. Replicas compare
these to find where their logs part (KIP-101, KIP-279).

The cache is the truth while the broker runs. It is written when the log is flushed, before the
recovery point may pass, rather than at every new epoch: each batch carries its epoch, so recovery
finds again what lies above the recovery point, and an epoch without records needs no memory.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kaa.log.checkpoints import decode_checkpoint, encode_checkpoint
from kaa.log.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Iterable

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


def encode_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """The content of the file."""
    return encode_checkpoint(f"{epoch} {start}" for epoch, start in entries)


class LeaderEpochCache:
    """Epochs and their start offsets, both strictly rising."""

    __slots__ = ("_epochs", "_starts", "version")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        # Counts changes; 0 is what the file says that was loaded.
        self.version = 0
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.version = 0

    @staticmethod
    def decode(path: str, content: bytes) -> LeaderEpochCache:
        """The cache of a file. CorruptFileError."""
        try:
            entries = [EpochEntry(int(e), int(s)) for e, s in decode_checkpoint(path, content, 2)]
        except ValueError:
            raise CorruptFileError(path, "an entry is not epoch and offset") from None
        if any(epoch < 0 or start < 0 for epoch, start in entries):
            raise CorruptFileError(path, "an epoch or an offset is below zero")
        return LeaderEpochCache(entries)

    def encode(self) -> bytes:
        return encode_epochs(self.entries)

    @property
    def entries(self) -> list[EpochEntry]:
        return [EpochEntry(*entry) for entry in zip(self._epochs, self._starts, strict=True)]

    @property
    def latest_epoch(self) -> int | None:
        return self._epochs[-1] if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Notes that `epoch` starts here, unless it is known already.

        An entry that contradicts older ones replaces them: what the newest leader wrote is right.
        """
        assert epoch >= 0
        assert start_offset >= 0
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return
        while self._epochs and (epoch <= self._epochs[-1] or start_offset <= self._starts[-1]):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.version += 1

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The greatest known epoch not above `epoch` and its end; (-1, -1) if nothing fits."""
        undefined = (UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if epoch == UNDEFINED_EPOCH or not self._epochs:
            return undefined
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        number = bisect_right(self._epochs, epoch)
        if number == len(self._epochs):
            return undefined
        if number == 0:
            return epoch, self._starts[0]
        return self._epochs[number - 1], self._starts[number]

    def epoch_for_offset(self, offset: int) -> int | None:
        number = bisect_right(self._starts, offset) - 1
        return self._epochs[number] if number >= 0 else None

    def previous_epoch(self, epoch: int) -> int | None:
        number = bisect_right(self._epochs, epoch - 1) - 1
        return self._epochs[number] if number >= 0 else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Forgets epochs that start at or above the new end of the log."""
        while self._starts and self._starts[-1] >= end_offset >= 0:
            self._epochs.pop()
            self._starts.pop()
            self.version += 1

    def truncate_from_start(self, start_offset: int) -> None:
        """Forgets epochs that end at or below the new start; the first kept one starts there."""
        number = bisect_right(self._starts, start_offset) - 1
        if number < 0 or (number == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:number], self._starts[:number]
        self._starts[0] = start_offset
        self.version += 1

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.version += 1
