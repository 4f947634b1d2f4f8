"""The error table: codes without gaps, lookups that never fail, one sentence each."""

from kaa.wire.errors import Errors


def test_codes_run_without_a_gap_from_minus_one() -> None:
    assert [int(error) for error in Errors] == list(range(-1, len(Errors) - 1))


def test_of_finds_every_code() -> None:
    for error in Errors:
        assert Errors.of(int(error)) is error


def test_of_reads_a_code_of_a_newer_kafka_as_unknown_server_error() -> None:
    assert Errors.of(len(Errors)) is Errors.UNKNOWN_SERVER_ERROR
    assert Errors.of(-32768) is Errors.UNKNOWN_SERVER_ERROR


def test_every_message_is_one_short_sentence_of_its_own() -> None:
    messages = [error.message for error in Errors]
    assert len(set(messages)) == len(messages)
    for message in messages:
        assert message.endswith(".")
        assert ". " not in message
        assert len(message) <= 72


def test_retriable_tells_a_passing_state_from_a_lasting_one() -> None:
    assert Errors.NOT_LEADER_OR_FOLLOWER.retriable
    assert Errors.COORDINATOR_LOAD_IN_PROGRESS.retriable
    assert not Errors.NONE.retriable
    assert not Errors.INVALID_RECORD.retriable


def test_an_error_is_the_int_of_its_code() -> None:
    assert int(Errors.INVALID_RECORD) == 87
    assert Errors.INVALID_RECORD.to_bytes(2, "big") == b"\x00\x57"
    assert Errors.INVALID_RECORD.name == "INVALID_RECORD"
