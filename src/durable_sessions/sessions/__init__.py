"""Sessions: typed events and a lifecycle on top of JSON streams.

A session is the stream ``sessions/<id>`` of its workspace. Its events are the stream's messages. What
clients set on a session (title, metadata, agent …) is the attribute ``session`` of the stream; what is
derived from its events (status, usage …) is the attribute ``summary``, and each of its threads has an
attribute of its own. Derived attributes change in the same batch of the log as the events.
"""
