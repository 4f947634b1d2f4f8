"""pyarrow without types: the stubs describe an older version and refuse calls that are right.

The names of its classes stay, as documentation of what is meant.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as typed_pyarrow  # noqa: ICN001
import pyarrow.compute as typed_compute
import pyarrow.json as typed_json

pa: Any = typed_pyarrow
pc: Any = typed_compute
pj: Any = typed_json

Array: TypeAlias = Any
DataType: TypeAlias = Any
Field: TypeAlias = Any
RecordBatch: TypeAlias = Any
Schema: TypeAlias = Any
StructArray: TypeAlias = Any
StructType: TypeAlias = Any
Table: TypeAlias = Any
