"""Settings of clients.

| module | settings |
|---|---|
| `admin` | of admin clients |
| `common` | what all clients have in common |
| `consumer` | of consumers |
| `producer` | of producers |
"""
