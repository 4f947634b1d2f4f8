"""`kaa group`: consumer groups, how far they are, and how to move them.

| module | what it owns |
|---|---|
| `group` | the command: lists, describes and deletes groups, and shows their lag |
| `offsets` | `kaa group seek` and `delete-offsets`: what changes how far a group is |
| `seek` | the plan of `kaa group seek`: which offset each partition of a group gets |
| `watch` | `kaa group watch`: two looks at a group make rates, time behind and a direction |
"""
