"""How a client proves who it is, and knows whom it talks to.

| module | what it owns |
|---|---|
| `key_stores` | PKCS12 files as PEM text |
| `tls` | TLS from Kafka's `ssl.*` settings |
| `oauth` | OAUTHBEARER: where tokens come from |
| `sasl` | PLAIN, SCRAM and the exchange of SASL messages |
"""
