"""Claude Code: the session files under ``~/.claude/projects``."""
