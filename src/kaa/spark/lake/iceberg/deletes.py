"""Files with positions of deleted rows, as Iceberg's format 2 has them.

Such a file has two columns, the path of a data file and the number of a row in it, sorted by both.
It belongs to one part, and concerns data files of that part that are not newer than itself. We
write them for upserts (`upsert` says how); other engines write them for deletes of theirs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as typed_parquet

from kaa.spark.formats.untyped import pa, pc
from kaa.spark.lake.partitioning import folder_of
from kaa.spark.lake.store import path_of
from kaa.spark.lake.table import LakeError, WrittenDeletes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.spark.formats.untyped import Array
    from kaa.spark.lake.partitioning import Part, Term
    from kaa.spark.lake.table import WritePlace

pq: Any = typed_parquet

PATH_ID: Final = 2147483546
POSITION_ID: Final = 2147483545


def _field(name: str, kind: Any, number: int) -> Any:
    named = {b"PARQUET:field_id": str(number).encode()}
    return pa.field(name, kind, nullable=False, metadata=named)


SCHEMA: Final = pa.schema(
    [_field("file_path", pa.string(), PATH_ID), _field("pos", pa.int64(), POSITION_ID)]
)


def write_deletes(
    positions: Mapping[str, Array],
    part: Part,
    terms: tuple[Term, ...],
    place: WritePlace,
    commit_id: str,
) -> WrittenDeletes:
    """Writes the positions of each path."""
    paths = sorted(positions)
    tables = [
        pa.Table.from_arrays(
            [pa.repeat(pa.scalar(path), len(positions[path])), positions[path].sort()],
            schema=SCHEMA,
        )
        for path in paths
    ]
    name = f"{commit_id}-{os.urandom(4).hex()}-deletes.parquet"
    url = "/".join(one for one in (place.data_url, folder_of(terms, part), name) if one)
    path, filesystem = path_of(url), place.store.filesystem()
    if place.store.is_local:
        filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    rows = pa.concat_tables(tables)
    pq.write_table(rows, path, filesystem=filesystem, compression="zstd")
    size = filesystem.get_file_info(path).size
    return WrittenDeletes(url, rows.num_rows, size, part, paths[0], paths[-1], place.spec)


def deleted_positions(io: Any, deletes: Sequence[Any], path: str) -> Array:
    """The positions of one data file that these files delete, in any order."""
    found = [pa.array([], pa.int64())]
    for one in deletes:
        if str(one.file_format).rpartition(".")[2] != "PARQUET":
            raise LakeError(
                f"{one.file_path} has deleted rows as {one.file_format}, which cannot be read "
                "here; let the engine that wrote it rewrite the data files"
            )
        with io.new_input(one.file_path).open() as source:
            rows = pq.read_table(source, columns=["file_path", "pos"])
        mine = rows.filter(pc.equal(rows.column("file_path"), pa.scalar(path)))
        found.append(mine.column("pos").combine_chunks())
    return pa.concat_arrays(found)
