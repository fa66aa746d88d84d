"""How an event becomes something that a person reads: the one way, for terminals and for exports.

An event becomes an Entry, whose texts are clean: no control character, no escape sequence, no half of a
surrogate pair is left in them. What shows an Entry has to escape for its own medium, and nothing else.
"""
