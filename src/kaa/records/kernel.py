"""Chooses the kernel once, at import: the compiled one where it was built, else its Python twin.

Both give the same results, only the speed differs; `KERNEL_NAME` says which one is in use
(`cython` or `python`).
"""

from typing import TYPE_CHECKING

from kaa.twins import compiled

KERNEL_NAME = "python" if compiled("kaa.records._kernel") is None else "cython"

if TYPE_CHECKING or KERNEL_NAME == "python":
    from kaa.records._pure_objects import decode_records, encode_record
    from kaa.records._pure_validate import RecordScanner, scan_plain
else:
    from kaa.records._kernel import RecordScanner, decode_records, encode_record, scan_plain

__all__ = ["KERNEL_NAME", "RecordScanner", "decode_records", "encode_record", "scan_plain"]
