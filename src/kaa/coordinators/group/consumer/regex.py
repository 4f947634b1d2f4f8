"""Subscriptions by regular expression: RE2 syntax, matched against the whole name of a topic.

What an expression matches is resolved by the coordinator, after the heartbeat that brings it, and
stored. The expressions of a group are resolved again, all at once, when a heartbeat finds that one
is not resolved yet, that topics have been created since, or that the last time was long ago; but
not twice within ten seconds. If other topics match then, the group epoch is bumped.
"""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any

from kaa.coordinators.group.consumer.group import ResolvedRegex
from kaa.coordinators.group.consumer.records import CONSUMER_RECORDS, regex_record, regex_tombstone
from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.regex import compile_regex
from kaa.limits import (
    CONSUMER_GROUP_REGEX_HASHES_PER_STEP_MAX,
    CONSUMER_GROUP_REGEX_MATCHES_PER_STEP_MAX,
    CONSUMER_GROUP_REGEX_REFRESH_MS_MIN,
    NAMES_ANSWERED_PER_SLICE_MAX,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from kaa.coordinators.group.consumer.group import ConsumerGroup
    from kaa.coordinators.group.consumer.member import ConsumerMember
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import Moment, NewRecord
    from kaa.model.pieces import Pieces


class RegexChange(Enum):
    """What a request does to the expression of its member."""

    NONE = 0
    # Another one, which is not resolved yet: the target will change when it is.
    CHANGED = 1
    RESOLVED = 2


def change_regex(
    group: ConsumerGroup,
    member: ConsumerMember,
    updated: ConsumerMember,
    records: list[NewRecord],
) -> tuple[RegexChange, bool]:
    """What changes, and whether the expression is a new one for the group."""
    old, new = member.subscribed_topic_regex, updated.subscribed_topic_regex
    if old == new:
        return RegexChange.NONE, False
    if old and group.regex_subscribers(old) == 1:
        records.append(regex_tombstone(group.group_id, old))
    if new:
        if group.regex_subscribers(new) == 0:
            compile_regex(new)
            return RegexChange.CHANGED, True
        return (RegexChange.RESOLVED if new in group.regexes else RegexChange.CHANGED), False
    return (RegexChange.RESOLVED if old else RegexChange.CHANGED), False


def regexes_to_resolve(
    group: ConsumerGroup,
    updated: ConsumerMember,
    topics: GroupTopics,
    refresh_interval_ms: int,
    now: Moment,
    *,
    is_new: bool,
) -> frozenset[str]:
    """The expressions of the group if they are to be resolved now; otherwise none."""
    members = group.members_with(updated).values()
    used = frozenset(
        member.subscribed_topic_regex for member in members if member.subscribed_topic_regex
    )
    last = next(iter(group.regexes.values()), None)
    if not used:
        return used
    if last is not None:
        age_ms = now.wall_ms - last.timestamp_ms
        if 0 <= age_ms <= CONSUMER_GROUP_REGEX_REFRESH_MS_MIN:
            return frozenset()
        # Of the future: the date was set back since, and nobody knows by how much.
        is_old = not 0 <= age_ms <= refresh_interval_ms or last.version < topics.created_offset
        if not is_new and not is_old and len(used) == len(group.regexes):
            return frozenset()
    return used


def resolve(
    regexes: Iterable[str], topics: GroupTopics, timestamp_ms: int
) -> Generator[None, None, dict[str, ResolvedRegex]]:
    """Matches every topic, in slices, and prepares the hash of those that match. An expression
    that cannot be compiled is left out, as in Kafka.
    """
    version, names = topics.offset, tuple(topics.names)
    matchers: dict[str, Any] = {}
    for regex in sorted(regexes):
        # Another kind of broker may have taken and stored one that is refused here.
        with suppress(CoordinatorError):
            matchers[regex] = compile_regex(regex)
        yield
    found: dict[str, set[str]] = {regex: set() for regex in matchers}
    matching: dict[str, None] = {}
    pairs = ((name, regex) for name in names for regex in matchers)
    for count, (name, regex) in enumerate(pairs, 1):
        if matchers[regex].fullmatch(name):
            found[regex].add(name)
            matching[name] = None
        if count % CONSUMER_GROUP_REGEX_MATCHES_PER_STEP_MAX == 0:
            yield
    rest = iter(matching)
    while some := list(islice(rest, CONSUMER_GROUP_REGEX_HASHES_PER_STEP_MAX)):
        yield from topics.prepare(some)
    return {
        regex: ResolvedRegex(frozenset(names), version, timestamp_ms)
        for regex, names in found.items()
    }


def resolved_records(
    group: ConsumerGroup, found: Mapping[str, ResolvedRegex], topics: GroupTopics
) -> Pieces[list[NewRecord]]:
    """Records of what was resolved, and of a new epoch if other topics match now."""
    records = []
    resolved = dict(group.regexes.items())
    is_changed = False
    names = {name for member in group.members.values() for name in member.subscribed_topic_names}
    left = NAMES_ANSWERED_PER_SLICE_MAX
    for regex, new in found.items():
        if group.regex_subscribers(regex) == 0:
            continue
        is_changed = is_changed or resolved.get(regex, ResolvedRegex()).topics != new.topics
        resolved[regex] = new
        records.append(regex_record(group.group_id, regex, new))
        left -= len(new.topics) + 1
        if left <= 0:
            left = NAMES_ANSWERED_PER_SLICE_MAX
            yield
    names.update(*(one.topics for one in resolved.values()))
    metadata_hash = topics.group_hash(names)
    if is_changed or metadata_hash != group.epochs.metadata_hash:
        epoch = group.group_epoch + 1
        records.append(CONSUMER_RECORDS.epoch_record(group.group_id, epoch, metadata_hash))
        group.topics_checked = (topics.version, epoch)
    return records
