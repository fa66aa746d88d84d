"""Stores for agent frameworks: each module serves one framework, and needs only that one installed."""
