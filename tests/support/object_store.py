"""An S3 emulator on loopback, one per test process, each test with a bucket of its own."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest

from kaa.spark.lake.store import Store

_server: Any = None
_buckets = itertools.count()


def emulated_s3(request: pytest.FixtureRequest) -> Store:
    """A place in a new bucket; the server stops with the session."""
    global _server  # noqa: PLW0603  There is one server in a process.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import boto3
        from moto.server import ThreadedMotoServer

        if _server is None:
            _server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
            _server.start()
            request.session.addfinalizer(_server.stop)
        host, port = _server.get_host_and_port()
        options = {
            "endpoint": f"http://{host}:{port}",
            "region": "us-east-1",
            "access-key-id": "test",
            "secret-access-key": "test",
        }
        bucket = f"bucket-{next(_buckets)}"
        client: Any = boto3.client(
            "s3",
            endpoint_url=options["endpoint"],
            region_name=options["region"],
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        client.create_bucket(Bucket=bucket)
        client.close()
    return Store(f"s3://{bucket}/lake", options)
