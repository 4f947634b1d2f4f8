"""What consumer, share and streams groups have in common (Kafka calls them modern groups).

Each kind has a room of its own beside this one, which adds what only it has.

| module | what it owns |
|---|---|
| `group` | a group whose members follow a target assignment, and how its records become memory |
| `groups` | how a group is found, joined and full, and members that miss their deadlines |
| `records` | the records that every kind has, written and read |
| `timers` | deadlines of members |
"""
