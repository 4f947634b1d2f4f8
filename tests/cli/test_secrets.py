from __future__ import annotations

import pytest

from kaa.cli.secrets import HIDDEN, without_secrets


@pytest.mark.parametrize(
    "text",
    [
        "ssl.keystore.password=s3cret",
        "ssl.key.password : s3cret",
        'sasl.jaas.config=org.X required username="u" \\\n  password="s3cret";',
        'x LoginModule required username="u" password="s3cret";',
        '{"name": "sasl.jaas.config", "password": "s3cret"}',
        '{"ssl.keystore.password": "s3\\"s3cret"}',
        "KAFKA_SSL_KEY_PASSWORD=s3cret",
        "KAFKA_KEYSTORE_PASS=s3cret",
        "KAA_REGISTRY_PW=s3cret",
        "db.pwd: s3cret",
        "started with --password=s3cret and more",
        "-X basic.auth.user.info=user:s3cret",
        "Authorization: Bearer s3cret.s3cret-s3cret",
        "asked http://user:s3cret@registry:8081/subjects",
        "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----",
        "ssl.keystore.key=-----BEGIN s3cret",
        "aws.secret.access.key=s3cret",
        "delegation.token.secret.key=s3cret",
        "confluent.license=s3cret",
        # In the middle of lines.
        "[1] INFO ssl.key.password = s3cret, ssl.protocol = TLSv1.3",
        "[1] INFO values: ssl.key.password: s3cret",
        "INFO sasl.jaas.config=org.X required username='u' password='s3cret' more='s3cret'; next",
        "INFO sasl.jaas.config = org.X required username=u password=s3cret s3cret",
        "-X a=b -X sasl.jaas.config='org.X required password=\"s3cret\";' topic",
        "password='s3cret' and more",
        '{"name": "ssl.key.password", "value": "s3cret"}',
        '[{"name": "sasl.jaas.config", "value": "x password=\\"s3cret\\";"}]',
        "('ssl.key.password', 's3cret')",
        '["ssl.key.password", "s3cret"]',
        "{'ssl.key.password': 's3cret', 'a': 'b'}",
        '{"line": "{\\"password\\": \\"s3cret\\"}"}',
        "{user: me, password: s3cret}",
        "kafka-configs --add-config SCRAM-SHA-256=[iterations=8192,password=s3cret]",
        "kaa x --password s3cret -b host",
        "asked https://store/x?sv=1&X-Amz-Signature=s3cret&y=2",
        "DefaultEndpointsProtocol=https;AccountKey=s3cret;x=y",
        "http://user:p@s3cret@host:1/x",
        "http://:s3cret@host",
        "asked https://s3cret@host/x",
        "https://store.blob.core.windows.net/x?sv=1&sig=s3cret",
        "https://store.blob.core.windows.net/x?sig=s3cret&sv=1",
        "KAFKA_SSL_KEYSTORE_KEY=s3cret s3cret",
        "jdbc:postgresql://me:s3cret@host/db in the middle",
    ],
)
def test_secrets_go(text: str) -> None:
    shown = without_secrets(text)
    assert "s3cret" not in shown, shown
    assert HIDDEN in shown


@pytest.mark.parametrize(
    "text",
    [
        "log.dirs=/data",
        "listeners=PLAINTEXT://localhost:9092",
        '{"name": "retention.ms", "value": "7"}',
        "key.serializer=x",
        "topic orders has 3 partitions",
        "ssl.keystore.location=/etc/store.pem",
        "[1] INFO a = b, http://host:80/x@y",
        "see kaa topic --help",
        "compass=1, bypass: 2",
        "design=1, config: 2",
        "abfss://container@account.dfs.core.windows.net/x",
        "http://host/x@y",
        "http://host?x=a@y",
        '{"port": 9092}',
    ],
)
def test_all_else_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_lines_beside_a_secret_stay() -> None:
    shown = without_secrets("a=1\nssl.key.password=x y z\nb=2\n")
    assert shown == f"a=1\nssl.key.password={HIDDEN}\nb=2\n"


def test_what_stands_beside_a_secret_in_its_line_stays() -> None:
    shown = without_secrets("[1] INFO ssl.key.password = s3cret, ssl.protocol = TLSv1.3")
    assert shown == f"[1] INFO ssl.key.password = {HIDDEN}, ssl.protocol = TLSv1.3"
    assert without_secrets("a http://u:s3cret@host:1/x b") == f"a http://{HIDDEN}@host:1/x b"


@pytest.mark.parametrize(
    "text",
    [
        '{"password": 12345678, "a": 1}',
        '{"a": 1, "db.password":-1234.5678e3}',
        '{"name": "ssl.key.password", "value": 12345678}',
        '{"line": "{\\"password\\": 12345678}"}',
    ],
)
def test_a_secret_that_is_a_number_goes(text: str) -> None:
    shown = without_secrets(text)
    assert "34" not in shown, shown
    assert "5678" not in shown, shown
    assert HIDDEN in shown
