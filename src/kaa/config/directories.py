"""The names of a node's directories, as it uses and shows them.

Kafka names a directory by its absolute path wherever clients see it, so that what a tool shows can
be asked for in a move, whatever the folder is in which the node was started. `..` is left alone:
after a link it leads elsewhere than its name says. Whether one is inside another is decided by
their names, without a look at the disk.
"""

import posixpath
from collections.abc import Iterable, Iterator
from pathlib import Path

from kaa.config.definition import ConfigProblem, ConfigValues
from kaa.config.values import shown


def directory_path(text: str) -> str:
    """The absolute path, without what means nothing: `a//b/` is `/folder/a/b`."""
    return str(Path(text).absolute())


def log_directories(values: ConfigValues) -> tuple[str, ...]:
    """`log.dirs`, or `log.dir` where it is not set; each once."""
    return tuple(dict.fromkeys(directory_path(text) for text in _as_given(values)))


def _as_given(values: ConfigValues) -> tuple[str, ...]:
    dirs = values.get_optional_list("log.dirs")
    return values.get_list("log.dir") if dirs is None else dirs


def cordoned_problems(values: ConfigValues) -> Iterator[ConfigProblem]:
    """`cordoned.log.dirs` names log directories as `log.dirs` does, or all of them by `*`."""
    cordoned = values.get_optional_list("cordoned.log.dirs") or ()
    if "*" in cordoned:
        if len(cordoned) > 1:
            yield ConfigProblem("cordoned.log.dirs", "cordoned.log.dirs must be * alone.")
        return
    known = _as_given(values)
    unknown = unknown_cordons(values, cordoned)
    if unknown:
        yield ConfigProblem(
            "cordoned.log.dirs",
            f"cordoned.log.dirs has {shown(', '.join(unknown))}, which is not in log.dirs: name "
            f"some of {shown(', '.join(known))}, or * for all, or unset it.",
        )


def unknown_cordons(values: ConfigValues, cordoned: Iterable[str]) -> list[str]:
    """Of directories that are to be cordoned those that `log.dirs` does not have, or not so."""
    known = _as_given(values)
    return [entry for entry in cordoned if entry != "*" and entry not in known]


def nesting_problems(values: ConfigValues) -> Iterator[ConfigProblem]:
    """A directory in another one would be taken for the folder of a partition, and put aside as one
    that nobody knows.
    """
    log_dirs = log_directories(values)
    metadata_dir = values.get_optional_string("metadata.log.dir")
    others = () if metadata_dir is None else (directory_path(metadata_dir),)
    name = "log.dirs" if values.get_optional_list("log.dirs") is not None else "log.dir"
    for inner in dict.fromkeys((*log_dirs, *others)):
        outer = next((path for path in log_dirs if _is_inside(inner, path)), None)
        if outer is not None:
            setting = name if inner in log_dirs else "metadata.log.dir"
            yield ConfigProblem(
                setting,
                f"{setting} has {shown(inner)}, which is inside {shown(outer)}, a log directory: "
                "only folders of partitions may be in one. Name directories side by side.",
            )


def _is_inside(inner: str, outer: str) -> bool:
    return Path(posixpath.normpath(outer)) in Path(posixpath.normpath(inner)).parents
