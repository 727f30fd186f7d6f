"""The HTTP door: an OpenAI-compatible API, metrics and the console page over a running service.

In: a `Service` (run/ports.py) and a `DoorConfig`. Out: an aiohttp application (`app.make_app`) and a
bound server (`server.serve`). May import: terms, run. Invariants: whatever a client sends is checked
here before a stage sees it; a client that leaves cancels its request; one that stalls holds it back.
"""
