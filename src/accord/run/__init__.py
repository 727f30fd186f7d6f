"""Runs a plan: the live stage graph.

In: a `Plan` and `Request`s. Out: `Event`s, time lines, `ServiceStatus`. May import: terms.
The door and every replica are nodes joined by links; the router and the supervisor live beside the
door; each replica is a process with one engine.
"""
