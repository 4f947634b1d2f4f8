"""Settings of security that brokers and clients share, as a client has them.

| module | settings |
|---|---|
| `sasl` | SASL |
| `ssl` | TLS |
"""
