"""What a request is about: the topics, partitions and groups that it names, wherever it does so."""

from __future__ import annotations

from typing import Any


def group_ids(request: Any) -> list[str]:
    """The groups that a request is about, in whichever of its fields it names them."""
    if hasattr(request, "group_id") and request.group_id:
        return [request.group_id]
    groups = getattr(request, "groups", None) or getattr(request, "group_ids", None) or ()
    return [getattr(group, "group_id", group) for group in groups]


def parts(request: Any) -> list[tuple[Any, list[int | None]]]:
    """The rows of a request that name topics, with the partitions they name."""
    rows = next(
        (
            found
            for name in ("topic_data", "topics", "topic_names", "topics_partitions")
            if (found := getattr(request, name, None))
        ),
        (),
    )
    groups = getattr(request, "groups", None) or ()
    nested = [row for group in groups for row in getattr(group, "topics", None) or ()]
    return [(row, _partitions(row)) for row in (*rows, *nested)]


def _partitions(row: Any) -> list[int | None]:
    inner = next(
        (
            found
            for name in ("partition_data", "partitions", "partition_indexes")
            if (found := getattr(row, name, None))
        ),
        (),
    )
    numbers: list[int | None] = []
    for each in inner:
        if isinstance(each, int):
            numbers.append(each)
            continue
        names = (name for name in ("index", "partition", "partition_index") if hasattr(each, name))
        numbers += [getattr(each, name) for name in names]
    return numbers


def topic_name(services: Any, row: Any) -> str | None:
    """The name of the topic that a row of a request is about, if it has one."""
    if isinstance(row, str):
        return row
    name: str | None = next(
        (found for each in ("name", "topic", "topic_name") if (found := getattr(row, each, None))),
        None,
    )
    if not name and hasattr(row, "topic_id"):
        topic = services.image.topics_by_id.get(row.topic_id)
        name = None if topic is None else topic.name
    return name


def description(services: Any, request: Any) -> str:
    """The topics and partitions of a request in a few words."""
    words = []
    for row, partitions in parts(request):
        numbers = ",".join(map(str, partitions))
        name = topic_name(services, row) or "?"
        words.append(f"{name}[{numbers}]" if numbers else name)
    if group := getattr(request, "group_id", None):
        words.append(f"group={group}")
    return " ".join(words)
