"""The oracle from a shell: fetch the jars, print a schema, run one of Kafka's tools."""

import argparse
import json
import os
import sys

from tests.oracle import maven
from tests.oracle.client import tool_command
from tests.oracle.environment import OracleUnavailableError
from tests.oracle.schemas import kafka_schemas


def main() -> int:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("jars", help="fetch Kafka's jars and print their folder")
    schemas = commands.add_parser("schemas", help="list Kafka's message schemas, or print one")
    schemas.add_argument("name", nargs="?")
    run = commands.add_parser("run", help="run a Kafka tool or any class with a main method")
    run.add_argument("tool", help="such as DumpLogSegments, or a full class name")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    chosen = parser.parse_args()
    try:
        if chosen.command == "jars":
            print(maven.jars(_tell))
        elif chosen.command == "schemas":
            maven.jars(_tell)
            _print_schemas(chosen.name)
        else:
            arguments = tool_command(chosen.tool, chosen.arguments, _tell)
            os.execv(arguments[0], arguments)
    except OracleUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _print_schemas(name: str | None) -> None:
    schemas = kafka_schemas()
    if name is None:
        for schema in schemas.values():
            print(f"{schema['name']:<45} {schema['type']:<17} {schema['validVersions']}")
    elif name in schemas:
        print(json.dumps(schemas[name], indent=2))
    else:
        raise OracleUnavailableError(f"Kafka has no schema named {name}")


if __name__ == "__main__":
    sys.exit(main())
