"""Listeners and connections: the only code that touches the sockets of clients.

| module | what it owns |
|---|---|
| `network` | where sockets come from: bind and accept as a Protocol |
| `transport` | one Protocol over a socket, and the plain transport |
| `tls` | the same over TLS |
| `outbox` | answers waiting to leave a connection, in the order of their requests |
| `connection` | frames in, answers out, back-pressure |
| `listener` | a listening socket, its connections, their limits and their end |
| `pages` | whether the bytes of a file are in memory |
| `pending` | answers that are not known yet: the one form for them |

Nothing here knows what a request means. A `Dispatcher` is given a frame and returns an answer now,
later, or none.
"""
