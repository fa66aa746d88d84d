"""How well search finds what people ask for: questions with known answers, over real transcripts."""
