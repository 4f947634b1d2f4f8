from typing import Any

class StructPlan:
    def __init__(
        self,
        cls: type,
        fields: list[tuple[Any, ...]],
        tagged: list[tuple[Any, ...]],
        is_flexible: bool,
    ) -> None: ...
    def decode(
        self,
        buffer: bytes | bytearray | memoryview,
        position: int,
        end: int,
        budget: int,
        tags_max: int,
        /,
    ) -> tuple[Any, int]: ...

class EncodePlan:
    def __init__(
        self,
        cls: type,
        fields: list[tuple[Any, ...]],
        tagged: list[tuple[Any, ...]],
        is_flexible: bool,
    ) -> None: ...
    def encode(self, message: Any, out: bytearray, splices: list[tuple[int, Any]], /) -> None: ...
    def frame(self, message: Any, head: bytes, /) -> list[Any]: ...
