"""Search: every event of a workspace, found by its words, ranked by BM25.

``tokenizer`` splits text into words, ``text`` says which parts of an event are searched, ``query`` and
``scope`` are the request, ``matching`` translates it for Tantivy, ``index`` stores and ranks, ``snippet``
shows where the words are. The index is derived: it can be rebuilt from the log.
"""
