"""The header line with the end of a stream, in the form in which it is written for every append."""

OFFSET_LINE = b"Stream-Next-Offset: 0000000000000000_%016d\r\n"
"""The header line that says where a stream ends, as ``offsets.encode`` would say it."""
