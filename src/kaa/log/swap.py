"""Replacing segments by their compacted successor, so that a crash leaves one or the other.

1. The new segment is complete and synced under `.cleaned` names.
2. It is renamed to `.swap`, its log file first. From the last of these renames on it counts:
   recovery finishes what follows, before that it deletes the new files.
3. The old segments are renamed to `.deleted`, the oldest first.
4. The new one gets its real names, its log file first, and the folder is synced.
5. After `file.delete.delay.ms` the old files are unlinked.

Why the order of the renames matters: a log file without its indexes is read anyway, since indexes
are rebuilt where they are missing, but an index without a log file is rubbish. Recovery
(`kaa.log.recovery`) has the other half of this contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.log.names import SWAP_SUFFIX

if TYPE_CHECKING:
    from kaa.log.log import UnifiedLog
    from kaa.log.segment import Segment


def replace_segments(
    log: UnifiedLog, cleaned: Segment, sources: list[Segment], now_ms: int
) -> None:
    """Puts `cleaned` in place of `sources`; it starts at the base offset of the first."""
    assert cleaned.base_offset == sources[0].base_offset
    with log.storage():
        cleaned.rename(SWAP_SUFFIX)
        for source in sources:
            log.segments.remove(source)
        log.segments.add(cleaned)
        for source in sources:
            log.doom(source, now_ms, with_snapshot=source is not sources[0])
        cleaned.rename("")
        log.directory.files.sync_directory(log.folder)
    cleaned.is_new = False
    log.forget_positions()
