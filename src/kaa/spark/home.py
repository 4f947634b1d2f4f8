"""A home of Spark in which its Python processes start quickly.

Spark puts the archive `python/lib/pyspark.zip` of its home before everything else on the path of
the Python processes that it starts, half a dozen of them for a streaming query. The archive has
sources alone, so each of these compiles them again: about one second of a processor, where the
package that is installed has them compiled and needs a quarter of it. On a machine with much else
to do that second decides whether a process connects within the ten seconds that Spark waits for it.

The *shim* is a folder with links to all that a home of Spark in the Python package has, but for
these archives. What is not there Python passes over, and takes the installed package, which is the
same one. This only goes where the processes run the Python of this environment; Spark on YARN or
Kubernetes needs the archives themselves.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

_LINKED = ("bin", "conf", "data", "jars", "sbin")


def quick_spark_home(shim_folder: Path | None = None) -> Path | None:
    """Gives the `SPARK_HOME` to start Spark with; None where it has to find its own."""
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        return None
    home = Path(package.origin).parent
    if not (home / "jars").is_dir():
        return None
    folder = shim_folder or Path(sys.prefix, "share", "kaa", "spark")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _LINKED:
            if (home / name).is_dir():
                _link(folder / name, home / name)
    except OSError:
        # It is only slower without: the folder may not be writable, or the system has no links.
        return None
    return folder


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    # Two processes may do this at once: each makes its own link and renames it into place.
    draft = link.with_name(f"{link.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(link)
