"""Assignors of the coordinator: `table` has them by name and what they look at, `uniform` and
`heterogeneous` are the two halves of the uniform one.

| module | what it owns |
|---|---|
| `simple` | the assignor of share groups: every partition is read by somebody |
| `sticky` | the assignor of streams groups: tasks stay where they were |
| `heterogeneous` | the uniform assignor where members subscribe to different topics |
| `table` | server-side assignors: who of a consumer group reads which partition |
| `uniform` | the uniform assignor where all members subscribe to the same topics |
"""
