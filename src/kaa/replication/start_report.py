"""What a broker says of its logs when it has started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import PARTITIONS_NAMED_MAX
from kaa.log.names import PARTITION_METADATA_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.log.lost import LogExtent, Outdone
    from kaa.model.topics import PartitionName


def stray_text(folder: str) -> str:
    return (
        f"{folder} is the log of a partition that is not, or no longer, on this broker, or an "
        "unfinished copy: it is kept aside and not served. Delete the folder if its records are "
        "not needed"
    )


def outdone_text(folder: str, outdone: Outdone) -> str:
    return (
        f"{folder} is another log of a partition that is served from {outdone.served_in}: it has "
        f"{_range(outdone.progress)}, and the one that is served, which is the later one or as "
        f"good, {_range(outdone.served_progress)}. It is kept aside and not served. Delete the "
        "folder if its records are not needed"
    )


def outdated_text(partitions: Sequence[PartitionName], path: str, away: str) -> str:
    """Of partitions with a log here, while the metadata has them on a disk that is away."""
    return (
        f"served from {path}, but in the metadata in {away}, which is offline: "
        f"{_names(partitions)}. If {path} is an old copy, records are missing, and what is written "
        f"now takes their place for good. Then stop the broker, and bring {away} back first"
    )


def kept_text(folder: str) -> str:
    return (
        f"{folder} is what a move left of a log that is gone: it is not served, and "
        "not removed either, since its records may be on no other disk. Delete the folder if they "
        "are not needed"
    )


def void_text(folder: str, notes: str) -> str:
    """Of a log that another one took the place of, which is away now."""
    return (
        f"{folder} is an old log: another disk went on with the partition when this one had "
        "failed. It is kept and not served, since it may lack records. Bring the other disk back "
        "and restart. Only if that is gone for good: to go on with what is in this one, stop the "
        f"broker, take its line out of {notes} and start it"
    )


def missing_text(partitions: Sequence[PartitionName]) -> str:
    """Of partitions that have no log here, and get none, and of which no other broker has one."""
    return (
        f"no log was found of {_names(partitions)}, which this broker should have: they are not "
        "served, and no empty log takes their place. Bring the disk back that they are on and "
        "restart. Only if it is gone for good, with whatever else is named here: delete and create "
        "the topics to start them empty"
    )


def missing_copy_text(partitions: Sequence[PartitionName]) -> str:
    """Of partitions that have no log here, and whose other replicas are whole."""
    return (
        f"no log was found of {_names(partitions)}, which this broker should have; other brokers "
        "have and serve them. Bring the disk back that they are on and restart; or, if it is gone, "
        "format its directory (kaa storage format --ignore-formatted) and restart, and they are "
        "copied from their leaders"
    )


def copy_text(folder: str, end_offset: int, name: str) -> str:
    """Of the copy that a move has begun of a log that is lost, and of which there is no other."""
    return (
        f"{folder} is an unfinished copy of {name}, whose log is lost: it has the records up to "
        f"offset {end_offset} and is kept, and not served. To go on with those alone, stop the "
        f"broker, rename the folder to {name} and start it"
    )


def begun_empty_text(partitions: Sequence[PartitionName]) -> str:
    """Of partitions whose log may not have been made yet when the broker ended, or may have been
    lost before it was durable.
    """
    return (
        f"no log was found of {_names(partitions)}, and nothing shows that there ever was one: "
        "they begin empty. If records were written to them in the moment before the broker or its "
        "disk failed, they are lost"
    )


def _range(progress: LogExtent) -> str:
    return (
        f"offsets {progress.start_offset} to {progress.end_offset} (the end), the last of leader "
        f"epoch {progress.leader_epoch}"
    )


def begun_beside_text(folder: str, name: str) -> str:
    """Of a log that was put aside since it does not name the topic, and in whose place an empty one
    begins: the topic was made again, or the file with its id is not what it was.
    """
    return (
        f"{folder} was the log of {name}, and its {PARTITION_METADATA_FILE} does not name this "
        f"topic: it was put aside, and {name} begins empty. Delete the folder if it is of an "
        "earlier topic of that name. If it is of this one, stop the broker, put the id of the "
        f"topic into the file, and the folder in the place of {name}, without what was written "
        "there since, and start the broker"
    )


def _names(partitions: Sequence[PartitionName]) -> str:
    names = ", ".join(f"{topic}-{number}" for topic, number in partitions[:PARTITIONS_NAMED_MAX])
    more = len(partitions) - PARTITIONS_NAMED_MAX
    return f"{names} and {more} more" if more > 0 else names
