"""The checksum, with and without the package around its function."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kaa.records.checksum import crc32c

# The check value of CRC-32C.
CHECK = (b"123456789", 0xE3069283)


def test_check_value() -> None:
    content, expected = CHECK
    assert crc32c(content) == expected
    assert crc32c(content[4:], crc32c(content[:4])) == expected


@pytest.mark.parametrize(
    ("before", "is_loaded"), [("pass", False), ("import crc32c", True)], ids=["alone", "in use"]
)
def test_the_package_is_not_loaded_for_it(before: str, *, is_loaded: bool) -> None:
    program = (
        f"{before}; import sys; from kaa.records.checksum import crc32c; "
        f"assert crc32c({CHECK[0]!r}) == {CHECK[1]}; print('crc32c' in sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == str(is_loaded)
