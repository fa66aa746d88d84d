"""Durable Sessions: the append-only event log for AI agents."""

__version__ = "0.1.0"
