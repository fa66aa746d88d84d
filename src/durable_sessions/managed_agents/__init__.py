"""Anthropic's dialect: agents, environments and the shapes of its events."""
