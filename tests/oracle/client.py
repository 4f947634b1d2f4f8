"""The oracle as tests use it: Kafka's own answer to a question, in Python values.

A method in the plural takes many questions at once, in as few round trips as it can, and puts a
JavaError in the place of each answer that Kafka refused. Its singular twin raises that error.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from tests.oracle.environment import Progress, silent
from tests.oracle.jvm import CALL_SECONDS_MAX, Jvm, java_command
from tests.oracle.log import JavaLog
from tests.oracle.model import (
    ApiKeyRow,
    Batch,
    ErrorRow,
    HeaderVersions,
    JavaError,
    MessageBytes,
    MessageClass,
    MessageJson,
    MessageRead,
    NewBatch,
    NewMarker,
    Produced,
    Record,
    RecordsRead,
    ToolResult,
    Validated,
    binary,
    camel_fields,
    snake_fields,
)

Answer = TypeVar("Answer")

HEAP_MB: Final = 512
# These tools may end their process without asking anyone, so they get one of their own.
_OWN_PROCESS: Final = {
    "ClusterTool",
    "MetadataShell",
    "TransactionalMessageCopier",
    "VerifiableConsumer",
    "VerifiableProducer",
    "VerifiableShareConsumer",
}


class Oracle:
    """A connection to the oracle JVM.

    With a run folder the JVM is shared by all who name the same folder; without one it is this
    object's own and ends with it.
    """

    def __init__(self, run_folder: Path | None = None, progress: Progress = silent) -> None:
        self._own_folder = None if run_folder else Path(tempfile.mkdtemp(prefix="kaa-oracle-"))
        folder = run_folder or self._own_folder
        assert folder is not None
        try:
            self.jvm = Jvm.shared(folder / "oracle", HEAP_MB, progress)
        except BaseException:
            self._remove_own_folder()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave a shared JVM, or end one's own."""
        if self._own_folder:
            self.jvm.stop()
            self._remove_own_folder()
        else:
            self.jvm.close()

    def _remove_own_folder(self) -> None:
        if self._own_folder:
            shutil.rmtree(self._own_folder, ignore_errors=True)

    def pid(self) -> int:
        """The process id of the JVM."""
        return int(self.jvm.call_one("ping"))

    # Messages

    def read_messages(self, items: Sequence[MessageBytes]) -> list[MessageRead | JavaError]:
        """Read messages with Kafka's generated classes."""
        answers = self.jvm.call("codec.read", [item.to_json() for item in items])
        return [
            answer
            if isinstance(answer, JavaError)
            else MessageRead(answer["json"], binary(answer["bytes"]) or b"", answer["remaining"])
            for answer in answers
        ]

    def read_message(self, name: str, version: int, data: bytes) -> MessageRead:
        """Read one message."""
        return _only(self.read_messages([MessageBytes(name, version, data)]))

    def write_messages(self, items: Sequence[MessageJson]) -> list[bytes | JavaError]:
        """Write messages from their JSON; bytes and UUID values may stand in it as they are."""
        answers = self.jvm.call("codec.write", [item.to_json() for item in items])
        return [_bytes(answer) for answer in answers]

    def write_message(self, name: str, version: int, json: Any) -> bytes:
        """Write one message."""
        return _only(self.write_messages([MessageJson(name, version, json)]))

    def message_classes(self) -> list[MessageClass]:
        """Every message class in Kafka's jars."""
        rows = self.jvm.call_one("codec.classes")
        return [
            MessageClass(
                row["name"], row["package"], row["lowest"], row["highest"], row.get("apiKey")
            )
            for row in rows
        ]

    # Tables

    def errors(self) -> list[ErrorRow]:
        """Java's error enum."""
        return [ErrorRow(**row) for row in self.jvm.call_one("errors")]

    def api_keys(self) -> list[ApiKeyRow]:
        """Java's API key enum."""
        return [_api_key(row) for row in self.jvm.call_one("apikeys")]

    # Records

    def build_batches(self, items: Sequence[NewBatch | NewMarker]) -> list[bytes | JavaError]:
        """Build batches with Kafka's builder."""
        answers = self.jvm.call("records.build", [_new_batch(item) for item in items])
        return [_bytes(answer) for answer in answers]

    def build_batch(self, item: NewBatch | NewMarker) -> bytes:
        """Build one batch."""
        return _only(self.build_batches([item]))

    def read_many_records(self, items: Sequence[bytes]) -> list[RecordsRead]:
        """Read several pieces of record bytes, each a row of batches."""
        answers = self.jvm.call("records.read", [{"bytes": item} for item in items])
        return [_records_read(answer) for answer in answers]

    def read_records(self, data: bytes) -> RecordsRead:
        """Read a row of batches."""
        return self.read_many_records([data])[0]

    def validate_many(self, items: Sequence[Produced]) -> list[Validated | JavaError]:
        """Judge produced records as the leader of their partition does."""
        questions = [camel_fields(item) for item in items]
        for question in questions:
            question["bytes"] = question.pop("data")
        return [
            answer
            if isinstance(answer, JavaError)
            else Validated(**snake_fields(Validated, answer, data=binary(answer["bytes"])))
            for answer in self.jvm.call("records.validate", questions)
        ]

    def validate(self, item: Produced) -> Validated:
        """Judge one piece of produced records."""
        return _only(self.validate_many([item]))

    def murmur2(self, keys: Sequence[bytes]) -> list[int]:
        """The signed 32-bit hash of each key."""
        answers = self.jvm.call("murmur2", [{"key": key} for key in keys])
        return [answer["hash"] for answer in answers]

    def partitions(self, keys: Sequence[bytes], count: int) -> list[int]:
        """Where the Java producer sends each key."""
        answers = self.jvm.call("murmur2", [{"key": key, "partitions": count} for key in keys])
        return [answer["partition"] for answer in answers]

    def open_log(
        self, folder: Path, config: Mapping[str, str] | None = None, **how: Any
    ) -> JavaLog:
        """Open a partition log with Kafka's log layer; see JavaLog for how."""
        return JavaLog(self.jvm, folder, config, **how)

    # Tools

    def run_tool(
        self,
        name: str,
        *arguments: str,
        stdin: bytes = b"",
        timeout_s: float = CALL_SECONDS_MAX,
        is_understood: bool = False,
    ) -> ToolResult:
        """Run one of Kafka's command-line tools by its simple or full class name.

        One that ends its process only over arguments that it does not understand may share the
        JVM when the caller knows that it `is_understood`.
        """
        if name.rpartition(".")[2] in _OWN_PROCESS and not is_understood:
            return run_tool_process(name, *arguments, stdin=stdin, timeout_s=timeout_s)
        item = {
            "name": name,
            "arguments": arguments,
            "stdin": stdin,
            "timeoutMs": int(timeout_s * 1000),
        }
        return ToolResult(**self.jvm.call_one("tool.run", item, timeout_s + 5))


