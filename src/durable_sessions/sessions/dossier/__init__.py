"""Dossiers: what a family of sessions has to show for itself, filled from its events alone."""
