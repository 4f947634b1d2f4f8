"""What Iceberg's manifests say of files that tasks have written.

Of data files: the values of their part, and for each column sizes, counts and bounds out of the
footer. Of files with deleted positions: the paths of the first and the last data file they name,
by which readers find those that concern a data file; these are never shortened.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from kaa.spark.lake.iceberg.deletes import PATH_ID

if TYPE_CHECKING:
    from kaa.spark.lake.table import WrittenDeletes, WrittenFile


def data_file(table: Any, file: WrittenFile) -> Any:
    """Pyiceberg's description of a data file."""
    schema = table.schema()
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=pickle.loads(file.footer),  # noqa: S301  Our own tasks wrote it.
        stats_columns=compute_statistics_plan(schema, table.metadata.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.url,
        file_format=FileFormat.PARQUET,
        partition=Record(*file.part),
        file_size_in_bytes=file.size_bytes,
        sort_order_id=None,
        spec_id=table.metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def delete_file(table: Any, file: WrittenDeletes) -> Any:
    """Pyiceberg's description of a file with deleted positions."""
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=file.url,
        file_format=FileFormat.PARQUET,
        partition=Record(*file.part),
        record_count=file.rows,
        file_size_in_bytes=file.size_bytes,
        column_sizes=None,
        value_counts=None,
        null_value_counts=None,
        nan_value_counts=None,
        lower_bounds={PATH_ID: file.first_path.encode()},
        upper_bounds={PATH_ID: file.last_path.encode()},
        split_offsets=None,
        sort_order_id=None,
        spec_id=table.metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
    )
