"""A refused partition in ShareFetch and ShareAcknowledge, whose sessions have to go on.

A request of a share session names only what changed, and counts the session's epoch up. So it is
handled in any case, without the partitions that are to fail: nothing of them is handed out or
acknowledged, and the answer has their error. They are in the session again afterwards.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kaa.serving.share.sessions import FINAL_EPOCH, ShareSessionError
from kaa.wire.messages import k78_share_fetch as k78
from kaa.wire.messages import k79_share_acknowledge as k79
from kaa.wire.primitives import PartitionId
from kaa.wire.registry import ApiKey
from kaa.wire.schema import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.wire.errors import Errors
    from kaa.wire.schema import Response

SESSION_APIS: Final = (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)


class Refused:
    """The partitions of one request that fail: what is left of it, and the answer to the rest."""

    def __init__(
        self,
        services: Any,
        request: Any,
        error: Errors,
        matches: Callable[[Any, int | None], bool],
    ) -> None:
        self._services = services
        self._request = request
        self._error = error
        rows = {
            PartitionId(topic.topic_id, row.partition_index): row
            for topic in request.topics
            for row in topic.partitions
        }
        meant = (
            rows if isinstance(request, k79.ShareAcknowledgeRequest) else {**self._kept(), **rows}
        )
        # The rows of the request about them, None where it does not name them.
        self.rows = {one: row for one, row in meant.items() if matches(one, one.number)}

    def _kept(self) -> dict[PartitionId, None]:
        """What the session fetches without being asked again."""
        sessions = self._services.share_partitions.sessions
        try:
            session = sessions.get(self._request.group_id, self._request.member_id)
        except ShareSessionError:
            return {}
        return dict.fromkeys(session.partitions)

    def rest(self) -> Any:
        """The request without them; a fetch does not wait, since there is something to tell."""
        request = self._request
        values = {field.name: getattr(request, field.name) for field in fields_of(type(request))}
        values["topics"] = [
            type(topic)(topic_id=topic.topic_id, partitions=rows)
            for topic in request.topics
            if (rows := [row for row in topic.partitions if not self._fails(topic, row)])
        ]
        if isinstance(request, k78.ShareFetchRequest):
            gone = [
                k78.ForgottenTopic(topic_id=one.topic_id, partitions=[one.number])
                for one in self.rows
            ]
            values["max_wait_ms"] = 0
            values["forgotten_topics_data"] = [*request.forgotten_topics_data, *gone]
        return type(request)(**values)

    def _fails(self, topic: Any, row: Any) -> bool:
        return PartitionId(topic.topic_id, row.partition_index) in self.rows

    def with_refusals(self, answer: Any) -> Response:
        """The answer to the rest, with them in it; the session has them again."""
        fetched = isinstance(self._request, k78.ShareFetchRequest)
        if fetched and self._request.share_session_epoch != FINAL_EPOCH:
            sessions = self._services.share_partitions.sessions
            with suppress(ShareSessionError):
                session = sessions.get(self._request.group_id, self._request.member_id)
                sessions.update(session, self.rows, ())
        topics = {topic.topic_id: topic for topic in answer.responses}
        for one, row in self.rows.items():
            if one.topic_id not in topics:
                topic = _topic(one, fetched=fetched)
                topics[one.topic_id] = topic
                answer.responses.append(topic)
            rows: list[Any] = topics[one.topic_id].partitions
            rows.append(self._refused_row(one, row, fetched=fetched))
        found: Response = answer
        return found

    def _refused_row(self, one: PartitionId, row: Any, *, fetched: bool) -> Any:
        if not fetched:
            return k79.PartitionData(partition_index=one.number, error_code=self._error)
        says = row is not None and bool(row.acknowledgement_batches)
        return k78.PartitionData(
            partition_index=one.number,
            error_code=self._error,
            acknowledge_error_code=self._error if says else 0,
            records=b"",
        )


def _topic(one: PartitionId, *, fetched: bool) -> Any:
    if fetched:
        return k78.ShareFetchableTopicResponse(topic_id=one.topic_id, partitions=[])
    return k79.ShareAcknowledgeTopicResponse(topic_id=one.topic_id, partitions=[])
