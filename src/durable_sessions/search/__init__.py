"""Search: every event of a workspace, found by its words, ranked by BM25.

``words`` takes text apart, ``text`` says what of an event is text, ``query`` and ``scope`` are what was asked
for, ``matching`` says that in the terms of Tantivy, ``index`` holds and ranks, ``snippet`` shows where. The
index follows from the log and can be made again from it.
"""
