"""Durable Streams semantics as a pure state machine: no I/O, no clock, no event loop.

``decide`` modules look at the state, an operation and the time, and return effects or raise
the refusal. ``State.apply`` carries an effect out. Nothing else changes state, so replaying
the effects gives the same state again.
"""
