from __future__ import annotations

import asyncio

import pytest

from kaa.client.admin.base import AdminBase, outcome
from kaa.client.errors import UnreachableError
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import CreatableTopicResult, CreateTopicsRequest
from kaa.wire.messages.k42_delete_groups import DeletableGroupResult
from tests.support.ports import free_port


def test_outcome_of_a_row() -> None:
    assert outcome(CreatableTopicResult(name="t", error_code=0), "creation", "h:1") is None
    refused = CreatableTopicResult(name="t", error_code=36, error_message="it is there")
    error = outcome(refused, "creation", "h:1")
    assert error is not None
    assert error.error is Errors.TOPIC_ALREADY_EXISTS
    assert "it is there [broker h:1]" in str(error)
    # Rows of older APIs carry no text of the broker.
    error = outcome(DeletableGroupResult(group_id="g", error_code=68), "deletion", "h:1")
    assert error is not None
    assert error.error is Errors.NON_EMPTY_GROUP


def test_a_change_says_why_it_was_not_sent() -> None:
    settings = {
        "bootstrap.servers": f"127.0.0.1:{free_port()}",
        "default.api.timeout.ms": "300",
        "request.timeout.ms": "300",
    }

    async def run() -> None:
        async with AdminBase(settings) as admin:
            with pytest.raises(UnreachableError, match="check that a broker listens"):
                await admin._change(CreateTopicsRequest(topics=[]), "creation")
            with pytest.raises(UnreachableError):
                await admin._node_ids()

    asyncio.run(run())
