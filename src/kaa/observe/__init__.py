"""What a node says about itself: figures that are measured while it serves.

| module | what it owns |
|---|---|
| `loop_guard` | watches that nothing holds the event loop, and names what does |
| `loop_lag` | how late the event loop is: what one slow step costs every other client |
"""
