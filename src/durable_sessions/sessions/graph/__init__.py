"""The session as the unit of work: strict events, what they decide at the tip, and views folded from them.

Everything here is pure. Types that begin with ``ds.`` are strict (:mod:`schemas`); all others are free. What
can refuse an append is :mod:`control`, kept at the tip; everything else is read from the log by :mod:`fold`,
which steps through the same control, so that both agree.
"""
