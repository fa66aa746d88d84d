"""What can go wrong with a sandbox: one class for each kind of failure."""


class SandboxError(Exception):
    """The base of all errors that a sandbox raises."""


class SandboxOpenError(SandboxError):
    """The sandbox could not be opened; nothing of it is left behind."""


class SandboxLostError(SandboxError):
    """The sandbox is gone, and with it its files; a command that was running may have had its effects."""


class SandboxClosedError(SandboxError):
    """The sandbox was closed by whoever opened it."""


class SandboxPathError(SandboxError):
    """The path is none of this sandbox: it leaves the working directory, or is no file or directory there."""


class SandboxBoundError(SandboxError):
    """A command, an input, a file or a directory is larger than a sandbox takes."""


class SandboxUnsupportedError(SandboxError):
    """This kind of sandbox cannot do that."""
