from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kaa.cli.extras import EXTRAS, missing_text, needs
from kaa.cli.root import root
from kaa.testing.registry import Registry
from tests.support.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parents[2]
# What a module is called by pip where the names differ.
PACKAGES = {"google": "grpcio-tools", "grpc_tools": "grpcio-tools", "yaml": "pyyaml"}
CORE = {"re2": "google-re2"}
# Loaded by what is named here alone, or for types alone.
BROUGHT = {
    "mmh3": "pyiceberg",
    "py4j": "pyspark",
    "pyspark_kaa": "pyspark",
    "pyspark_kaa_table": "pyspark",
    "pytest": "pytest",
    "requests": "pyiceberg",
    "typing_extensions": "a type checker",
}


def imported() -> Iterator[str]:
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (name.name.partition(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield (node.module or "").partition(".")[0]


def required(texts: list[str]) -> set[str]:
    return {re.split(r"[\[<>=;,]", text)[0].strip() for text in texts}


def test_every_module_is_of_the_core_or_of_an_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    core = required(project["dependencies"])
    others = set(imported()) - set(sys.stdlib_module_names) - {"kaa", *BROUGHT}
    of_core = {name for name in others if CORE.get(name, name) in core}
    assert others - of_core == set(EXTRAS)
    for module, extra in EXTRAS.items():
        found = required(project["optional-dependencies"][extra])
        assert PACKAGES.get(module, module) in found, module


def test_only_modules_of_extras_are_explained() -> None:
    missing = ModuleNotFoundError("No module named 'pyarrow.json'", name="pyarrow.json")
    assert missing_text(missing) == "pyarrow is missing: pip install 'kaa[spark]'"
    assert missing_text(missing, "lake") == "pyarrow is missing: pip install 'kaa[lake]'"
    assert missing_text(ModuleNotFoundError("No module named 'json5'", name="json5")) is None
    with pytest.raises(click.ClickException, match=r"pip install 'kaa\[lake\]'"), needs("lake"):
        raise missing
    with pytest.raises(ImportError), needs("lake"):
        raise ImportError("broken")


@pytest.fixture
def core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As installed without extras: nothing of them can be imported, and nothing has been."""
    for name in list(sys.modules):
        if name.partition(".")[0] in EXTRAS or name.startswith(("kaa.spark.", "kaa.tier.store.")):
            monkeypatch.delitem(sys.modules, name)
    for name in EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("lake status orders", "lake"),
        ("lake run orders --once", "lake"),
        ("lake compact orders", "lake"),
        ("pipeline validate FILE", "lake"),
        ("pipeline plan FILE", "lake"),
        ("pipeline status FILE", "lake"),
        ("tier verify orders --store file:///nowhere", "tier"),
        ("tier audit orders --store file:///nowhere", "lake"),
        ("tier convert orders --store file:///nowhere", "lake"),
    ],
)
def test_commands_name_the_extra(
    core_alone: None, tmp_path: Path, command: str, extra: str
) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text("name: orders\n")
    words = [str(file) if word == "FILE" else word for word in command.split()]
    answer = CliRunner().invoke(root, words)
    assert answer.exit_code == 1, answer.output
    assert f"is missing: pip install 'kaa[{extra}]'" in answer.stderr


def test_consuming_with_a_registry_names_the_extra(
    core_alone: None, kaa_node: BrokerProcess, topic_name: str
) -> None:
    def kaa(*arguments: str, stdin: str | None = None) -> Result:
        words = [*arguments, "-b", kaa_node.bootstrap_servers]
        return CliRunner().invoke(root, words, input=stdin)

    def write(frame: bytes) -> str:
        name = f"{topic_name}-{frame[4]}"
        row = {"value": {"base64": b64encode(frame).decode()}}
        assert kaa("produce", name, "--json", stdin=json.dumps(row)).exit_code == 0
        return name

    with Registry() as registry:
        frames = {
            kind: registry.frame(registry.register(f"{kind}-value", text, kind=kind), data)
            for kind, text, data in (
                ("AVRO", '"int"', b"\2"),
                ("PROTOBUF", 'syntax = "proto3"; message R { int32 a = 1; }', b"\0\x08\1"),
                ("JSON", "{}", b"[1]"),
            )
        }
        for kind, frame in frames.items():
            reading = ["consume", write(frame), "-e", "--registry", registry.url]
            answer = kaa(*reading)
            if kind == "JSON":
                # The core can read that.
                assert (answer.exit_code, answer.stdout) == (0, "[1]\n")
                continue
            assert answer.exit_code == 1
            assert "is missing: pip install 'kaa[registry]'" in answer.stderr, answer.output
