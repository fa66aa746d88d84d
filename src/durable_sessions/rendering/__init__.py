"""How an event becomes something that a person reads: the one way, for terminals and for exports.

An event becomes a ``TranscriptEntry``, whose texts are clean: no control character, no escape sequence and no
half of a surrogate pair is left in them. Whoever shows one has to escape it for its own medium, and no more.
"""
