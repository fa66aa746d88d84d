"""What requests mean: the faces of the server."""
