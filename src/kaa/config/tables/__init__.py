"""The tables of settings, a module for each area.

| module | settings |
|---|---|
| `broker` | of brokers, and the few that only Kaa has |
| `client` | of producers, consumers and admin clients |
| `entity` | of users, client metrics and addresses, by which quotas go too |
| `group` | of groups |
| `security` | TLS and SASL, which brokers and clients share |
| `topic` | of topics |
| `vocabulary` | how rows are written |
"""
