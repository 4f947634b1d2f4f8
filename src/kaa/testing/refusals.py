"""The answer that says no, for any API and for some of the rows of a request.

Kafka's answers mirror its requests: a request names topics with partitions (or groups, resources,
ids), and the answer has a row with an error code for each. So the answer that refuses a request
needs no knowledge of its API: rows of the request become rows of the answer, fields of the same
meaning are copied, and the error code is set in each outermost row that has one. An answer without
such rows has one error code of its own, which is set.

Where only some rows are to fail, the request is cut in two: what is left of it is handled as ever,
and the rows that fail are put into its answer.

Fetch and Metadata change nothing and answer with more than they were asked (a fetch session names
no partitions, and clients need the brokers): they are handled, and the error is written over what
came out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.wire.registry import ApiKey
from kaa.wire.schema import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.wire.errors import Errors
    from kaa.wire.schema import Field, Request, Response, Struct

    # Whether the row of a topic, and of a partition if it is about one, is to fail.
    Matches = Callable[[Struct, int | None], bool]

WRITTEN_OVER: Final = (ApiKey.FETCH, ApiKey.METADATA)
# Answers that have an error of their own besides those of their rows: it speaks for all of them.
OWN_ERROR: Final = (
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
)
# Names of one meaning; a row of an answer takes the first that the row of the request has.
_SAME: Final = (
    {"partition_index", "partition", "index"},
    {"name", "topic", "topic_name"},
)
_PARTITION: Final = _SAME[0]
_TOPIC_NAMES: Final = ("name", "topic", "topic_name", "topic_id")
# The fields of an answer that say no: that of nearly all, and that of AddPartitionsToTxn.
_ERROR_CODE: Final = "error_code"
_ERROR_CODES: Final = (_ERROR_CODE, "partition_error_code")


def refuse(
    request: Request, response: type[Any], version: int, error: Errors, matches: Matches
) -> tuple[Request | None, Response | None]:
    """What is left of a request, and the answer to the rest; either may be None."""
    source, target = _row_fields(type(request), response, version)
    rows = None if source is None else getattr(request, source.name)
    if source is None or target is None or not rows:
        if not _has_error_code(response, version):
            return request, None
        return None, response(**{_ERROR_CODE: int(error)})
    kept, refused = [], []
    for row in rows:
        left, failed = _split(row, target.element, version, error, matches)
        if left is not None:
            kept.append(left)
        if failed is not None:
            refused.append(failed)
    answer = response(**{target.name: refused}) if refused else None
    if answer is None:
        return request, None
    return (_with(request, source.name, kept) if kept else None), answer


def _split(
    row: Any, result: type[Struct], version: int, error: Errors, matches: Matches
) -> tuple[Any, Any]:
    """A row of the request without what fails, and the row of the answer that says so."""
    nested, target = None, None
    if _is_struct(row) and not _has_error_code(result, version):
        nested, target = _row_fields(type(row), result, version)
    inner = getattr(row, nested.name) if nested is not None else None
    if nested is None or target is None or not inner:
        if not matches(row, None):
            return row, None
        return None, _refused_row(row, result, version, error)
    if _is_struct(inner[0]) and not _has_error_code(target.element, version):
        return _split_deeper(row, result, nested, target, version, error, matches)
    kept = [each for each in inner if not matches(row, _partition(each))]
    failing = [each for each in inner if matches(row, _partition(each))]
    if not failing:
        return row, None
    answer = _copied(row, result, version)
    setattr(
        answer,
        target.name,
        [_refused_row(each, target.element, version, error) for each in failing],
    )
    return (_with(row, nested.name, kept) if kept else None), answer


def _split_deeper(
    row: Any,
    result: type[Struct],
    nested: Field,
    target: Field,
    version: int,
    error: Errors,
    matches: Matches,
) -> tuple[Any, Any]:
    """As `_split` for a row whose own rows are topics: a marker, or a transaction."""
    parts = [
        _split(each, target.element, version, error, matches) for each in getattr(row, nested.name)
    ]
    failed = [failed for _, failed in parts if failed is not None]
    if not failed:
        return row, None
    answer = _copied(row, result, version)
    setattr(answer, target.name, failed)
    kept = [left for left, _ in parts if left is not None]
    return (_with(row, nested.name, kept) if kept else None), answer


def _refused_row(row: Any, result: type[Struct], version: int, error: Errors) -> Struct:
    answer = _copied(row, result, version)
    for name in _ERROR_CODES:
        if hasattr(answer, name):
            setattr(answer, name, int(error))
    if hasattr(answer, "base_offset"):
        answer.base_offset = -1
    if getattr(answer, "records", b"") is None:
        # Records may be left out in some APIs only; none at all is understood by all.
        answer.records = b""  # type: ignore[attr-defined]
    return answer


def _copied(row: Any, result: type[Struct], version: int) -> Struct:
    """A row of an answer with what the row of the request has in common with it."""
    fields = [field for field in fields_of(result) if version in field.versions]
    if not _is_struct(row):
        # A plain name or number: it stands for the first field that can hold one.
        named = next(field for field in fields if field.name not in _ERROR_CODES)
        return result(**{named.name: row})
    values = {}
    for field in fields:
        if field.is_array or field.name in _ERROR_CODES:
            continue
        names = next((same for same in _SAME if field.name in same), {field.name})
        for name in (field.name, *sorted(names)):
            if hasattr(row, name):
                values[field.name] = getattr(row, name)
                break
    return result(**values)


def write_over(response: Response, error: Errors, matches: Matches, *, partitions: bool) -> int:
    """Puts the error into the rows that match, of topics or of partitions; says how many."""
    count = 0
    for topic in _topics(response):
        if not partitions:
            if matches(topic, None):
                topic.error_code = int(error)
                count += 1
            continue
        for row in topic.partitions:
            if matches(topic, _partition(row)):
                row.error_code = int(error)
                _drop_records(row)
                count += 1
    return count


def merge(answer: Response, refused: Response) -> Response:
    """Adds the rows of a refusal to the answer of what was left of the request."""
    for field in fields_of(type(refused)):
        rows = getattr(refused, field.name)
        if not field.is_array or not rows:
            continue
        there = getattr(answer, field.name)
        for row in rows:
            same = next((each for each in there if _is_same_topic(each, row)), None)
            if same is None:
                there.append(row)
            else:
                merge(same, row)
    return answer


def _is_same_topic(one: Any, other: Any) -> bool:
    names = [name for name in _TOPIC_NAMES if hasattr(one, name)]
    return bool(names) and all(getattr(one, name) == getattr(other, name) for name in names)


def _row_fields(
    request: type[Struct], result: type[Struct], version: int
) -> tuple[Field | None, Field | None]:
    """The list of a request that names what it is about, and the list of results for it."""
    target = next(
        (
            field
            for field in fields_of(result)
            if field.is_array and field.is_struct and version in field.versions
            if _leads_to_error_code(field.element, version)
        ),
        None,
    )
    sources = [
        field for field in fields_of(request) if field.is_array and version in field.versions
    ]
    return (sources[0] if sources and target is not None else None), target


def _leads_to_error_code(struct: type[Struct], version: int) -> bool:
    return _has_error_code(struct, version) or any(
        field.is_array and field.is_struct and _leads_to_error_code(field.element, version)
        for field in fields_of(struct)
    )


def _has_error_code(struct: type[Struct], version: int) -> bool:
    return any(
        field.name in _ERROR_CODES and version in field.versions for field in fields_of(struct)
    )


def _with(struct: Any, name: str, value: list[Any]) -> Any:
    """A copy of a struct with another value of one field."""
    values = {field.name: getattr(struct, field.name) for field in fields_of(type(struct))}
    return type(struct)(**{**values, name: value})


def _topics(response: Any) -> list[Any]:
    found: list[Any] = response.responses if hasattr(response, "responses") else response.topics
    return found


def _partition(row: Any) -> int | None:
    if isinstance(row, int):
        return row
    return next((getattr(row, name) for name in _PARTITION if hasattr(row, name)), None)


def _drop_records(row: Any) -> None:
    """A refused partition carries no records; a region of a file is given back."""
    records = getattr(row, "records", None)
    if records is None:
        return
    if hasattr(records, "release") and not isinstance(records, memoryview):
        records.release()
    row.records = b""


def _is_struct(row: object) -> bool:
    return hasattr(type(row), "specs")
