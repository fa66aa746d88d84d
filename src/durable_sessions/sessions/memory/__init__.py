"""Memory: what several sessions share. Each scope is a log of its own, and everything else is read from it.

``records`` is the format of a scope's log, ``history`` what follows from it, ``recording`` the decision to
append to it beside a session's event, ``scopes`` the service that reads it, ``directory`` how any partition
reaches the one that has the scopes of a workspace.
"""
