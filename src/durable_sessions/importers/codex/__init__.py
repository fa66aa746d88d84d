"""Codex: the rollout files under ``~/.codex/sessions``, of every generation."""
