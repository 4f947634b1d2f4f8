"""InitProducerId, key 22: an id and epoch for a producer.

A producer without a transactional id gets a new id at epoch 0 whenever it asks; an id that it
brings along is not continued, since only a transactional id ties a producer to its past. With one,
the transaction coordinator gives the id that the transactional id has, with a higher epoch, and
aborts what an earlier instance left open.

Version 3 says which id and epoch the producer has, when it goes on after an error (KIP-360).
Version 4 knows PRODUCER_FENCED. Version 6 is for two-phase commit (KIP-939), and served only where
transaction.two.phase.commit.enable is set: with Enable2Pc transactions never time out, and with
KeepPreparedTxn the open transaction is taken over instead of being aborted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.transaction.machine import Initialisation
from kaa.coordinators.transaction.state import NO_TIMEOUT_MS
from kaa.net.pending import Pending
from kaa.serving.transactions.additions import fenced_for_client
from kaa.wire.errors import Errors
from kaa.wire.messages.k22_init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from kaa.coordinators.transaction.machine import ProducerIdAndEpoch
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest

_FENCED_VERSION: Final = 4


def handle(
    services: Services, request: InitProducerIdRequest, context: RequestContext
) -> Answer[InitProducerIdResponse]:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(Errors.INVALID_REQUEST)
    if request.transactional_id is None:
        return Pending(_new_id(services))
    settings = services.transactions.settings()
    if not request.transactional_id:
        return _refused(Errors.INVALID_REQUEST)
    if request.enable_2pc and not settings.two_phase_enable:
        return _refused(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    timeout_ms = NO_TIMEOUT_MS if request.enable_2pc else request.transaction_timeout_ms
    if not request.enable_2pc and not 0 < timeout_ms <= settings.timeout_ms_max:
        return _refused(Errors.INVALID_TRANSACTION_TIMEOUT)
    wish = Initialisation(
        request.transactional_id,
        timeout_ms,
        request.producer_id,
        request.producer_epoch,
        request.keep_prepared_txn,
    )
    is_known = context.api_version >= _FENCED_VERSION
    return Pending(
        services.transactions.init_producer(
            wish,
            lambda refusal: _refused(fenced_for_client(refusal.error, is_known=is_known)),
            _respond,
        )
    )


async def _new_id(services: Services) -> InitProducerIdResponse:
    producer_id = await services.producer_ids.next_id()
    if isinstance(producer_id, Errors):
        return _refused(producer_id)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _respond(producer: ProducerIdAndEpoch | Errors) -> InitProducerIdResponse:
    if isinstance(producer, Errors):
        return _refused(producer)
    return InitProducerIdResponse(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        ongoing_txn_producer_id=producer.ongoing_producer_id,
        ongoing_txn_producer_epoch=producer.ongoing_producer_epoch,
    )


def _refused(error: Errors) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
