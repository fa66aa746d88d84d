"""Sessions: typed events and a lifecycle on top of JSON streams.

A session is the stream ``sessions/<id>`` of its workspace. Its events are the stream's messages. What
clients say of a session (title, metadata, agent …) is the attribute ``session`` of the stream; what
follows from its events (status, usage …) is the attribute ``summary``, and each of its threads
has one of its own. Attributes change in the same batch of the log as the events they follow from.
"""
