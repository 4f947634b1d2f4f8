"""What a failed test shows of its broker: last requests, ends of topics, groups, its own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa import limits
from kaa.model.words import count_text
from kaa.testing.client import RefusedError
from kaa.testing.differences import shown_record

if TYPE_CHECKING:
    from kaa.testing.broker import Broker


def sections(broker: Broker) -> list[tuple[str, str]]:
    """Titles and texts; a broker that cannot be asked any more says why."""
    found = []
    if requests := broker.requests[-limits.TESTING_REQUESTS_SHOWN_MAX :]:
        found.append(("kafka: last requests", _repeats_folded(requests)))
    if tails := _tails(broker):
        found.append(("kafka: ends of topics", tails))
    if groups := _groups(broker):
        found.append(("kafka: groups", groups))
    if reports := broker.reports[-limits.TESTING_REQUESTS_SHOWN_MAX :]:
        found.append(("kafka: reports of the broker", "\n".join(reports)))
    return found


def _tails(broker: Broker) -> str:
    lines = []
    try:
        names = [name for name in broker.topic_names() if name.startswith(broker.prefix)]
        for name in names[: limits.TESTING_TOPICS_SHOWN_MAX]:
            topic = broker.existing_topic(name)
            counts = ", ".join(f"{number}: {end}" for number, end in topic.offsets().items())
            lines.append(f"{name} (end offsets {counts})")
            lines += [
                f"  {shown_record(record)}"
                for record in topic.tail(limits.TESTING_RECORDS_SHOWN_MAX)
            ]
        if len(names) > limits.TESTING_TOPICS_SHOWN_MAX:
            lines.append(
                f"and {count_text(len(names) - limits.TESTING_TOPICS_SHOWN_MAX, 'more topic')}"
            )
    except (OSError, RefusedError, RuntimeError) as error:
        lines.append(f"the broker cannot be asked: {error}")
    return "\n".join(lines)


def _groups(broker: Broker) -> str:
    lines = []
    try:
        types = broker.group_types()
        ids = [name for name in types if name.startswith(broker.prefix)]
        for group_id in ids[: limits.TESTING_TOPICS_SHOWN_MAX]:
            is_share = types[group_id].lower() == "share"
            lines += _share_group(broker, group_id) if is_share else _group(broker, group_id)
    except (OSError, RefusedError, RuntimeError):
        return ""  # The part about topics has said why.
    return "\n".join(lines)


def _group(broker: Broker, group_id: str) -> list[str]:
    group = broker.existing_group(group_id)
    return [
        f"{group_id}: {group.state()}, {count_text(group.member_count(), 'member')}",
        *(
            f"  {topic}-{number} committed {offset}"
            for (topic, number), offset in sorted(group.committed().items())
        ),
    ]


def _share_group(broker: Broker, group_id: str) -> list[str]:
    group = broker.existing_share_group(group_id)
    done = count_text(len(group.acknowledged()), "record")
    return [
        f"{group_id}: share group, {group.state()}, {count_text(group.member_count(), 'member')}",
        *(
            f"  {topic}-{number} done with up to {offset}"
            for (topic, number), offset in sorted(group.start_offsets().items())
        ),
        f"  {done} acknowledged, {len(group.archived())} given up",
    ]


def _repeats_folded(lines: list[str]) -> str:
    """A client that polls says the same again and again; once is enough."""
    folded: list[tuple[str, int]] = []
    for line in lines:
        if folded and folded[-1][0] == line:
            folded[-1] = (line, folded[-1][1] + 1)
        else:
            folded.append((line, 1))
    return "\n".join(line if count == 1 else f"{line} (x{count})" for line, count in folded)
