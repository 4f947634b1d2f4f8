"""The modules through which Spark finds the formats: one that raises takes all others with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Imports of what is named in the arguments fail, as where it is missing or broken.
PROGRAM = """
import sys
module, *missing = sys.argv[1:]

class Broken:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in missing:
            raise RuntimeError(f"{name} is broken")

sys.meta_path.insert(0, Broken())
source = __import__(module).DefaultSource
print(source.name(), *(name for name in ("kaa", "pyarrow") if name in sys.modules))
"""


@pytest.mark.parametrize(
    ("module", "name"), [("pyspark_kaa", "kaa"), ("pyspark_kaa_table", "kaa_table")]
)
@pytest.mark.parametrize("missing", [[], ["kaa", "pyarrow"]])
def test_it_is_imported_without_what_it_will_need(
    module: str, name: str, missing: list[str]
) -> None:
    command = [sys.executable, "-c", PROGRAM, module, *missing]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.split() == [name], answer.stderr