def run_tool_process(
    name: str, *arguments: str, stdin: bytes = b"", timeout_s: float = CALL_SECONDS_MAX
) -> ToolResult:
    """Run a tool in a JVM of its own."""
    done = subprocess.run(
        tool_command(name, arguments),
        input=stdin,
        capture_output=True,
        check=False,
        timeout=timeout_s,
    )
    return ToolResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def tool_command(name: str, arguments: Sequence[str], progress: Progress = silent) -> list[str]:
    """The command line that runs a tool in a JVM of its own."""
    return [*java_command(HEAP_MB, progress), "kaa.oracle.Tools", name, *arguments]


def _only(answers: list[Answer | JavaError]) -> Answer:
    [answer] = answers
    if isinstance(answer, JavaError):
        raise answer
    return answer


def _bytes(answer: str | JavaError) -> bytes | JavaError:
    return answer if isinstance(answer, JavaError) else binary(answer) or b""


def _new_batch(item: NewBatch | NewMarker) -> dict[str, Any]:
    question = camel_fields(item)
    if isinstance(item, NewBatch):
        question["records"] = [camel_fields(record) for record in item.records]
    return question


def _api_key(row: dict[str, Any]) -> ApiKeyRow:
    return ApiKeyRow(
        **snake_fields(
            ApiKeyRow,
            row,
            listeners=tuple(row["listeners"]),
            headers=tuple(HeaderVersions(**header) for header in row.get("headers", ())),
            advertised={
                listener: (lowest, highest)
                for listener, (lowest, highest) in row.get("advertised", {}).items()
            },
        )
    )


def _records_read(answer: dict[str, Any]) -> RecordsRead:
    batches = tuple(_batch(row) for row in answer["batches"])
    return RecordsRead(batches, answer.get("validBytes"), _error(answer))


def _batch(row: dict[str, Any]) -> Batch:
    records = tuple(_record(record) for record in row["records"])
    return Batch(**snake_fields(Batch, row, records=records, error=_error(row)))


def _record(row: dict[str, Any]) -> Record:
    return Record(
        **snake_fields(
            Record,
            row,
            key=binary(row["key"]),
            value=binary(row["value"]),
            headers=tuple((name, binary(value)) for name, value in row["headers"]),
        )
    )


def _error(row: dict[str, Any]) -> JavaError | None:
    return JavaError.from_json(row["error"]) if "error" in row else None
